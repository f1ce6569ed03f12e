"""The shaping study: numbers by hand from made-up trainings, files that do not fit, and a small real run."""

import re

import pytest

from baselines.sb3.shaping import Point, SB3Config
from baselines.sb3.sokoban import Levels
from benchmarks.machine import describe_machine
from benchmarks.report.page import signed, write_page
from benchmarks.statistics import Interval
from benchmarks.training.shaping import COMPARED, STUDY, ShapingConfig, ShapingResults, ShapingRun, compared, curves
from tests.benchmarks.command import run

TRAINING = SB3Config(levels=Levels(training=4, held_out=2), steps=2048, evaluate_every=1024)

#: Success on four training levels after 1024 and 2048 steps, by reward and seed.
SUCCESS = {
    "success": [("0000", "1000"), ("0000", "1100")],
    "shaped": [("1000", "1110"), ("1100", "1110")],
    "own": [("0000", "0000"), ("0000", "0001")],
}


def made_up() -> ShapingResults:
    runs = []
    for reward in COMPARED:
        for seed, rows in enumerate(SUCCESS[reward]):
            points = [Point(0, 0.0, "0000", "00", 0, 0)]
            known = 3 if reward == "shaped" else 0
            points += [Point(1024 * (i + 1), 2.0 * i, row, "01", known, 7 * known) for i, row in enumerate(rows)]
            runs.append(ShapingRun(reward, seed, points))
    config = ShapingConfig(list(COMPARED), [0, 1], TRAINING)
    return ShapingResults(config, runs, version=1, created="2030-01-01 00:00 UTC", machine=describe_machine())


def test_rows_curves_and_colours_by_hand() -> None:
    found = {reward: compared(made_up(), reward) for reward in COMPARED}
    # At the end: 3 of 8, 6 of 8, 1 of 8; held out one of two everywhere.
    assert {reward: (row[0].split(" ")[0], row[2].split(" ")[0]) for reward, row in found.items()} == {
        "success": ("37.5", "50.0"), "shaped": ("75.0", "50.0"), "own": ("12.5", "50.0"),
    }  # fmt: skip
    differences = {reward: [row[i][0].split(" ")[0] for i in (1, 3)] for reward, row in found.items()}
    assert differences == {"success": ["-", "-"], "shaped": ["+37.5", "+0.0"], "own": ["-25.0", "+0.0"]}
    assert {row[-1] for row in found.values()} == {"2"}
    training, held_out = (panel.lines for panel in curves(made_up()))
    shaped = training["1 for success, shaped"]
    assert {steps: band.mean for steps, band in shaped.items()} == {"0": 0.0, "1.024": 0.375, "2.048": 0.75}
    assert [band.mean for band in held_out["the environment's own"].values()] == [0.0, 0.5, 0.5]
    intervals = [Interval((low + high) / 2, low, high) for low, high in ((0.1, 0.6), (-0.1, 0.8), (-0.4, -0.2))]
    assert [signed(interval)[1] for interval in intervals] == ["up", "", "down"]
    assert signed(None) == ("-", "")


def test_results_survive_the_file_and_the_page_holds_table_and_picture(tmp_path) -> None:
    STUDY.save(made_up(), tmp_path / "shaping.json")
    found = STUDY.load(tmp_path / "shaping.json")
    assert found == made_up()
    picture, words, page = write_page(STUDY.shown(found), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text("utf-8")
    assert text.count('<th scope="row">') == 3
    assert "data:image/png;base64," in text
    assert "+37.5" in text
    assert re.search(r"\| 1 for success, shaped \| 75.0 \[.*\] \| \+37.5 \[", words.read_text("utf-8"))
    assert "](shaping.png)" in words.read_text("utf-8")
    # Nothing is fetched from elsewhere.
    assert re.findall(r'(?:src|href)="(?!data:)', text) == []


@pytest.mark.long
def test_the_quick_study_runs_continues_and_repeats_itself(tmp_path) -> None:
    folder = tmp_path / "study"
    run("--quick", "--jobs", "2", "--out", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock", "config.json", "own-seed0.json", "own-seed1.json", "report.html", "report.md", "shaped-seed0.json",
        "shaped-seed1.json", "shaping.json", "shaping.png", "success-seed0.json", "success-seed1.json",
    ]  # fmt: skip
    found = STUDY.load(folder / "shaping.json")
    assert [run.points[-1].known > 0 for run in found.runs] == [run.reward == "shaped" for run in found.runs]
    # A training that is done again finds the same.
    (folder / "shaped-seed1.json").unlink()
    assert "5 of 6 trainings are finished" in run("--quick", "--out", str(folder))

    def outcomes(results: ShapingResults) -> list[list[tuple[str, str, int]]]:
        return [[(p.training, p.held_out, p.states) for p in run.points] for run in results.runs]

    assert outcomes(STUDY.load(folder / "shaping.json")) == outcomes(found)
