"""Success per kind of task, as the papers print it: one column per kind, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.learning.results import Results
from benchmarks.learning.table import NONE


@dataclass(frozen=True)
class KindRow:
    """One line of the table: who played, and per kind how many levels were won and how many played."""

    label: str
    won: Mapping[str, int]
    played: Mapping[str, int]


def cells(row: KindRow, names: Mapping[str, str]) -> list[str]:
    """Success in percent per kind in the order of `names`, then over all levels; "-" for kinds that were not played.

    >>> cells(KindRow("clone", {"heat": 1, "cool": 2}, {"heat": 4, "cool": 2}), {"look": "Look", "heat": "Heat"})
    ['-', '25.0', '50.0']
    """
    shares = [_percent(row.won.get(kind, 0), row.played.get(kind, 0)) for kind in names]
    return [*shares, _percent(sum(row.won.values()), sum(row.played.values()))]


def _percent(won: int, played: int) -> str:
    return f"{100 * won / played:.1f}" if played else NONE


def kind_table(title: str, rows: Sequence[KindRow], names: Mapping[str, str]) -> Table:
    """The table for a terminal; the head says how many levels there are of each kind.

    Args:
        title: above the table.
        rows: one line each, played on the same levels.
        names: kind -> head of its column, in order.
    """
    table = Table(title=title, title_justify="left")
    table.add_column("success %", style="bold", no_wrap=True)
    played = rows[0].played if rows else {}
    for kind, name in names.items():
        table.add_column(f"{name}\n{played.get(kind, 0)}", justify="right")
    table.add_column(f"All\n{sum(played.values())}", justify="right", style="bold")
    for row in rows:
        table.add_row(row.label, *cells(row, names))
    return table


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
