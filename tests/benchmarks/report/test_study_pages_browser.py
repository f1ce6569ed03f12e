"""The pages of the ranking and the shaping study in a browser: controls respond, and the console stays empty."""

import pytest

pytest.importorskip("selenium")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("torch")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from benchmarks.ranking.report import write_ranking_report
from benchmarks.ranking.study import make_config, run_ranking
from benchmarks.shaping.report import write_shaping_report
from tests.benchmarks.shaping.test_study import made_up


def inside(browser, name):
    return browser.find_element(By.ID, name).get_attribute("innerHTML")


def test_the_ranking_page_follows_its_controls(browser, tmp_path):
    study = run_ranking(make_config(4), tmp_path)
    browser.get(write_ranking_report(study, tmp_path)[1].as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, "#panels svg")) == len(study.players)
    seen = [inside(browser, "panels")]
    Select(browser.find_element(By.ID, "measure")).select_by_value("sign")
    seen.append(inside(browser, "panels"))
    browser.find_element(By.CSS_SELECTOR, "#kind button[data-value='differences']").click()
    seen.append(inside(browser, "panels"))
    browser.find_element(By.CSS_SELECTOR, "#ranking-legend button").click()
    seen.append(inside(browser, "panels"))
    assert len(set(seen)) == 4
    table = inside(browser, "values")
    Select(browser.find_element(By.ID, "player")).select_by_visible_text("expert 75")
    assert inside(browser, "values") != table
    shown = [words for words in browser.find_elements(By.CSS_SELECTOR, ".player-words") if words.is_displayed()]
    assert len(shown) == 1
    panel = browser.find_element(By.CSS_SELECTOR, "#panels svg")
    webdriver.ActionChains(browser).move_to_element(panel).perform()
    assert "gigpo step" in panel.text
    assert browser.get_log("browser") == []


def test_the_shaping_page_shows_its_table_and_curves(browser, tmp_path):
    study = made_up()
    browser.get(write_shaping_report(study, tmp_path)[1].as_uri())
    heads = browser.find_elements(By.CSS_SELECTOR, "#table thead th")
    assert len(heads) == 1 + len(study.config.rewards)
    picture = browser.find_element(By.CSS_SELECTOR, "#curves img")
    assert picture.get_property("naturalWidth") > 600
    page = browser.find_element(By.TAG_NAME, "html")
    assert page.get_property("scrollWidth") <= page.get_property("clientWidth")
    assert browser.get_log("browser") == []
