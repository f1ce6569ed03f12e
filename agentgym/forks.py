"""Forks of a `StepTable`: trajectories that were cut from another one after one of its rows.

Each such trajectory begins later than the row it was cut after, so that going from parent to parent ends at one that
was played from its beginning: there are no circles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentgym.episode import Trajectory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TableT = TypeVar("TableT", bound=Any)
_ROW_COLUMNS = ("group", "t", "state", "next_state", "action", "valid", "reward", "terminated", "truncated")


class ForkError(ValueError):
    """A trajectory cannot have been cut where it says.

    Attributes:
        trajectory: its number in the table.
    """

    def __init__(self, trajectory: int, message: str) -> None:
        super().__init__(message)
        self.trajectory = trajectory


def parent_rows(table: Any, parent: Mapping[Hashable, tuple[Hashable, int]]) -> Ints:
    """Return int64 (M,): the row after which each trajectory was cut from another one, -1 for none.

    Args:
        table: a `StepTable` that keeps all other rules.
        parent: for trajectories that were cut from others, `(trajectory, t)` of a step.

    Raises:
        TypeError: when `parent` is no mapping, or an entry is not a pair of a name and an integer.
        ValueError: when it names a trajectory that is not in the table.
        ForkError: (a ValueError) when the step is not there, is of another group, is the last of an episode, or does
            not lead to where the trajectory begins.
    """
    if not isinstance(parent, Mapping):
        raise TypeError(
            "parent must be a mapping from trajectories to (trajectory, t) of the steps they were cut after, got "
            f"{type(parent).__name__}"
        )
    rows = np.full(table.n_trajectories, -1)
    numbers = {name: i for i, name in enumerate(table.trajectories)} if parent else {}
    t = table.t[table.order]
    for name, step in parent.items():
        if not (isinstance(step, tuple) and len(step) == 2 and isinstance(step[1], (int, np.integer))):
            raise TypeError(f"parent of trajectory {name!r:.80} must be a pair (trajectory, t), got {step!r:.80}")
        if name not in numbers:
            raise ValueError(f"parent is given for trajectory {name!r:.80}, which has no rows")
        before = numbers.get(step[0])
        begin, end = table.offsets[before : before + 2].tolist() if before is not None else (0, 0)
        place = begin + int(np.searchsorted(t[begin:end], step[1]))
        if place == end or t[place] != step[1]:
            raise ForkError(numbers[name], f"trajectory {name!r:.80}: its parent {step!r:.80} is not in the table")
        rows[numbers[name]] = table.order[place]
    _check(table, rows)
    return rows


def chain(table: Any, trajectory: int) -> Ints:
    """Return the rows of a whole episode, see `StepTable.chain`."""
    rows = _own_rows(table, trajectory)
    parts, row = [rows], table.parent[trajectory]
    while row >= 0:
        before = int(table.trajectory[row])
        rows = _own_rows(table, before)
        parts.append(rows[: np.searchsorted(table.t[rows], table.t[row], side="right")])
        row = table.parent[before]
    return np.concatenate(parts[::-1])


def unfolded(table: TableT) -> tuple[TableT, Ints]:
    """Return the table of whole episodes and the row that each of its rows came from, see `StepTable.unfolded`."""
    if not table.has_forks:
        return table, np.arange(len(table))
    chains = [chain(table, i) for i in range(table.n_trajectories)]
    source = np.concatenate(chains)
    trajectory = np.repeat(np.arange(table.n_trajectories), [len(rows) for rows in chains])
    changes = {name: getattr(table, name)[source] for name in _ROW_COLUMNS}
    changes["trajectory"], changes["won"] = trajectory, table.trajectory_won[trajectory]
    changes["parent"] = np.full(table.n_trajectories, -1)
    changes["replies"] = None if table.replies is None else table.replies[source]
    return dataclasses.replace(table, **changes), source


def kept(table: Any, mask: NDArray[np.bool_]) -> list[Trajectory]:
    """Return the row form of some of the whole episodes, see `StepTable.keep`."""
    rows_of: Any = table.to_trajectories()
    step_of = {
        row: step
        for i, one in enumerate(rows_of)
        for row, step in zip(_own_rows(table, i).tolist(), one.steps, strict=True)
    }
    chosen = np.flatnonzero(mask).tolist()
    owner: dict[int, Hashable] = {}
    found: dict[int, Trajectory] = {}
    # First those that others were cut from: one that was not played on, only in others, keeps its rows too.
    for i in dict.fromkeys(before for one in chosen for before in _lineage(table, one) if mask[before]):
        rows, name = chain(table, i).tolist(), table.trajectories[i]
        shared = [row for row in rows if row in owner]  # always the first ones
        own = rows[len(shared) :]
        owner |= dict.fromkeys(own, name)
        parent = (owner[shared[-1]], step_of[shared[-1]].t) if shared else None
        found[i] = dataclasses.replace(rows_of[i], steps=tuple(step_of[row] for row in own), parent=parent)
    return [found[i] for i in chosen]


def chain_sums(table: Any, values: Floats) -> Floats:
    """Return float64 (M,): the sum of each whole episode's values, from its beginning to its end.

    Args:
        table: N rows, M trajectories.
        values: float64 (N,), one per row.
    """
    own: Floats = np.bincount(table.trajectory, weights=values, minlength=table.n_trajectories).astype(np.float64)
    total = own.copy()
    so_far: dict[int, Floats] = {}  # of each trajectory that others were cut from, up to and with each of its steps
    begin = table.t[table.order[table.offsets[:-1]]]
    cut = np.flatnonzero(table.parent >= 0)
    place = np.empty(len(table), np.int64)
    place[table.order] = np.arange(len(table))
    for i in cut[np.argsort(begin[cut], kind="stable")].tolist():  # whoever it was cut from begins earlier
        row = table.parent[i]
        before = int(table.trajectory[row])
        if before not in so_far:
            so_far[before] = np.cumsum(values[_own_rows(table, before)]) + (total[before] - own[before])
        total[i] += so_far[before][place[row] - table.offsets[before]]
    return total


def _lineage(table: Any, trajectory: int) -> list[int]:
    """The trajectories that an episode goes through, itself last."""
    found = [trajectory]
    while (row := table.parent[found[-1]]) >= 0:
        found.append(int(table.trajectory[row]))
    return found[::-1]


def _own_rows(table: Any, trajectory: int) -> Ints:
    rows: Ints = table.order[table.offsets[trajectory] : table.offsets[trajectory + 1]]
    return rows


def _check(table: Any, rows: Ints) -> None:
    """Raise a ForkError for the first trajectory that cannot have been cut after its row."""
    cut = np.flatnonzero(rows >= 0)
    at, first = rows[cut], table.order[table.offsets[cut]]
    rules = (
        (table.group[at] != table.group[first], "is of another group"),
        (table.t[at] >= table.t[first], "does not come before its first step (t={t})"),
        (table.terminated[at] | table.truncated[at], "ended its episode: nothing follows it"),
        (table.next_state[at] != table.state[first], "leads to another state than its first"),
    )
    for broken, reason in rules:
        if broken.any():
            k = int(np.argmax(broken))
            step = table.trajectories[table.trajectory[at[k]]], int(table.t[at[k]])
            raise ForkError(
                int(cut[k]),
                f"trajectory {table.trajectories[cut[k]]!r:.80}: its parent {step!r:.80} "
                + reason.format(t=table.t[first[k]]),
            )
