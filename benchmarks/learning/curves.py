"""Learning curves: validation success over iterations and over wall seconds, with bands; a picture and charts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.foreign_text import clean
from benchmarks.learning.results import Results
from benchmarks.report import assemble
from benchmarks.statistics import seed_band

_GREY = "#7c8796"


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


def charts(results: Results) -> dict[str, Any]:
    """Bokeh's JSON of one chart per play and axis, by "greedy iteration" and so on; values on hover, names hide."""
    from bokeh.embed import json_item

    names: dict[str, str] = {}
    return {
        f"{mode} {axis}": _renumbered(json_item(_chart(curve_series(results, mode), mode, axis)), names)
        for mode in ("greedy", "sampled")
        for axis in ("iteration", "seconds")
    }


def _renumbered(value: Any, names: dict[str, str]) -> Any:
    """Return Bokeh's JSON with ids that do not count what the process drew before: equal results, equal page."""
    if isinstance(value, dict):
        return {
            name: names.setdefault(item, f"p{len(names)}")
            if name in ("id", "root_id") and isinstance(item, str)
            else _renumbered(item, names)
            for name, item in value.items()
        }
    return [_renumbered(item, names) for item in value] if isinstance(value, list) else value


def _chart(series: list[CurveSeries], mode: str, axis: str) -> Any:
    from bokeh.models import ColumnDataSource, HoverTool
    from bokeh.plotting import figure

    plot = figure(
        height=400, sizing_mode="stretch_width", toolbar_location=None, tools="",
        x_axis_label="iteration" if axis == "iteration" else "training time of one run [s]",
        y_axis_label=f"validation success [%], {mode} play",
        background_fill_color=None, border_fill_color=None, outline_line_color=None,
    )  # fmt: skip
    lines: list[Any] = []
    for line in series:
        x, (mean, low, high) = getattr(line, axis), map(_percent, (line.mean, line.low, line.high))
        words = [f"{m:.1f} [{a:.1f}, {b:.1f}]" for m, a, b in zip(mean, low, high, strict=True)]
        source = ColumnDataSource({"x": x, "mean": mean, "low": low, "high": high, "words": words})
        name, colour = clean(line.method, 60), line.colour
        alpha = min(0.14, 0.6 / len(series))
        plot.varea("x", "low", "high", source=source, color=colour, alpha=alpha, legend_label=name)
        drawn = plot.line("x", "mean", source=source, color=colour, line_width=2.2, legend_label=name, name=name)
        plot.scatter("x", "mean", source=source, color=colour, size=6, legend_label=name)
        lines.append(drawn)
    plot.add_tools(HoverTool(renderers=lines, mode="vline", tooltips=[("$name", "@words")]))
    # Grey reads on a light page as well as on a dark one.
    for one in (*plot.axis, *plot.grid, plot.legend[0]):
        for key in one.properties():
            if key.endswith(("text_color", "tick_line_color")) or key == "axis_line_color":
                setattr(one, key, _GREY)
    plot.grid.grid_line_color, plot.grid.grid_line_alpha = _GREY, 0.25
    plot.legend.click_policy, plot.legend.background_fill_alpha, plot.legend.border_line_alpha = "hide", 0.0, 0.0
    plot.legend.orientation, plot.legend.location, plot.legend.spacing = "horizontal", "center", 14
    plot.add_layout(plot.legend[0], "above")
    return plot


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
