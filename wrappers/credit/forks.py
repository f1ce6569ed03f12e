"""Tables with forks: whole episodes, the trees that trajectories form, and sums along them.

A leaf of a tree of rollouts is an episode. What belongs to an episode (its outcome, a return to go, the states before)
is read from the table in which every episode is whole (`StepTable.unfolded`). A row that several episodes share stands
there once for each of them, and gets the mean of what it gets there. What belongs to a step (an edge of the state
graph, a score of its own) counts once. Before every row lies one other: the one before it in its trajectory or, at a
branch's first row, the row that the branch was cut after.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtbsv

from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.forks import unfolds

Parameters = ParamSpec("Parameters")
Method = Callable[Concatenate[StepTable, Parameters], Floats]


def over_forks(
    *columns: str, shared: Callable[..., Floats] | None = None
) -> Callable[[Method[Parameters]], Method[Parameters]]:
    """Let a function that scores the rows of whole episodes take tables with forks; others it is given as they are.

    Args:
        *columns: keyword arguments of the function that hold one entry per row of the table. One that is None or a
            word is left alone.
        shared: the same from the table with forks itself, in time and memory linear in its rows. It is asked where
            the unfolded table would have more than `agentgym.trajectory.forks.MOST_UNFOLDED` rows; the two differ by
            rounding.

    Returns:
        A decorator. The function returns float64 (N,) or (N, K); nan, not scored, has no part in a mean. Without
        `shared` a table that is too large to be unfolded is a ValueError.

    >>> @over_forks()
    ... def outcome(table):
    ...     return table.won.astype(float)
    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 1], state=["s", "u", "u"],
    ...     action=["right", "up", "down"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
    ...     parent={"b": ("a", 0)})
    >>> outcome(table)  # the first step is shared by a success and a failure
    array([0.5, 1. , 0. ])
    """

    def decorate(method: Method[Parameters]) -> Method[Parameters]:
        @wraps(method)
        def scored(table: StepTable, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Floats:
            if not table.has_forks:
                return method(table, *args, **kwargs)
            if shared is not None and not unfolds(table):
                return shared(table, *args, **kwargs)
            whole, source = table.unfolded()
            for name in columns:
                if kwargs.get(name) is not None and not isinstance(kwargs[name], str):
                    kwargs[name] = _unfolded(name, kwargs[name], source, len(table))
            return _mean(method(whole, *args, **kwargs), source, len(table))

        return scored

    return decorate


def first_copies(source: Ints, n: int) -> Ints:
    """Return int64 (n,): for each row of a table the first of its copies in the unfolded one.

    It is for what depends on the rows before alone, and is therefore the same in all copies.

    Args:
        source: int64 (L,), the row that each copy came from; every row has one.
        n: number of rows.

    >>> first_copies(np.array([0, 1, 0, 2]), 3)
    array([0, 1, 3])
    """
    first = np.empty(n, np.int64)
    first[source[::-1]] = np.arange(len(source))[::-1]  # of several assignments to a row the last one stays
    return first


def refuse_forks(table: StepTable, why: str) -> None:
    """Raise ValueError for a table with forks."""
    if table.has_forks:
        raise ValueError(f"the table has trajectories that were cut from others (StepTable.parent): {why}")


def _unfolded(name: str, column: Any, source: Ints, n: int) -> NDArray[Any]:
    given: NDArray[Any] = np.asarray(column)
    if given.ndim == 0 or len(given) != n:
        raise ValueError(f"{name} must hold one entry per row of the table ({n}), got shape {given.shape}")
    return given[source]


def _mean(values: Floats, source: Ints, n: int) -> Floats:
    """Mean over the copies of each row, of those that were scored; nan where none was."""
    columns = values.reshape(len(values), -1)
    places = (source[:, None] * columns.shape[1] + np.arange(columns.shape[1])).ravel()
    flat = columns.ravel()
    scored = ~np.isnan(flat)
    count = np.bincount(places, weights=scored, minlength=n * columns.shape[1])
    total = np.bincount(places, weights=np.where(scored, flat, 0.0), minlength=n * columns.shape[1])
    mean: Floats = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean.reshape(n, *values.shape[1:])


def first_rows(table: StepTable) -> Ints:
    """Return int64 (M,): the row of each trajectory's first step."""
    return table.order[table.offsets[:-1]]


