"""The tables of a learning benchmark: computed once, printed and put into the report.

A new column is a field of `Row`, its value in `_row`, its cell in `rich_table` and, for the page, in `report.page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from baselines.environments.registry import settings_of
from benchmarks.console import NONE, table
from benchmarks.learning.results import Results, Score
from benchmarks.statistics import Interval, paired_difference, percent, points, success_interval
from benchmarks.training.stack import CLONE, EXPERT, GREEDY, RANDOM, SAMPLED

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
        difference: greedy success minus the clone's, paired over tasks and seeds; None for all but methods.
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


def caption(results: Results) -> str:
    """What the numbers of the table are, in one paragraph."""
    config = results.config
    several = len(config.seeds) > 1
    seeds = f"{len(config.seeds)} training seed{'s' if several else ''}"
    called = settings_of(config.env).return_name.capitalize()
    over = "tasks and seeds" if several else "tasks (one seed: the spread between trainings is not in them)"
    limit = " Models write admissible commands only, and are trained under that restriction."
    return (
        f"{config.eval_tasks} held-out test tasks, {seeds}. Success in %, with 95 % intervals over {over}; "
        f"difference to the clone in percentage points of greedy success, paired task by task"
        f"{' and seed by seed' if several else ''}. Sampled play at temperature {config.temperature:g}. "
        f"{called}, steps and refused actions are those of greedy play (random: of its only play). "
        "Training is wall time, warm start included; runs side by side slow each other down."
        f"{limit if config.setup.policy.get('admissible') else ''}"
    )


def rich_table(results: Results, width: int = 120) -> Table:
    """The table for a terminal of `width` columns; on a narrow one intervals go below their estimates."""
    narrow = width < _FULL_WIDTH
    called = settings_of(results.config.env).return_name
    heads = ["policy", "greedy %", "sampled %", called, "steps", "refused %", "greedy - clone", "train s"]
    shown = table(
        [head.replace(" - ", "\n- ") if narrow else head for head in heads],
        [_cells(row, narrow) for row in table_rows(results)],
        title=f"{results.config.env}: success on held-out tasks", title_justify="center", caption=caption(results),
        show_lines=narrow,
    )  # fmt: skip
    # A long name takes several lines rather than room from the numbers; whatever the width, nothing is cut off.
    shown.columns[0].style, shown.columns[0].width = "bold", _NARROW_NAME if narrow else None
    return shown


def _cells(row: Row, narrow: bool) -> list[str | Text]:
    style = ""
    if row.difference is not None and row.difference.excludes_zero:
        style = "green" if row.difference.mean > 0 else "red"
    cells = [percent(row.greedy), percent(row.sampled), points(row.difference)]
    greedy, sampled, difference = (cell.replace(" [", "\n[") if narrow else cell for cell in cells)
    return [
        row.policy, greedy, sampled, f"{row.mean_return:.2f}", f"{row.mean_length:.1f}",
        f"{100 * row.invalid_rate:.1f}", Text(difference, style), NONE if row.seconds is None else f"{row.seconds:.0f}",
    ]  # fmt: skip


@dataclass(frozen=True)
class KindRow:
    """One line of the table: who played, and per kind how many tasks were won and how many played.

    `refused` is the share of actions that the environment did not accept; None: not shown.
    """

    label: str
    won: Mapping[str, int]
    played: Mapping[str, int]
    refused: float | None = None


def cells(row: KindRow, names: Mapping[str, str]) -> list[str]:
    """Success in percent per kind in the order of `names`, then over all tasks; "-" for kinds that were not played.

    >>> cells(KindRow("clone", {"heat": 1, "cool": 2}, {"heat": 4, "cool": 2}), {"look": "Look", "heat": "Heat"})
    ['-', '25.0', '50.0']
    """
    shares = [_percent(row.won.get(kind, 0), row.played.get(kind, 0)) for kind in names]
    return [*shares, _percent(sum(row.won.values()), sum(row.played.values()))]


def _percent(won: int, played: int) -> str:
    return f"{100 * won / played:.1f}" if played else NONE


def kind_table(title: str, rows: Sequence[KindRow], names: Mapping[str, str]) -> Table:
    """The table for a terminal; the head says how many tasks there are of each kind.

    Args:
        title: above the table.
        rows: one line each, played on the same tasks.
        names: kind -> head of its column, in order.
    """
    played = rows[0].played if rows else {}
    heads = [f"{name}\n{played.get(kind, 0)}" for kind, name in names.items()]
    heads = ["success %", *heads, f"All\n{sum(played.values())}"]
    lines = [[row.label, *cells(row, names)] for row in rows]
    if any(row.refused is not None for row in rows):
        heads.append("actions\nrefused %")
        for line, row in zip(lines, rows, strict=True):
            line.append(NONE if row.refused is None else f"{100 * row.refused:.1f}")
    shown = table(heads, lines, title=title)
    shown.columns[0].style = shown.columns[len(names) + 1].style = "bold"
    return shown


def learned_rows(results: Results, split: str) -> list[KindRow]:
    """Lines of a learning benchmark on one split: every policy in every mode, summed over seeds."""
    sums: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for score in results.kinds:
        if score.split == split:
            won, played = sums.setdefault(f"{score.policy}, {score.mode}", ({}, {}))
            for kind in score.played:
                won[kind] = won.get(kind, 0) + score.won[kind]
                played[kind] = played.get(kind, 0) + score.played[kind]
    return [KindRow(label, won, played) for label, (won, played) in sums.items()]


def learned_tables(results: Results, names: Mapping[str, str]) -> list[Table]:
    """One table per split that the policies of a learning benchmark played, if there are kinds."""
    splits = dict.fromkeys(score.split for score in results.kinds)
    present = {kind for score in results.kinds for kind in score.played}
    shown = {kind: name for kind, name in names.items() if kind in present}
    return [kind_table(f"{split}: success per kind of task", learned_rows(results, split), shown) for split in splits]
