"""Sums along trajectories, and over the trees that trajectories form which were cut from others.

The rows of a table form a forest: before every row lies one other, in its own trajectory or, at a branch's first row,
the row that the branch was cut after. A tree is a trajectory played from its beginning with all that was cut from it;
its leaves are the ends of these episodes, one per trajectory.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.blas import dtbsv

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.group import first_rows


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
