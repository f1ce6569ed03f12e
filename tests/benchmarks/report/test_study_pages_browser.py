"""The pages of the ranking, league, search and shaping studies in a browser: controls respond, no message is logged."""

import itertools

import pytest

pytest.importorskip("selenium")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("torch")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from benchmarks.league.report import write_league_report
from benchmarks.league.study import QUICK, run_league
from benchmarks.league.study import make_config as make_league_config
from benchmarks.play.search_players import STUDY as SEARCH
from benchmarks.play.search_players import SearchConfig, drawn
from benchmarks.ranking.report import write_ranking_report
from benchmarks.ranking.study import make_config, run_ranking
from benchmarks.report.page import write_page
from benchmarks.training.shaping import STUDY as SHAPING
from tests.benchmarks.training.test_shaping import made_up


def inside(browser, name):
    return browser.find_element(By.ID, name).get_attribute("innerHTML")


PANELS = """
const done = arguments[0];
setTimeout(() => done(Bokeh.documents.at(-1).roots().map((plot) => plot.renderers.filter((one) => one.name)
  .map((one) => [one.name, Array.from(one.data_source.data.mean), one.data_source.data.words[0]]))), 300);
"""


def test_the_ranking_page_follows_its_controls(browser, tmp_path):
    study = run_ranking(make_config(4), tmp_path)
    browser.get(write_ranking_report(study, tmp_path)[1].as_uri())
    seen = [browser.execute_async_script(PANELS)]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#panels .bk-Figure")) == len(study.players) == len(seen[0])
    Select(browser.find_element(By.ID, "measure")).select_by_value("sign")
    seen.append(browser.execute_async_script(PANELS))
    browser.find_element(By.CSS_SELECTOR, "#kind button[data-value='differences']").click()
    seen.append(browser.execute_async_script(PANELS))
    browser.find_element(By.CSS_SELECTOR, "#ranking-legend button").click()
    seen.append(browser.execute_async_script(PANELS))
    assert all(now != before for before, now in itertools.pairwise(seen))
    estimates = next(line for line in seen[0][0] if line[0] == "gigpo step")
    measured = next(score for score in study.players[0].scores if score.credit == "gigpo step").measures["within"]
    assert estimates[1][0] == pytest.approx(measured.mean, abs=1e-5)
    assert estimates[2] == f"{measured.mean:.3f} [{measured.low:.3f}, {measured.high:.3f}]"
    table = inside(browser, "values")
    Select(browser.find_element(By.ID, "player")).select_by_visible_text("expert 75")
    assert inside(browser, "values") != table
    shown = [words for words in browser.find_elements(By.CSS_SELECTOR, ".player-words") if words.is_displayed()]
    assert len(shown) == 1
    assert browser.get_log("browser") == []


def test_the_league_page_sorts_by_mouse_and_keyboard(browser, tmp_path):
    config = make_league_config(QUICK, envs=["sokoban"], players=["expert 50", "expert 75"], tasks=2)
    study = run_league(config, tmp_path)
    browser.get(write_league_report(study, tmp_path)[1].as_uri())

    def column(index):
        cells = browser.find_elements(By.CSS_SELECTOR, f"#values tbody tr > :nth-child({index})")
        return [cell.text.split()[0] for cell in cells]

    assert column(1)[0] == "grpo"
    browser.find_element(By.CSS_SELECTOR, "#values thead th:nth-child(3) button").click()
    ranks = [float(value) for value in column(3) if value != "-"]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) > 5
    # The head keeps the focus, so that the same key turns the order round.
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert [float(value) for value in column(3) if value != "-"] == ranks[::-1]
    head = browser.find_element(By.CSS_SELECTOR, "#values thead th[aria-sort]")
    assert head.get_attribute("aria-sort") == "ascending"
    Select(browser.find_element(By.ID, "columns")).select_by_value("sokoban")
    heads = browser.find_elements(By.CSS_SELECTOR, "#values thead th")
    assert [head.text.split(",")[0] for head in heads] == ["credit", "part", "expert 50", "expert 75"]
    groups = inside(browser, "groups")
    Select(browser.find_element(By.ID, "size")).select_by_visible_text("2")
    assert inside(browser, "groups") != groups
    assert browser.get_log("browser") == []


def test_the_shaping_page_shows_its_table_and_curves(browser, tmp_path):
    study = made_up()
    browser.get(write_page(SHAPING.shown(study), tmp_path)[-1].as_uri())
    heads = browser.find_elements(By.CSS_SELECTOR, ".table thead th")
    assert len(heads) == 1 + len(study.config.rewards)
    picture = browser.find_element(By.CSS_SELECTOR, ".figure img")
    assert picture.get_property("naturalWidth") > 600
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
