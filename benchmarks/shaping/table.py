"""The table of the shaping study: computed once, printed with rich and put into the report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from rich.table import Table
from rich.text import Text

from agentgym.trajectory import Floats
from benchmarks.console import NONE, table
from benchmarks.learning.table import percent, points
from benchmarks.shaping.results import ShapingResults
from benchmarks.statistics import CONFIDENCE, Interval, bits, paired_comparison, paired_difference, success_interval

#: What a reward is called in tables.
NAMES = {
    "success": "1 for success",
    "shaped": "1 for success, shaped",
    "own": "the environment's own",
}


@dataclass(frozen=True)
class Row:
    """One reward, over seeds and levels; shares in 0..1 with 95 % intervals.

    Attributes:
        reward: its name.
        final: greedy success on the training levels at the end.
        final_difference: minus that of the reward without shaping, paired; None for the latter.
        average: greedy success on the training levels, averaged over the evaluations of a training (the area under
            its curve): how early it learned.
        average_difference: the same for the average.
        held_out: greedy success on the held-out levels at the end.
        held_out_difference: the same for held-out levels.
        known: training levels with a known way to success at the end, mean over seeds; None without shaping.
        seconds: training time, mean over seeds.
    """

    reward: str
    final: Interval
    final_difference: Interval | None
    average: Interval
    average_difference: Interval | None
    held_out: Interval
    held_out_difference: Interval | None
    known: float | None
    seconds: float


def table_rows(results: ShapingResults) -> list[Row]:
    """One row per reward, in the order of the configuration; differences are to the first."""
    first = results.config.rewards[0]
    base, base_area = [run.points[-1] for run in results.of(first)], averages(results, first)
    rows = []
    for reward in results.config.rewards:
        ends, area = [run.points[-1] for run in results.of(reward)], averages(results, reward)
        training, held_out = [end.training for end in ends], [end.held_out for end in ends]
        differences: list[Interval | None] = [None, None, None]
        if reward != first:
            found = (
                paired_difference(training, [end.training for end in base]),
                paired_comparison(area, base_area, confidence=CONFIDENCE),
                paired_difference(held_out, [end.held_out for end in base]),
            )
            differences = [interval.within(-1.0, 1.0) for interval in found]
        rows.append(
            Row(
                reward,
                final=success_interval(training),
                final_difference=differences[0],
                average=paired_comparison(area, np.zeros_like(area), confidence=CONFIDENCE).within(0.0, 1.0),
                average_difference=differences[1],
                held_out=success_interval(held_out),
                held_out_difference=differences[2],
                known=float(np.mean([end.known for end in ends])) if reward == "shaped" else None,
                seconds=float(np.mean([end.seconds for end in ends])),
            )
        )
    return rows


def averages(results: ShapingResults, reward: str) -> Floats:
    """Mean success over the evaluations after the start; float64 (seeds, training levels)."""
    return np.array([bits([point.training for point in run.points[1:]]).mean(axis=0) for run in results.of(reward)])


def caption(results: ShapingResults) -> str:
    """What the numbers are, in one paragraph."""
    training, several = results.config.training, len(results.config.seeds) > 1
    levels = training.levels
    return (
        f"Greedy success in %, on {levels.training} training levels at the end and averaged over all evaluations, and "
        f"on {levels.held_out} held-out levels at the end; {len(results.config.seeds)} "
        f"seed{'s' if several else ''} of {training.steps:,} steps each, 95 % intervals over "
        f"{'seeds and levels' if several else 'levels'}. Differences to '{NAMES['success']}' in percentage points, "
        f"paired level by level{' and seed by seed' if several else ''}. Known ways: training levels to whose success "
        "the graph knows a way at the end. Seconds of training are wall time; runs side by side slow each other down."
    )


def cells(row: Row) -> list[tuple[str, str]]:
    """The texts of a row, each with the sign of what it says: "up", "down" or ""."""

    def difference(interval: Interval | None) -> tuple[str, str]:
        clear = interval is not None and interval.excludes_zero
        return points(interval), ("up" if interval and interval.mean > 0 else "down") if clear else ""

    return [
        (percent(row.final), ""),
        difference(row.final_difference),
        (percent(row.average), ""),
        difference(row.average_difference),
        (percent(row.held_out), ""),
        difference(row.held_out_difference),
        (NONE if row.known is None else f"{row.known:.1f}", ""),
        (f"{row.seconds:.0f}", ""),
    ]


#: Titles of the columns after the first.
COLUMNS = (
    "at the end", "difference", "average", "difference", "held out", "difference", "known ways", "seconds",
)  # fmt: skip
#: Columns that the table needs with every row on one line.
_FULL_WIDTH = 96


def rich_table(results: ShapingResults, width: int = 120) -> Table:
    """The table for a terminal of `width` columns, one column per reward; narrow, intervals go below estimates."""
    narrow = width < _FULL_WIDTH
    rows = table_rows(results)
    styles = {"up": "green", "down": "red", "": ""}
    lines = [
        [title, *(Text(text.replace(" [", "\n[") if narrow else text, styles[sign]) for text, sign in texts)]
        for title, *texts in zip(COLUMNS, *map(cells, rows), strict=True)
    ]
    shown = table(
        ["", *(NAMES[row.reward] for row in rows)], lines,
        title="PPO on symbolic Sokoban: greedy success by reward", title_justify="center", caption=caption(results),
        show_lines=narrow,
    )  # fmt: skip
    shown.columns[0].style = "bold"
    for column in shown.columns[1:]:
        column.max_width = 18 if narrow else None
    return shown
