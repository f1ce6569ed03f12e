"""Texts from outside are inert in all three pages: nothing runs, nothing breaks, and writing never raises."""

import dataclasses
import re

import pytest

pytest.importorskip("selenium")
pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("torch")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from benchmarks.report.assemble import LONGEST
from benchmarks.report.page import write_page
from benchmarks.training.learning import STUDY as LEARNING
from benchmarks.training.shaping import STUDY as SHAPING
from benchmarks.truth.league import RANKING, configure_ranking
from tests.benchmarks.training.test_shaping import made_up

SCRIPT = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>"
TEXTS = {
    "script": SCRIPT,
    "attribute": "\"'><b onmouseover=window.ran=true>`${window.ran = true}`",
    "comment": "<!--<script>-->",
    "surrogates": "a\ud800b\udfff" + SCRIPT,
    "controls": "\x00\x08\x1b[31m\x7f\x9b\u202e\u2028" + SCRIPT,
    "formula": r"$\frac{1$ {{ 7 * 7 }} {% raw %} $_{^$",
    "long": SCRIPT + "y" * 1_000_000,
}


@pytest.fixture(params=TEXTS, scope="module")
def text(request):
    return TEXTS[request.param]


def opened(browser, page):
    """Open a page and check that it is inert."""
    content = page.read_bytes().decode("utf-8")
    assert len(content) < 3_000_000
    assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]", content)
    browser.get(page.as_uri())
    assert browser.execute_script("return window.ran") is None
    assert browser.find_elements(By.CSS_SELECTOR, "img[onerror], b[onmouseover]") == []


def test_the_page_of_learning(browser, finished_run, tmp_path, text):
    found = LEARNING.load(finished_run / "results.json")
    episodes = [
        dataclasses.replace(
            episode, task_id=text,
            frames=[dataclasses.replace(frame, text=text, action=text if frame.action else "")
                    for frame in episode.frames[:3]],
        )
        for episode in found.episodes[:8]
    ]  # fmt: skip
    graph = found.graphs[0]
    graphs = [
        dataclasses.replace(
            graph, task_id=text, nodes=[dataclasses.replace(node, text=text) for node in graph.nodes],
            edges=[dataclasses.replace(edge, action=text) for edge in graph.edges],
        ),
        *found.graphs[1:],
    ]  # fmt: skip
    machine = dataclasses.replace(found.machine, cpu=text, versions={text: text})
    config = dataclasses.replace(found.config, model=text)
    hostile = dataclasses.replace(
        found, created=text, config=config, machine=machine, episodes=episodes, graphs=graphs
    )  # fmt: skip
    LEARNING.save(hostile, tmp_path / "results.json")
    LEARNING.load(tmp_path / "results.json")
    opened(browser, write_page(LEARNING.shown(hostile), tmp_path)[-1])
    policy = Select(browser.find_element(By.ID, "episode-policy"))
    for name in [option.text for option in policy.options]:
        policy.select_by_visible_text(name)
        browser.find_element(By.ID, "episode-next").click()
    assert len(browser.find_element(By.ID, "episode-board").get_property("textContent")) < LONGEST + 100
    assert browser.execute_script("return window.ran") is None
    assert browser.get_log("browser") == []


@pytest.fixture(scope="module")
def ranking(tmp_path_factory):
    return RANKING.play(configure_ranking(groups=2, player=["random", "expert 50"]), tmp_path_factory.mktemp("ranking"))


def test_the_page_of_the_ranking_study(browser, ranking, tmp_path, text):
    standings = []
    for standing in ranking.standings:
        scores = [
            dataclasses.replace(each, credit=text) if each.credit == "rloo" else each for each in standing.main.scores
        ]
        standings.append(dataclasses.replace(standing, held=[dataclasses.replace(standing.main, scores=scores)]))
    hostile = dataclasses.replace(
        ranking, created=text, standings=[dataclasses.replace(standings[0], player=text), *standings[1:]],
        machine=dataclasses.replace(ranking.machine, system=text),
    )  # fmt: skip
    opened(browser, write_page(RANKING.shown(hostile), tmp_path)[-1])
    assert browser.get_log("browser") == []


def test_the_page_of_the_shaping_study(browser, tmp_path, text):
    study = made_up()
    machine = dataclasses.replace(study.machine, cpu=text, python=text)
    opened(browser, write_page(SHAPING.shown(dataclasses.replace(study, created=text, machine=machine)), tmp_path)[-1])
    assert browser.get_log("browser") == []
