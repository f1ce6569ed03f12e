"""Learning curves: validation success over iterations and over wall seconds, with bands; numbers and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.learning.results import Results
from benchmarks.report import assemble
from benchmarks.statistics import seed_band

_GREY = "#b4bac3"


@dataclass(frozen=True)
class CurveSeries:
    """One method's curve: five lists of equal length; rates in 0..1."""

    method: str
    colour: str
    iteration: list[float]
    seconds: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


def curve_series(results: Results, mode: str) -> list[CurveSeries]:
    """Average the runs of every method at the iterations that all its seeds have; seconds are averaged as well.

    Args:
        results: a results file.
        mode: "greedy" or "sampled".
    """
    series = []
    for method in results.config.methods:
        runs = [run for run in results.runs if run.method == method]
        at = [{point.iteration: point for point in run.curve} for run in runs]
        shared = sorted(set.intersection(*(set(points) for points in at)))
        bands = []
        for iteration in shared:
            rates = [points[iteration].greedy if mode == "greedy" else points[iteration].success for points in at]
            bands.append(seed_band(rates, results.config.validation_tasks))
        series.append(
            CurveSeries(
                method,
                assemble.colour_of(method),
                [float(iteration) for iteration in shared],
                [float(np.mean([points[iteration].seconds for points in at])) for iteration in shared],
                [band.mean for band in bands],
                [band.low for band in bands],
                [band.high for band in bands],
            )
        )
    return series


def band_words(results: Results) -> str:
    """What the bands are."""
    seeds, tasks = len(results.config.seeds), results.config.validation_tasks
    if seeds == 1:
        return f"one seed; band: 95 % Wilson interval over {tasks} validation tasks"
    return f"mean of {seeds} seeds; band: 95 % t interval over seeds; {tasks} validation tasks each"


def draw_curves(results: Results, path: Path) -> None:
    """Write the curves as a PNG: greedy and sampled success (rows) over iterations, each method before the others."""
    methods = results.config.methods
    figure, grid = assemble.new_figure(
        2, len(methods), (max(8.4, 1 + 2.6 * len(methods)), 6.4), 130, sharex=True, sharey="row"
    )
    for row, mode in enumerate(("greedy", "sampled")):
        series = curve_series(results, mode)
        for line, panel in zip(series, grid[row], strict=True):
            for other in series:
                panel.plot(other.iteration, _percent(other.mean), color=_GREY, lw=1)
            panel.fill_between(
                line.iteration, _percent(line.low), _percent(line.high), color=line.colour, alpha=0.2, lw=0
            )
            panel.plot(line.iteration, _percent(line.mean), color=line.colour, marker="o", ms=3.5, lw=1.8)
            if row == 0:
                panel.set_title(assemble.label(line.method), fontsize=11)
            else:
                panel.set_xlabel("iteration")
        grid[row][0].set_ylim(bottom=0)
        temperature = "" if mode == "greedy" else f", T = {results.config.temperature:g}"
        grid[row][0].set_ylabel(f"validation success [%]\n({mode} play{temperature})")
    env = assemble.label(results.config.env)
    figure.suptitle(f"{env} from one clone per seed:\n{band_words(results)}", fontsize=10.5)
    assemble.write_picture(figure, path)


def _percent(values: list[float]) -> list[float]:
    return [100 * value for value in values]