class Forest:
    """The trees of a table, in time and memory linear in its rows.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 1], state=["s", "u", "u"],
    ...     action=["right", "up", "down"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
    ...     parent={"b": ("a", 0)})
    >>> forest = Forest(table)
    >>> forest.leaves, forest.tree, forest.begins
    (array([2, 1, 1]), array([0, 0]), array([0, 1, 2]))
    """

    def __init__(self, table: StepTable) -> None:
        self.table = table

    @cached_property
    def tree(self) -> Ints:
        """int64 (M,): number of the trajectory that each descends from, its own if it was played from the beginning."""
        return self._descent[0]

    @cached_property
    def root(self) -> Ints:
        """int64 (M,): the row that each episode begins with."""
        return first_rows(self.table)[self.tree]

    @cached_property
    def begins(self) -> Ints:
        """Rows with which something begins that other episodes do not go through: an episode, or a way from a fork."""
        cut = np.zeros(len(self.table), np.bool_)
        cut[self.table.parent[self.table.parent >= 0]] = True
        previous = self.table.previous
        return np.flatnonzero((previous < 0) | cut[previous])

    @cached_property
    def leaves(self) -> Ints:
        """int64 (N,): how many episodes go through each row."""
        return self.below(np.ones(self.table.n_trajectories)).round().astype(np.int64)

    def below(self, values: Floats) -> Floats:
        """Return float64 (N,): for each row the sum over the episodes that go through it.

        Args:
            values: float64 (M,), one number per trajectory.
        """
        at_end = np.zeros(len(self.table))
        at_end[self.table.last] = values
        return self._gathered(at_end, 1.0)

    def to_go(self, values: Floats, gamma: float) -> Floats:
        """Return float64 (N,): the mean over the episodes through each row of the discounted sum from there on.

        Args:
            values: float64 (N,), one number per row.
            gamma: discount per row.
        """
        return self._gathered(values * self.leaves, gamma) / self.leaves

    def mean(self, values: Floats) -> Floats:
        """Return float64 (N,): the mean of a number per trajectory, (M,), over the episodes through each row."""
        return self.below(values) / self.leaves

    def _gathered(self, sums: Floats, gamma: float) -> Floats:
        """Add to each row's number what the rows that follow it have, discounted; in place, float64 (N,)."""
        previous = self.table.previous
        for rows, starts in reversed(self._generations):
            sums[rows] = discounted_sums(sums[rows], starts, gamma)
            first = rows[starts]
            first = first[previous[first] >= 0]
            np.add.at(sums, previous[first], gamma * sums[first])
        return sums

    @cached_property
    def _descent(self) -> tuple[Ints, Ints]:
        """Tree and number of forks above, per trajectory."""
        table = self.table
        tree, depth = list(range(table.n_trajectories)), [0] * table.n_trajectories
        # A branch begins later than the trajectory that it was cut from.
        order = np.argsort(table.t[first_rows(table)], kind="stable")
        branches = order[table.parent[order] >= 0]
        above = table.trajectory[table.parent[branches]]
        for i, parent in zip(branches.tolist(), above.tolist(), strict=True):
            tree[i], depth[i] = tree[parent], depth[parent] + 1
        return np.array(tree, np.int64), np.array(depth, np.int64)

    @cached_property
    def _generations(self) -> list[tuple[Ints, Ints]]:
        """Rows of trajectories with 0, 1, .. forks above them, in order, and where each trajectory starts in them."""
        table = self.table
        depth = self._descent[1]
        of_row = depth[table.trajectory[table.order]]
        rows = table.order[np.argsort(of_row, kind="stable")]
        counts = np.bincount(of_row)
        parts = np.split(rows, np.cumsum(counts)[:-1]) if len(rows) else []
        result = []
        for part in parts:
            trajectory = table.trajectory[part]
            result.append((part, np.flatnonzero(np.append(True, trajectory[1:] != trajectory[:-1]))))
        return result


def discounted_sums(values: Floats, starts: Ints, gamma: float) -> Floats:
    """Return `S_t = sum_k gamma^k v_{t+k}` to the end of each sequence: float64 (N,), in O(N).

    Args:
        values: float64 (N,), one sequence behind the other.
        starts: int64 (M,), where each sequence begins.
        gamma: discount per place.

    >>> discounted_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 2]), 0.5)
    array([2., 2., 4.])
    """
    if len(values) == 0:
        return np.zeros(0)
    # S_t - gamma S_{t+1} = v_t is a banded triangular system; the band is cut where a sequence ends.
    bands = np.empty((2, len(values)), order="F")
    bands[0] = -gamma
    bands[0, starts] = 0.0
    bands[1] = 1.0
    sums: Floats = dtbsv(1, bands, values)
    return sums


def spread(table: StepTable, values: Floats, marked: Ints) -> Floats:
    """Return float64 (N,): each row gets the value of the last marked row at or before it in its trajectory, else nan.

    Args:
        table: N rows.
        values: float64 (N,); only marked rows are read.
        marked: rows, in any order.
    """
    place = np.empty(len(table), np.int64)
    place[table.order] = np.arange(len(table))
    latest = np.full(len(table), -1)
    latest[place[marked]] = place[marked]
    latest = np.maximum.accumulate(latest)
    starts = np.repeat(table.offsets[:-1], np.diff(table.offsets))
    found = np.flatnonzero(latest >= starts)
    result = np.full(len(table), np.nan)
    result[table.order[found]] = values[table.order[latest[found]]]
    return result
