"""The picture of the ranking study: what two measures make of every method as its groups grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.ranking.results import PlayerResult, Ranking, Score
from benchmarks.ranking.table import CORRELATIONS, EXPLAINED
from benchmarks.report.curves import colour_of

#: Rows of the picture.
SHOWN = ("within", "sign_all")


def main_scores(player: PlayerResult) -> dict[str, list[Score]]:
    """Scores of the credits that stand for a method: its own step part, or all it has; over sizes, by credit.

    Methods whose only signal is the episode rank the steps of a state alike, so that one of them stands for all.
    """
    found: dict[str, list[Score]] = {}
    for score in player.scores:
        if score.credit in ("grpo", "random") or score.credit == f"{score.method} step":
            found.setdefault(score.credit, []).append(score)
    return found


def draw_ranking(ranking: Ranking, path: Path, dpi: int = 120) -> None:
    """Write the picture as a PNG: one column per player, one row per measure, bands of 95 % over levels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    players, sizes = ranking.players, ranking.config.sizes
    figure = Figure(figsize=(1.2 + 2.6 * len(players), 6.4), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    grid: Any = figure.subplots(len(SHOWN), len(players), sharex=True, sharey="row", squeeze=False)
    for row, measure in enumerate(SHOWN):
        scale = 1 if measure in CORRELATIONS else 100
        for column, player in enumerate(players):
            panel = grid[row][column]
            for name, scores in main_scores(player).items():
                found = [(score.size, score.measures[measure]) for score in scores]
                x = [size for size, interval in found if interval is not None]
                bands = [interval for _, interval in found if interval is not None]
                colour = "#888888" if name == "random" else colour_of(scores[0].method)
                low, high = ([scale * value for value in ends] for ends in (
                    (band.low for band in bands), (band.high for band in bands)))  # fmt: skip
                panel.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)
                panel.plot(
                    x, [scale * band.mean for band in bands], color=colour, lw=1.8, label=name,
                    ls=":" if name == "random" else "-", marker="" if name == "random" else "o", ms=3.5,
                )  # fmt: skip
            panel.set_xscale("log", base=2)
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.grid(alpha=0.25, lw=0.6)
            panel.spines[["top", "right"]].set_visible(False)
            if row == 0:
                panel.set_title(f"{player.name}\n{100 * player.success:.0f} % solved", fontsize=10)
            if row == len(SHOWN) - 1:
                panel.set_xlabel("episodes per group")
        title = EXPLAINED[measure][0]
        grid[row][0].set_ylabel(title if scale == 1 else f"{title} [%]")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.savefig(path)
