"""Forks of a `StepTable`: trajectories that were cut from another one after one of its rows."""

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory.episode import Step, Trajectory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
TableT = TypeVar("TableT", bound=Any)
_ROW_COLUMNS = ("group", "t", "state", "next_state", "action", "valid", "reward", "terminated", "truncated")

#: Maximum number of rows of an unfolded table: beyond it takes gigabytes.
MOST_UNFOLDED: Final = 2**23


class ForkError(ValueError):
    """The parent of a trajectory, of number `trajectory` in the table, is impossible."""

    def __init__(self, trajectory: int, message: str) -> None:
        super().__init__(message)
        self.trajectory = trajectory


def parent_rows(table: Any, parent: Mapping[Hashable, tuple[Hashable, int]]) -> Ints:
    """Return int64 (M,): the row after which each trajectory was cut from another one, -1 for none.

    `parent` maps cut trajectories to `(trajectory, t)` of a step; the table keeps all other rules. Raises a TypeError
    for other types, a ValueError for an unknown trajectory, a ForkError for an impossible cut.
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
    """Implement `StepTable.unfolded`."""
    if not table.has_forks:
        return table, np.arange(len(table))
    if not unfolds(table):
        raise ValueError(
            f"the {len(table):,} rows of the table are {int(table.episode_length.sum()):,} when every episode has all "
            f"its rows, more than {MOST_UNFOLDED:,}: nest fewer cuts, keep() fewer episodes, or use a method that "
            "reads forks"
        )
    length = table.episode_length
    ends = np.cumsum(length)
    source = np.empty(int(ends[-1]), np.int64)
    begins, own = (ends - length).tolist(), np.diff(table.offsets)
    shared = (length - own).tolist()
    source[np.repeat(ends - length + shared - table.offsets[:-1], own) + np.arange(len(table))] = table.order
    for i in _cut(table):  # parents come first and have all their rows
        before = begins[table.trajectory[table.parent[i]]]
        source[begins[i] : begins[i] + shared[i]] = source[before : before + shared[i]]
    trajectory = np.repeat(np.arange(table.n_trajectories), length)
    changes = {name: getattr(table, name)[source] for name in _ROW_COLUMNS}
    changes["trajectory"], changes["won"] = trajectory, table.trajectory_won[trajectory]
    changes["parent"] = np.full(table.n_trajectories, -1)
    if table.reward_components is not None:
        changes["reward_components"] = {name: column[source] for name, column in table.reward_components.items()}
    changes["replies"] = None if table.replies is None else table.replies[source]
    return dataclasses.replace(table, **changes), source


def unfolds(table: Any) -> bool:
    """Return whether the unfolded table has at most `MOST_UNFOLDED` rows."""
    return not table.has_forks or int(table.episode_length.sum()) <= MOST_UNFOLDED


def kept(table: Any, mask: NDArray[np.bool_]) -> list[Trajectory]:
    """Return the row form of some of the whole episodes, see `StepTable.keep`."""
    rows_of: Any = table.to_trajectories()
    parent, names, ends = table.parent.tolist(), table.trajectories, _ends(table).tolist()
    above = [-1 if row < 0 else int(table.trajectory[row]) for row in parent]
    chosen = np.flatnonzero(mask).tolist()
    # Parents first: a trajectory that only continues in others keeps its rows too.
    first: dict[int, None] = {}
    seen = [False] * table.n_trajectories
    for i in chosen:
        lineage = []
        while i >= 0 and not seen[i]:
            seen[i] = True
            lineage.append(i)
            i = above[i]
        first |= dict.fromkeys(each for each in reversed(lineage) if mask[each])
    owners: list[list[Hashable]] = [[] for _ in range(table.n_trajectories)]  # owners of the rows so far
    found: dict[int, Trajectory] = {}
    for i in first:
        # A row with an owner follows only rows with one, so the new rows are the last ones of the episode.
        parts: list[tuple[Step, ...]] = []
        at, end, cut = i, len(rows_of[i].steps), None
        while True:
            begin = min(len(owners[at]), end)
            parts.append(rows_of[at].steps[begin:end])
            owners[at] += [names[i]] * (end - begin)
            if begin:
                cut = owners[at][begin - 1], rows_of[at].steps[begin - 1].t
            if begin or above[at] < 0:
                break
            at, end = above[at], ends[at]
        steps = tuple(step for part in reversed(parts) for step in part)
        found[i] = dataclasses.replace(rows_of[i], steps=steps, parent=cut)
    return [found[i] for i in chosen]


def chain_sums(table: Any, values: Floats) -> Floats:
    """Return float64 (M,): the sum of `values`, float64 (N,), over each whole episode."""
    own: Floats = np.bincount(table.trajectory, weights=values, minlength=table.n_trajectories).astype(np.float64)
    if not table.has_forks:
        return own
    total = own.copy()
    so_far: dict[int, Floats] = {}  # cumulative sums of each parent trajectory
    ends = _ends(table)
    for i in _cut(table):
        before = int(table.trajectory[table.parent[i]])
        if before not in so_far:
            so_far[before] = np.cumsum(values[_own_rows(table, before)]) + (total[before] - own[before])
        total[i] += so_far[before][ends[i] - 1]
    return total


def counts_so_far(table: Any, flags: NDArray[np.bool_]) -> Ints:
    """Return int64 (N,): the number of `flags`, bool (N,), in each row's episode up to and with this row."""
    count = np.cumsum(flags[table.order])
    begin, own = table.offsets[:-1], np.diff(table.offsets)
    count -= np.repeat(count[begin] - flags[table.order[begin]], own)
    place = _places(table)
    for i in _cut(table):
        count[begin[i] : begin[i] + own[i]] += count[place[table.parent[i]]]
    counts = np.empty(len(table), np.int64)
    counts[table.order] = count
    return counts


def latest(table: Any, flags: NDArray[np.bool_]) -> Ints:
    """Return int64 (N,): the last row of each row's episode in `flags`, bool (N,), up to this row; -1 for none."""
    begin, own = table.offsets[:-1], np.diff(table.offsets)
    found = np.maximum.accumulate(np.where(flags[table.order], np.arange(len(table)), -1))
    found[found < np.repeat(begin, own)] = -1
    silent = np.add.reduceat(found < 0, begin) if len(begin) else begin  # rows before a trajectory's own first flag
    place = _places(table)
    for i in _cut(table):
        found[begin[i] : begin[i] + silent[i]] = found[place[table.parent[i]]]
    rows = np.empty(len(table), np.int64)
    rows[table.order] = np.where(found < 0, -1, table.order[found])
    return rows


def _cut(table: Any) -> list[int]:
    """Return the cut trajectories, parents first."""
    begin = table.t[table.order[table.offsets[:-1]]]
    cut = np.flatnonzero(table.parent >= 0)
    ordered: list[int] = cut[np.argsort(begin[cut], kind="stable")].tolist()  # parents begin earlier
    return ordered


def _ends(table: Any) -> Ints:
    """Return int64 (M,): number of the parent's own rows up to the cut; 0 for roots."""
    ends = np.zeros(table.n_trajectories, np.int64)
    cut = np.flatnonzero(table.parent >= 0)
    rows = table.parent[cut]
    ends[cut] = _places(table)[rows] - table.offsets[table.trajectory[rows]] + 1
    return ends


def _places(table: Any) -> Ints:
    """Return int64 (N,): position of each row in `order`."""
    place = np.empty(len(table), np.int64)
    place[table.order] = np.arange(len(table))
    return place


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
