"""Branches: trajectories that were cut from others, and what is said of them for all trees of a table at once.

The rows of a table form a forest: before every row lies one other, in its own trajectory or, at a branch's first row,
the row that the branch was cut after. A tree is a trajectory played from its beginning with all that was cut from it;
its leaves are the ends of these episodes, one per trajectory.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.group import first_rows
from wrappers.credit.options import OutcomeOptions
from wrappers.credit.returns import checked_rewards, discounted_sums, penalties


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
        table = self.table
        sums = np.zeros(len(table))
        sums[table.last] = values
        for rows, starts in reversed(self._generations):
            sums[rows] = discounted_sums(sums[rows], starts, 1.0)
            first = rows[starts]
            first = first[table.previous[first] >= 0]
            np.add.at(sums, table.previous[first], sums[first])
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


def step_rewards(table: StepTable, options: OutcomeOptions) -> Floats:
    """Return float64 (N,): what each step earned towards its episode's outcome, less the penalty "discounted".

    With the outcome "won" that is 1 at the end of an episode that was won, and 0 elsewhere.

    Raises:
        ValueError: on a reward beyond `LARGEST`, where the outcome is the return.
    """
    if options["outcome"] == "won":
        reward = np.zeros(len(table))
        reward[table.last] = table.trajectory_won
    else:
        reward = checked_rewards(table.reward)
    return reward - penalties(table, options, "discounted")
