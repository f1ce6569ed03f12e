"""Pages in a browser: everything that can be clicked changes what is shown, and no message is logged."""

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from benchmarks.play.search_players import STUDY as SEARCH
from benchmarks.play.search_players import SearchConfig, drawn
from benchmarks.report.page import write_page
from benchmarks.training.learning import STUDY
from benchmarks.training.learning_page import curve_series
from benchmarks.training.shaping import STUDY as SHAPING
from benchmarks.truth.credits import names_of
from benchmarks.truth.episodes import QUICK, make_config
from benchmarks.truth.league import LEAGUE
from tests.benchmarks.training.test_studies import made_up


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


@pytest.fixture
def page(browser, finished_run):
    browser.get((Path(finished_run) / "report.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def press(page, group, value):
    page.find_element(By.CSS_SELECTOR, f"#{group} button[data-value='{value}']").click()


def test_the_console_catches_errors(browser, finished_run):
    # The check behind all other tests of this file must be able to fail.
    browser.get((Path(finished_run) / "report.html").as_uri())
    browser.execute_script("setTimeout(() => { throw new Error('seen') }, 0)")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert any("seen" in entry["message"] for entry in browser.get_log("browser"))


PLOT = """
const done = arguments[0], wait = () => {
  if (!document.querySelector("#chart .bk-Figure")) return setTimeout(wait, 20);
  done(Bokeh.documents.at(-1).roots().map((plot) => {
    const lines = plot.renderers.filter((one) => one.name);
    return {
      x: plot.below[0].axis_label, from: plot.y_range.start,
      lines: lines.map((one) => [one.name, Array.from(one.data_source.data.mean), one.glyph.line_color.value]),
      bands: plot.renderers.filter((one) => one.glyph.type === "VArea").map((one) => one.glyph.fill_color.value),
    };
  }));
};
setTimeout(wait, 200);
"""


def test_nothing_is_fetched_and_the_chart_follows_its_buttons(page, finished_run):
    page.execute_async_script(PLOT)
    assert page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    greedy = page.execute_async_script(PLOT)
    press(page, "curve-mode", "sampled")
    sampled = page.execute_async_script(PLOT)
    press(page, "curve-axis", "seconds")
    seconds = page.execute_async_script(PLOT)
    assert page.find_element(By.ID, "chart-words").text == "validation success [%], sampled play"
    assert {panel["x"] for panel in seconds} == {"training time of one run [s]"}
    assert [panel["lines"] for panel in seconds] == [panel["lines"] for panel in sampled]
    for shown, mode in ((greedy, "greedy"), (sampled, "sampled")):
        first, second = curve_series(STUDY.load(finished_run / "results.json"), mode)
        grpo, rewardflow = (
            [line["method"], pytest.approx([100 * mean for mean in line["mean"]])] for line in (first, second)
        )
        colours = [first["colour"], second["colour"]]
        assert {(panel["x"], panel["from"]) for panel in shown} == {("iteration", 0)}
        # All means in colour, then each method with its own band, and only its own, before the others in grey.
        assert shown[0]["lines"] == [[*grpo, colours[0]], [*rewardflow, colours[1]]]
        assert [line[:2] for line in shown[1]["lines"]] == [rewardflow, grpo]
        assert [line[:2] for line in shown[2]["lines"]] == [grpo, rewardflow]
        assert [panel["lines"][1][2] for panel in shown] == [colours[1], *colours]
        assert [panel["bands"] for panel in shown] == [[], [colours[0]], [colours[1]]]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_axe_finds_nothing(page, width):
    script = Path(pytest.importorskip("axe_core_python").__file__).with_name("axe.min.js").read_text("utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.refresh()
        page.execute_async_script(PLOT)
        assert "smoke test" in page.find_element(By.CLASS_NAME, "notice").text
        for place in ("html", ".table .scroll", "#graph-picture"):
            found = page.find_element(By.CSS_SELECTOR, place)
            assert found.get_property("scrollWidth") <= max(found.get_property("clientWidth"), 1), place
        page.execute_script(script)
        check = "axe.run().then((found) => arguments[0](found.violations.map((one) => [one.id, one.nodes[0].html])))"
        assert page.execute_async_script(check) == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_episodes_are_stepped_through_and_played(page) -> None:
    policies = Select(page.find_element(By.ID, "episode-policy"))
    assert [option.text for option in policies.options] == ["random", "expert", "clone", "grpo", "rewardflow"]
    boards = set()
    for policy in ("random", "expert", "rewardflow"):
        policies.select_by_value(policy)
        tasks = Select(page.find_element(By.ID, "episode-task"))
        for task in range(len(tasks.options)):
            tasks.select_by_index(task)
            boards.add((task, inside(page, "episode-board")))
    # The first board of a task is the same for all policies, and differs between tasks.
    assert len(boards) == len(tasks.options) == 8
    policies.select_by_value("expert")
    assert page.find_element(By.ID, "episode-result").text == "solved"
    first = inside(page, "episode-board")
    page.find_element(By.ID, "episode-next").click()
    assert "step 1 of" in page.find_element(By.ID, "episode-status").text
    assert inside(page, "episode-board") != first
    page.find_element(By.ID, "episode-back").click()
    assert inside(page, "episode-board") == first
    page.find_element(By.ID, "episode-slider").send_keys(Keys.END)
    assert page.find_element(By.ID, "episode-status").text.endswith("solved")
    page.find_elements(By.CSS_SELECTOR, "#episode-actions button")[1].click()
    assert "step 1 of" in page.find_element(By.ID, "episode-status").text
    page.find_element(By.ID, "episode-first").click()
    assert inside(page, "episode-board") == first
    Select(page.find_element(By.ID, "episode-policy")).select_by_value("expert")
    page.find_element(By.ID, "episode-slider").send_keys(Keys.END, Keys.ARROW_LEFT)
    page.find_element(By.ID, "episode-play").click()
    page.execute_async_script("setTimeout(arguments[0], 1200)")
    assert page.find_element(By.ID, "episode-status").text.endswith("solved")
    assert page.find_element(By.ID, "episode-play").text == "play"


def test_the_state_graph_and_its_key_follow_method_stage_and_colour(page):
    seen = []
    for method in ("grpo", "rewardflow"):
        press(page, "graph-method", method)
        for stage in ("clone", "trained"):
            press(page, "graph-stage", stage)
            for colour in ("gain", "advantage"):
                press(page, "graph-edges", colour)
                seen.append(inside(page, "graph-picture"))
                assert f"{colour} above 0" in page.find_element(By.ID, "graph-key").text
    assert all("data-node" in picture for picture in seen)
    # Of the clone's episodes the gains are the same for both methods; everything else differs.
    assert seen[0] == seen[4]
    assert len(set(seen)) >= 5
    for method in ("grpo", "rewardflow"):
        press(page, "graph-method", method)
        for stage in ("clone", "trained"):
            press(page, "graph-stage", stage)
            labels = page.find_elements(By.CSS_SELECTOR, "#graph-picture .node")
            words = {label.get_attribute("aria-label").split(": ")[1] for label in labels}
            dots = page.find_elements(By.CSS_SELECTOR, "#graph-key span:has(i)")
            listed = [dot.text.removeprefix("★ ").removesuffix(" to success") for dot in dots]
            assert sorted(listed) == sorted(word.removesuffix(" to success") for word in words)


def test_nodes_show_states_and_actions(page) -> None:
    nodes = page.find_elements(By.CSS_SELECTOR, "#graph-picture .node")
    assert len(nodes) > 3
    boards = set()
    for i, node in enumerate(nodes[:6]):
        page.execute_script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", node)
        node.find_element(By.TAG_NAME, "circle").click()
        assert "chosen" in node.get_attribute("class")
        assert page.find_element(By.ID, "graph-text").text.startswith(f"state {i}")
        boards.add(inside(page, "graph-board"))
    assert len(boards) == len(nodes[:6])
    before = inside(page, "graph-board")
    button = page.find_element(By.CSS_SELECTOR, "#graph-out button")
    target = button.get_attribute("title").removeprefix("go to state ")
    button.click()
    assert page.find_element(By.ID, "graph-text").text.startswith(f"state {target}:")
    assert inside(page, "graph-board") != before
    node = page.find_elements(By.CSS_SELECTOR, "#graph-picture .node")[1]
    page.execute_script("arguments[0].focus()", node)
    node.send_keys(Keys.ENTER)
    assert page.find_element(By.ID, "graph-text").text.startswith("state 1")
