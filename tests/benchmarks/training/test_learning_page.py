"""What the default benchmark shows: the table and curves of a real run; the page is self-contained and inert."""

import dataclasses
import io
import json
import re

import pytest
from rich.console import Console

from baselines.environments.registry import settings_of
from baselines.runs.data_source import noted
from benchmarks.report.assemble import LONGEST, colour_of, write_picture
from benchmarks.report.page import html, terminal_table, write_page
from benchmarks.training.learning import STUDY, CurvePoint
from benchmarks.training.learning_page import (
    band_words,
    caption,
    cells,
    curve_series,
    difference,
    draw_curves,
    kind_tables,
    page_data,
    success,
)
from benchmarks.training.run import KindScore


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def render(found):
    page = STUDY.shown(found)
    return html(page, {each.file: b"" for each in page.figures})


def test_the_page_fetches_nothing_and_equal_results_are_an_equal_page(finished_run, found, tmp_path):
    page = (finished_run / "report.html").read_text("utf-8")
    assert len(page) < 3_000_000
    # Of the chart library's script, which is the only one from elsewhere, the browser test says the same.
    ours = re.sub(r"/\* BEGIN (bokeh[-a-z]*\.min\.js) \*/.*?/\* END \1 \*/", "", page, flags=re.DOTALL)
    assert len(page) - len(ours) > 1_000_000
    assert set(re.findall(r"https?://[^\s\"'<)]+", ours)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"<(script|img|iframe)[^>]*\ssrc=(?!.data:)|<link[^>]*stylesheet|@import|url\((?!#)", ours)
    page = (finished_run / "report.html").read_text("utf-8")
    written = {path.name: path.read_text("utf-8") for path in write_page(STUDY.shown(found), tmp_path)[1:]}
    assert written["report.html"] == page
    assert noted(finished_run).words in page
    assert "| rewardflow | " in written["report.md"]


def test_the_page_holds_table_curves_episodes_graphs_and_warnings(found, finished_run):
    page = (finished_run / "report.html").read_text("utf-8")
    for policy in ("random", "expert", "clone", "grpo", "rewardflow"):
        assert f'<th scope="row">{policy}</th>' in page
    data = data_of(page)
    for mode in ("greedy", "sampled"):
        assert data["curves"][mode] == curve_series(found, mode)
    assert list(data["episodes"]) == ["random", "expert", "clone", "grpo", "rewardflow"]
    assert len(data["graphs"]) == 4
    assert all(0 <= node[axis] <= 1 for graph in data["graphs"] for node in graph["nodes"] for axis in "xy")
    assert all(line.startswith("iteration ") for run in found.runs for line in run.warnings)
    runs = [
        dataclasses.replace(run, warnings=["iteration 3: <lost>"] if run.method == "grpo" else []) for run in found.runs
    ]
    assert render(dataclasses.replace(found, runs=runs)).count("<li>grpo, seed 0, iteration 3: &lt;lost&gt;</li>") == 1
    none = [dataclasses.replace(run, warnings=[]) for run in found.runs]
    assert "<h2>Warnings</h2>" not in render(dataclasses.replace(found, runs=none))


def test_boards_have_tiles_and_text_environments_are_shown_as_text(found):
    data = page_data(found)
    symbols = {symbol for graph in data["graphs"] for node in graph["nodes"] for symbol in node["text"]}
    assert symbols - {"\n"} <= set(data["tiles"])
    assert (settings_of("AgentRL/ALFWorld-v0").tiles, settings_of("AgentRL/Sokoban-v0").tiles["X"]) == (None, "box")


def test_observations_cannot_break_out_of_the_data_and_long_ones_are_cut(found):
    for evil in ("</script><script>alert(1)</script> <b>&", "y" * 1_000_000):
        frame = dataclasses.replace(found.episodes[0].frames[0], text=evil)
        episode = dataclasses.replace(found.episodes[0], frames=[frame])
        page = render(dataclasses.replace(found, episodes=[episode]))
        assert len(page) < 3_000_000
        assert "<script>alert" not in page
        shown = data_of(page)["episodes"][episode.policy][0]["frames"][0]["text"]
        assert shown == evil if len(evil) < LONGEST else shown.startswith("yyy") and len(shown) < LONGEST + 100


