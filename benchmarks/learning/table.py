"""The one table of a learning benchmark: computed once, printed with rich and put into the report."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from baselines.comparison import Interval
from benchmarks.environments.rows import settings_of
from benchmarks.learning.results import CLONE, EXPERT, GREEDY, RANDOM, SAMPLED, Results, Score
from benchmarks.statistics import paired_difference, success_interval

#: Shown where there is no value.
NONE = "-"
#: Columns that the table needs with every row on one line.
_FULL_WIDTH = 120
#: Columns of a policy's name on a narrow terminal.
_NARROW_NAME = 10


@dataclass(frozen=True)
class Row:
    """One policy, averaged over seeds.

    Attributes:
        policy: its name.
        greedy, sampled: success rates in 0..1 with 95 % intervals; None where the policy has no such mode.
        mean_return, mean_length, invalid_rate: of greedy play (random: of sampled play).
        difference: greedy success minus the clone's, paired over levels and seeds; None for all but methods.
        sampled_difference: the same for sampled play.
        seconds: mean wall seconds of training, warm start included; None for random and expert.
    """

    policy: str
    greedy: Interval | None
    sampled: Interval | None
    mean_return: float
    mean_length: float
    invalid_rate: float
    difference: Interval | None
    sampled_difference: Interval | None
    seconds: float | None


def table_rows(results: Results) -> list[Row]:
    """Compute all rows: random, expert, clone, then the methods in the order they were asked for."""
    return [_row(results, policy) for policy in (RANDOM, EXPERT, CLONE, *results.config.methods)]


def scores_of(results: Results, policy: str, mode: str) -> list[Score]:
    """Scores of a policy in one mode, one per seed in the order of the configuration."""
    by_seed = {score.seed: score for score in results.scores if (score.policy, score.mode) == (policy, mode)}
    return [by_seed[seed] for seed in results.config.seeds if seed in by_seed]


def _row(results: Results, policy: str) -> Row:
    by_mode = {mode: scores_of(results, policy, mode) for mode in (GREEDY, SAMPLED)}
    main = by_mode[GREEDY] or by_mode[SAMPLED]
    intervals = {
        mode: success_interval([score.success for score in scores]) if scores else None
        for mode, scores in by_mode.items()
    }
    differences: dict[str, Interval | None] = {GREEDY: None, SAMPLED: None}
    if policy in results.config.methods:
        for mode in differences:
            clone = [score.success for score in scores_of(results, CLONE, mode)]
            differences[mode] = paired_difference([score.success for score in by_mode[mode]], clone)
    return Row(
        policy, intervals[GREEDY], intervals[SAMPLED],
        _mean([score.mean_return for score in main]), _mean([score.mean_length for score in main]),
        _mean([score.invalid_rate for score in main]), differences[GREEDY], differences[SAMPLED],
        None if policy in (RANDOM, EXPERT) else _mean([score.seconds for score in main]),
    )  # fmt: skip


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def percent(interval: Interval | None) -> str:
    """A success rate with its interval.

    >>> percent(Interval(0.5, 0.45, 0.55))
    '50.0 [45.0, 55.0]'
    """
    if interval is None:
        return NONE
    return f"{100 * interval.mean:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def points(interval: Interval | None) -> str:
    """A difference of success rates in percentage points, with sign.

    >>> points(Interval(0.05, -0.01, 0.11))
    '+5.0 [-1.0, +11.0]'
    """
    if interval is None:
        return NONE
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def caption(results: Results) -> str:
    """What the numbers of the table are, in one paragraph."""
    config = results.config
    several = len(config.seeds) > 1
    seeds = f"{len(config.seeds)} training seed{'s' if several else ''}"
    called = settings_of(config.env).return_name.capitalize()
    over = "levels and seeds" if several else "levels (one seed: the spread between trainings is not in them)"
    return (
        f"{config.eval_levels} held-out test levels, {seeds}. Success in %, with 95 % intervals over {over}; "
        f"difference to the clone in percentage points of greedy success, paired level by level"
        f"{' and seed by seed' if several else ''}. Sampled play at temperature {config.temperature:g}. "
        f"{called}, steps and refused actions are those of greedy play (random: of its only play). "
        "Training is wall time, warm start included; runs side by side slow each other down."
    )


def rich_table(results: Results, width: int = 120) -> Table:
    """The table for a terminal of `width` columns; on a narrow one intervals go below their estimates."""
    narrow = width < _FULL_WIDTH
    called = settings_of(results.config.env).return_name
    table = Table(
        title=f"{results.config.env}: success on held-out levels", caption=caption(results), caption_justify="left",
        show_lines=narrow,
    )  # fmt: skip
    # A long name takes several lines rather than room from the numbers; whatever the width, nothing is cut off.
    table.add_column("policy", style="bold", overflow="fold", width=_NARROW_NAME if narrow else None)
    for name in ("greedy %", "sampled %", called, "steps", "refused %", "greedy - clone", "train s"):
        table.add_column(name.replace(" - ", "\n- ") if narrow else name, justify="right", overflow="fold")
    for row in table_rows(results):
        style = ""
        if row.difference is not None and row.difference.excludes_zero:
            style = "green" if row.difference.mean > 0 else "red"
        seconds = NONE if row.seconds is None else f"{row.seconds:.0f}"
        cells = [percent(row.greedy), percent(row.sampled), points(row.difference)]
        greedy, sampled, difference = (cell.replace(" [", "\n[") if narrow else cell for cell in cells)
        table.add_row(
            row.policy, Text(greedy), Text(sampled), f"{row.mean_return:.2f}", f"{row.mean_length:.1f}",
            f"{100 * row.invalid_rate:.1f}", Text(difference, style), seconds,
        )  # fmt: skip
    return table
