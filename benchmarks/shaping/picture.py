"""The learning curves of the shaping study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baselines.comparison import Interval
from benchmarks.shaping.results import ShapingResults
from benchmarks.shaping.table import NAMES
from benchmarks.statistics import seed_band

#: One colour per reward (Okabe and Ito's palette).
COLOURS = {"success": "#E69F00", "shaped": "#009E73", "own": "#999999"}


def curve(results: ShapingResults, reward: str, kind: str) -> tuple[list[int], list[Interval]]:
    """Steps of the evaluations, and greedy success there with its band.

    Args:
        results: of the study.
        reward: which.
        kind: "training" or "held_out" levels.
    """
    runs = results.of(reward)
    count = getattr(results.config.training.levels, kind)
    steps = [point.steps for point in runs[0].points]
    rates = [[getattr(run.points[i], kind).count("1") / count for run in runs] for i in range(len(steps))]
    return steps, [seed_band(values, count) for values in rates]


def band_words(results: ShapingResults) -> str:
    """What the bands are."""
    seeds = len(results.config.seeds)
    if seeds == 1:
        return "one seed; band: 95 % Wilson interval over levels"
    return f"mean of {seeds} seeds; band: 95 % t interval over seeds"


def draw_shaping(results: ShapingResults, path: Path, dpi: int = 110) -> None:
    """Write the curves as a PNG: training levels on the left, held-out ones on the right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.9), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(1, 2, sharey=True)
    levels = results.config.training.levels
    for panel, kind, title in (
        (panels[0], "training", f"{levels.training} training levels"),
        (panels[1], "held_out", f"{levels.held_out} held-out levels"),
    ):
        for reward in results.config.rewards:
            steps, bands = curve(results, reward, kind)
            colour = COLOURS[reward]
            low, high = [100 * band.low for band in bands], [100 * band.high for band in bands]
            x = [count / 1000 for count in steps]
            panel.fill_between(x, low, high, color=colour, alpha=0.16, lw=0)
            means = [100 * band.mean for band in bands]
            panel.plot(x, means, color=colour, marker="o", ms=3.5, lw=1.8, label=NAMES[reward])
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("environment steps [thousands]")
        panel.grid(alpha=0.25, lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.margins(x=0.02)
    panels[0].set_ylabel("greedy success [%]")
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(f"PPO on symbolic Sokoban by reward: {band_words(results)}", fontsize=10.5)
    figure.savefig(path)
