"""Tables with forks: whole episodes, trees of trajectories, and sums along them.

A leaf of a rollout tree is an episode. Per-episode quantities (outcome, return, earlier states) are computed on the
table in which every episode is complete (`StepTable.unfolded`); a row that several episodes share gets the mean over
its copies. Per-step quantities (an edge of the state graph, a score) count once. A row's predecessor is the row before
it in its trajectory or, for a branch's first row, the row after which the branch was cut.
"""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtbsv

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from agentgym.trajectory.forks import unfolds

Parameters = ParamSpec("Parameters")
Method = Callable[Concatenate[StepTable, Parameters], Floats]


def over_forks(
    *columns: str, shared: Callable[..., Floats] | None = None
) -> Callable[[Method[Parameters]], Method[Parameters]]:
    """Make a function of whole episodes accept tables with forks; tables without forks are passed on unchanged.

    Args:
        *columns: keyword arguments with one entry per row of the table; None and words are passed on unchanged.
        shared: the same function computed on the forked table itself, linear in its rows. Used when the unfolded table
            would exceed `agentgym.trajectory.forks.MOST_UNFOLDED` rows; results differ by rounding.

    Returns:
        A decorator. The function returns float64 (N,) or (N, K); nan (not scored) does not enter a mean. Without
        `shared`, a table too large to unfold is a ValueError.

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
    """Return int64 (n,): for each of n rows its first copy in the unfolded table, whose rows come from `source`.

    For quantities that depend only on earlier rows, which are equal in all copies.

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
    """The trees of a table of N rows and M trajectories, in time and memory linear in N.

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
        """int64 (M,): the root trajectory each one descends from; itself if it was played from the beginning."""
        return self._descent[0]

    @cached_property
    def root(self) -> Ints:
        """int64 (M,): the row that each episode begins with."""
        return first_rows(self.table)[self.tree]

    @cached_property
    def begins(self) -> Ints:
        """Rows that begin an episode or a continuation from a fork."""
        cut = np.zeros(len(self.table), np.bool_)
        cut[self.table.parent[self.table.parent >= 0]] = True
        previous = self.table.previous
        return np.flatnonzero((previous < 0) | cut[previous])

    @cached_property
    def leaves(self) -> Ints:
        """int64 (N,): number of episodes through each row."""
        return self.below(np.ones(self.table.n_trajectories)).round().astype(np.int64)

    def below(self, values: Floats) -> Floats:
        """Return float64 (N,): the sum of `values`, float64 (M,), over the episodes through each row."""
        return self._gathered(at_end(self.table, values), 1.0)

    def to_go(self, values: Floats, gamma: float) -> Floats:
        """Return float64 (N,): the discounted sum of `values`, (N,), from a row on, mean over its episodes."""
        return self._gathered(values * self.leaves, gamma) / self.leaves

    def mean(self, values: Floats) -> Floats:
        """Return float64 (N,): the mean of `values`, float64 (M,), over the episodes through each row."""
        return self.below(values) / self.leaves

    def _gathered(self, sums: Floats, gamma: float) -> Floats:
        """Add to each row's number, in place, the discounted sum of the rows that follow it; float64 (N,)."""
        previous = self.table.previous
        for rows, starts in reversed(self._generations):
            sums[rows] = discounted_sums(sums[rows], starts, gamma)
            first = rows[starts]
            first = first[previous[first] >= 0]
            np.add.at(sums, previous[first], gamma * sums[first])
        return sums

    @cached_property
    def _descent(self) -> tuple[Ints, Ints]:
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

    `starts`: int64 (M,), first row of each sequence; `gamma`: discount per row.

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


def along(table: StepTable, values: Floats, gamma: float) -> Floats:
    """Return `discounted_sums` of `values`, float64 (N,), to the end of each row's trajectory: float64 (N,)."""
    result = np.empty(len(table))
    result[table.order] = discounted_sums(values[table.order], table.offsets[:-1], gamma)
    return result


def following(table: StepTable, values: Floats, end: Floats | Bools | float = 0.0) -> Floats:
    """Return float64 (N,): the value of the trajectory's next row; after its last one `end`, a number or (M,)."""
    result = np.empty(len(table))
    result[table.order[:-1]] = values[table.order[1:]]
    result[table.last] = end
    return result


def at_end(table: StepTable, values: Floats | Bools) -> Floats:
    """Return float64 (N,): the values of trajectories, (M,), on their last rows; 0 elsewhere."""
    result = np.zeros(len(table))
    result[table.last] = values
    return result


def spread(table: StepTable, values: Floats, marked: Ints) -> Floats:
    """Return float64 (N,): the value of the last marked row at or before each row in its trajectory, else nan."""
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
