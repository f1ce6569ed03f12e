"""Learning curves: validation success over iterations and over wall seconds, with bands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.learning.results import Results
from benchmarks.report import assemble
from benchmarks.statistics import seed_band


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
    """Write the curves as a PNG: greedy and sampled success (rows), over iterations and seconds (columns)."""
    figure, grid = assemble.new_figure(2, 2, (11, 7.4), 130, sharey="row")
    # Many bands on top of each other would hide all of them.
    alpha = min(0.15, 0.6 / len(results.config.methods))
    for row, mode in enumerate(("greedy", "sampled")):
        series = curve_series(results, mode)
        for column, (axis, label) in enumerate((("iteration", "iteration"), ("seconds", "training time [s]"))):
            panel = grid[row][column]
            for line in series:
                x = getattr(line, axis)
                panel.fill_between(x, _percent(line.low), _percent(line.high), color=line.colour, alpha=alpha, lw=0)
                name = assemble.label(line.method)
                panel.plot(x, _percent(line.mean), color=line.colour, marker="o", ms=3.5, lw=1.8, label=name)
            panel.set_xlabel(label)
            panel.margins(x=0.02)
        temperature = "" if mode == "greedy" else f", T = {results.config.temperature:g}"
        grid[row][0].set_ylabel(f"validation success [%]\n({mode} play{temperature})")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    env = assemble.label(results.config.env)
    figure.suptitle(f"{env} from one clone per seed: {band_words(results)}", fontsize=10.5)
    assemble.write_picture(figure, path)


def _percent(values: list[float]) -> list[float]:
    return [100 * value for value in values]
