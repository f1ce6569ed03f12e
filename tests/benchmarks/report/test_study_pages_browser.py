"""The pages of the league, search and shaping studies in a browser: controls respond, no message is logged."""

import pytest
from selenium.webdriver.common.by import By

from benchmarks.play.search_players import STUDY as SEARCH
from benchmarks.play.search_players import SearchConfig, drawn
from benchmarks.report.page import write_page
from benchmarks.training.shaping import STUDY as SHAPING
from benchmarks.truth.credits import names_of
from benchmarks.truth.episodes import QUICK, make_config
from benchmarks.truth.league import LEAGUE
from tests.benchmarks.training.test_shaping import made_up


def inside(browser, name):
    return browser.find_element(By.ID, name).get_attribute("innerHTML")


@pytest.mark.parametrize(("envs", "tables"), [(["sokoban"], 5), (["sokoban", "searchqa"], 5)])
def test_the_league_page_shows_its_tables_and_its_picture(browser, tmp_path, envs, tables):
    config = make_config(QUICK, envs=envs, players=["expert 50", "expert 75"], tasks=2, credits=names_of("published"))
    browser.get(write_page(LEAGUE.shown(LEAGUE.play(config, tmp_path)), tmp_path)[-1].as_uri())
    shown = browser.find_elements(By.CSS_SELECTOR, ".table")
    assert len(shown) == tables
    assert all(each.find_elements(By.CSS_SELECTOR, "tbody tr") for each in shown)
    assert browser.find_element(By.CSS_SELECTOR, ".figure img").get_property("naturalWidth") > 400
    assert browser.get_log("browser") == []


def test_the_shaping_page_shows_its_table_and_curves(browser, tmp_path):
    study = made_up()
    browser.get(write_page(SHAPING.shown(study), tmp_path)[-1].as_uri())
    assert len(browser.find_elements(By.CSS_SELECTOR, ".table tbody tr")) == len(study.config.rewards)
    assert browser.find_element(By.CSS_SELECTOR, ".figure img").get_property("naturalWidth") > 600
    page = browser.find_element(By.TAG_NAME, "html")
    assert page.get_property("scrollWidth") <= page.get_property("clientWidth")
    assert browser.get_log("browser") == []


def test_the_search_page_draws_the_searches_that_its_controls_name(browser, tmp_path):
    config = SearchConfig(
        env="AgentRL/Sokoban-v0", policy="random", split="test", tasks=4, methods=["best_of_n", "mcts"],
        budgets=[20, 60], listed=True, rollout=0, outcome="score", gamma=0.99, fresh=False, shown=3, seed=0,
    )  # fmt: skip
    study = SEARCH.play(config, tmp_path)
    browser.get(write_page(SEARCH.shown(study), tmp_path)[-1].as_uri())
    graphs = {(graph.method, graph.stage): graph for graph in drawn(study)}
    assert len(graphs) == 4
    for (method, stage), graph in graphs.items():
        browser.find_element(By.CSS_SELECTOR, f"#graph-method button[data-value='{method}']").click()
        browser.find_element(By.CSS_SELECTOR, f"#graph-stage button[data-value='{stage}']").click()
        assert len(browser.find_elements(By.CSS_SELECTOR, "#graph-picture .node")) == len(graph.nodes)
        assert f"{graph.won} of {graph.episodes} simulations solved" in inside(browser, "graph-summary")
    assert browser.get_log("browser") == []