def test_rows_are_averages_and_differences_those_of_trained_policies(found):
    assert "Tiny language-model policies are cloned" in render(found)
    other = dataclasses.replace(found, config=dataclasses.replace(found.config, model="some/folder", clone_tasks=0))
    assert "Language-model policies are trained without a warm start" in render(other)
    assert [row[0] for row in STUDY.shown(found).tables[0].texts] == ["random", "expert", "clone", "grpo", "rewardflow"]
    for policy in ("clone", "grpo"):
        greedy = found.of(policy, "greedy")
        assert [score.seed for score in greedy] == [0, 1]
        solved = sum(score.success.count("1") for score in greedy)
        assert success(found, policy, "greedy").mean == pytest.approx(solved / 24)
        assert cells(found, policy)[4] == f"{sum(score.mean_length for score in greedy) / 2:.1f}"
    assert success(found, "expert", "greedy").mean == 1.0
    for policy in ("random", "expert", "clone", "grpo", "rewardflow"):
        assert (difference(found, policy) is not None) == (policy in ("grpo", "rewardflow"))
        assert (cells(found, policy)[-1] == "-") == (policy in ("random", "expert"))
    assert success(found, "random", "greedy") is success(found, "expert", "sampled") is None
    for method in ("grpo", "rewardflow"):
        own, clone = (success(found, policy, "greedy").mean for policy in (method, "clone"))
        assert difference(found, method).mean == pytest.approx(own - clone)


@pytest.mark.parametrize("width", [60, 80, 130])
@pytest.mark.parametrize("name", ["rewardflow", "reinforce_plus_plus_baseline"])
def test_the_terminal_shows_every_policy_and_number_at_any_width(finished_run, tmp_path, width, name):
    text = (finished_run / "results.json").read_text("utf-8").replace("rewardflow", name)
    (tmp_path / "results.json").write_text(text, "utf-8")
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal_table(STUDY.shown(STUDY.load(tmp_path / "results.json")).tables[0], console))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in console.file.getvalue()
    if name == "rewardflow":
        assert all(policy in " ".join(lines) for policy in ("random", "expert", "clone", "grpo", "rewardflow"))
    if width >= 80:
        assert "100.0" in " ".join(lines)


def test_the_caption_says_how_many_tasks_and_seeds(found):
    assert caption(found).startswith("12 held-out test tasks, 2 training seeds.")
    assert "admissible" not in caption(found)
    setup = dataclasses.replace(found.config.setup, policy={"admissible": True})
    limited = dataclasses.replace(found, config=dataclasses.replace(found.config, setup=setup))
    assert caption(limited).endswith("Models write admissible commands only, and are trained under that restriction.")


def test_kinds_of_tasks_have_a_table_per_split(found):
    setting = found.config.env, settings_of("alfworld")
    assert kind_tables(found) == []
    kinds = list(setting[1].kind_names)[:2]
    scores = [
        KindScore("clone", seed, "greedy", "test", {kinds[0]: seed, kinds[1]: 1}, {kinds[0]: 2, kinds[1]: 1})
        for seed in (0, 1)
    ]  # fmt: skip
    config = dataclasses.replace(found.config, env=setting[1].id)
    (table,) = kind_tables(dataclasses.replace(found, config=config, kinds=scores))
    # One of four, two of two, three of six.
    assert table.rows == [["clone, greedy", "25.0", "100.0", "50.0"]]
    assert table.heads[-1] == "All (6)"


def test_curves_average_seeds_at_shared_iterations(found):
    # grpo: seed 0 has iterations 0, 2, 4; seed 1 has 0 and 2 only.
    curves = {
        0: [CurvePoint(0, 0.0, 0.1, 0.2), CurvePoint(2, 10.0, 0.3, 0.4), CurvePoint(4, 20.0, 0.5, 0.6)],
        1: [CurvePoint(0, 0.0, 0.1, 0.4), CurvePoint(2, 30.0, 0.5, 0.6)],
    }
    runs = [dataclasses.replace(run, curve=curves[run.seed]) if run.method == "grpo" else run for run in found.runs]
    series = curve_series(dataclasses.replace(found, runs=runs), "greedy")[0]
    assert (series["method"], series["iteration"], series["seconds"]) == ("grpo", [0, 2], [0, 20])
    assert series["mean"] == pytest.approx([0.3, 0.5])
    bands = zip(series["low"], series["mean"], series["high"], strict=True)
    assert all(low <= mean <= high for low, mean, high in bands)
    assert curve_series(dataclasses.replace(found, runs=runs), "sampled")[0]["mean"] == pytest.approx([0.1, 0.4])


def test_the_picture_is_large_and_explains_its_band_in_distinct_colours(found, tmp_path):
    write_picture(draw_curves(found), tmp_path / "curves.png")
    content = (tmp_path / "curves.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width > 1000
    assert height > 700
    assert band_words(found) == "mean of 2 seeds; band: 95 % t interval over seeds; 6 validation tasks each"
    one = dataclasses.replace(found, config=dataclasses.replace(found.config, seeds=[0]))
    assert band_words(one) == "one seed; band: 95 % Wilson interval over 6 validation tasks"
    names = ["grpo", "rloo", "gigpo", "rewardflow", "graphgpo"]
    assert len({colour_of(name) for name in names}) == 5
    assert colour_of("a new method").startswith("#")
