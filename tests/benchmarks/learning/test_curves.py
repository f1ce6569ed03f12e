"""Learning curves."""

import dataclasses

import pytest

pytest.importorskip("matplotlib")

from benchmarks.learning.results import load

from benchmarks.report.assemble import colour_of
from benchmarks.training.learning import CurvePoint
from benchmarks.training.learning_page import band_words, curve_series, draw_curves


@pytest.fixture
def found(finished_run):
    return load(finished_run / "results.json")


def test_curves_average_seeds_at_shared_iterations(found):
    # grpo: seed 0 has iterations 0, 2, 4; seed 1 has 0 and 2 only.
    curves = {
        0: [CurvePoint(0, 0.0, 0.1, 0.2), CurvePoint(2, 10.0, 0.3, 0.4), CurvePoint(4, 20.0, 0.5, 0.6)],
        1: [CurvePoint(0, 0.0, 0.1, 0.4), CurvePoint(2, 30.0, 0.5, 0.6)],
    }
    runs = [dataclasses.replace(run, curve=curves[run.seed]) if run.method == "grpo" else run for run in found.runs]
    series = curve_series(dataclasses.replace(found, runs=runs), "greedy")[0]
    assert series.method == "grpo"
    assert series.iteration == [0, 2]
    assert series.seconds == [0, 20]
    assert series.mean == pytest.approx([0.3, 0.5])
    assert all(low <= mean <= high for low, mean, high in zip(series.low, series.mean, series.high, strict=True))
    assert curve_series(dataclasses.replace(found, runs=runs), "sampled")[0].mean == pytest.approx([0.1, 0.4])


def test_the_picture_is_a_large_png(found, tmp_path):
    draw_curves(found, tmp_path / "curves.png")
    content = (tmp_path / "curves.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width > 1000
    assert height > 700


def test_the_band_is_explained(found):
    assert band_words(found) == "mean of 2 seeds; band: 95 % t interval over seeds; 6 validation tasks each"
    one = dataclasses.replace(found, config=dataclasses.replace(found.config, seeds=[0]))
    assert band_words(one) == "one seed; band: 95 % Wilson interval over 6 validation tasks"


def test_methods_have_distinct_colours():
    names = ["grpo", "rloo", "gigpo", "rewardflow", "graphgpo"]
    assert len({colour_of(name) for name in names}) == 5
    assert colour_of("a new method").startswith("#")
