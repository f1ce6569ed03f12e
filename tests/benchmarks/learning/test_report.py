"""The page: self-contained, complete, safe against what observations may hold."""

import dataclasses
import json
import re

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("bokeh")

from benchmarks.data_source import noted
from benchmarks.learning.curves import curve_series
from benchmarks.learning.report import page_data, render
from benchmarks.learning.results import load
from benchmarks.training.stack import tile_names


@pytest.fixture
def found(finished_run):
    return load(finished_run / "results.json")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_asks_for_nothing_from_outside(finished_run):
    page = (finished_run / "report.html").read_text("utf-8")
    assert len(page) < 3_000_000
    # Of the chart library's script, which is the only one from elsewhere, the browser test says the same.
    ours = re.sub(r"/\* BEGIN (bokeh[-a-z]*\.min\.js) \*/.*?/\* END \1 \*/", "", page, flags=re.DOTALL)
    assert len(page) - len(ours) > 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<)]+", ours)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=|<link[^>]*stylesheet|@import|url\((?!#)", ours)


def test_the_page_holds_table_curves_episodes_and_graphs(found, finished_run):
    page = (finished_run / "report.html").read_text("utf-8")
    for policy in ("random", "expert", "clone", "grpo", "rewardflow"):
        assert f"</i>{policy}</th>" in page
    data = data_of(page)
    for mode in ("greedy", "sampled"):
        assert data["curves"][mode] == [dataclasses.asdict(series) for series in curve_series(found, mode)]
    assert list(data["episodes"]) == ["random", "expert", "clone", "grpo", "rewardflow"]
    assert len(data["graphs"]) == 4
    assert all(0 <= node[axis] <= 1 for graph in data["graphs"] for node in graph["nodes"] for axis in "xy")


def test_equal_results_are_an_equal_page_whatever_was_drawn_before(found, finished_run):
    source = noted(finished_run)
    page = (finished_run / "report.html").read_text("utf-8")
    assert render(found) == render(found) == page
    assert source.words in page


def test_what_the_runs_warned_of_stands_below_the_table(found):
    assert all(line.startswith("iteration ") for run in found.runs for line in run.warnings)
    runs = [
        dataclasses.replace(run, warnings=["iteration 3: <lost>"] if run.method == "grpo" else []) for run in found.runs
    ]
    page = render(dataclasses.replace(found, runs=runs))
    assert page.count("<li>grpo, seed 0, iteration 3: &lt;lost&gt;</li>") == 1
    none = [dataclasses.replace(run, warnings=[]) for run in found.runs]
    assert "Warnings of the training runs" not in render(dataclasses.replace(found, runs=none))


def test_every_symbol_of_the_boards_has_a_tile(found):
    data = page_data(found)
    symbols = {symbol for graph in data["graphs"] for node in graph["nodes"] for symbol in node["text"]}
    assert symbols - {"\n"} <= set(data["tiles"])


def test_text_environments_are_shown_as_text():
    assert tile_names("AgentRL/ALFWorld-v0") is None
    assert tile_names("AgentRL/Sokoban-v0")["X"] == "box"


def test_observations_cannot_break_out_of_the_data(found):
    evil = "</script><script>alert(1)</script> <b>&"
    episode = dataclasses.replace(
        found.episodes[0], frames=[dataclasses.replace(found.episodes[0].frames[0], text=evil)]
    )
    page = render(dataclasses.replace(found, episodes=[episode]))
    assert "<script>alert" not in page
    assert data_of(page)["episodes"][episode.policy][0]["frames"][0]["text"] == evil


def test_the_lead_says_what_was_trained_and_from_where(found):
    assert "Tiny language-model policies are cloned" in render(found)
    other = dataclasses.replace(found, config=dataclasses.replace(found.config, model="some/folder", clone_tasks=0))
    assert "Language-model policies are trained without a warm start" in render(other)
