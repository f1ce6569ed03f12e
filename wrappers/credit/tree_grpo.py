"""Tree-GRPO: an episode compared with the others of its tree, plus with those of all trees of the task.

A_l = (R_l - mean) / (std + eps) over the tree  +  the same over the group        l: an episode, a leaf of its tree

A step gets the mean over the episodes through it. Source: the Tree-GRPO paper and its release, which also has TreeRL's
comparison of a step with the one before its fork; see docs/credit/branches.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.forks import chain_sums
from wrappers.credit.forks import Forest, spread
from wrappers.credit.group import standardise
from wrappers.credit.method import Method
from wrappers.credit.options import OutcomeOptions, credit, option
from wrappers.credit.returns import penalties, step_rewards
from wrappers.credit.wrapper import CreditWrapper


class TreeGRPOOptions(OutcomeOptions, total=False):
    """Options of `tree_grpo`."""

    compare: Annotated[Literal["sum", "nested", "parent", "treerl"], option(
        "sum", 'episodes are compared with: "sum", those of the tree plus those of the group (paper); "nested", '
        'scores against the group are standardised again inside the tree (authors\' code); "parent", the mean of the '
        "episodes through a step minus that before its fork, over the root of their number (authors' code for "
        'TreeRL); "treerl", the same plus the gain over the mean of the group (TreeRL\'s paper)', authors="nested",
    )]  # fmt: skip
    shared: Annotated[Literal["mean", "sum"], option(
        "mean", 'a step of several episodes gets their "mean", or their "sum": it is trained once for each (authors\' '
        "code)", authors="sum",
    )]  # fmt: skip
    singleton: Annotated[Literal["zero", "raw"], option(
        "zero", 'score of the only episode of a tree or group: "zero", or its "raw" value', authors="raw",
    )]  # fmt: skip
    ddof: Annotated[Literal[0, 1], option(1, "1 sample, 0 population standard deviation")]
    eps: Annotated[float, option(1e-6, "added to the standard deviation", low=0)]


# The authors' tasks know no invalid action.
@credit(TreeGRPOOptions, paper={}, authors={"invalid_penalty": 0.0})
def tree_grpo(table: StepTable, *, preset: str = "paper", **options: Unpack[TreeGRPOOptions]) -> Floats:
    """Return the advantage of every step, branches included.

    Args:
        table: N steps of finished groups, with branches (`agentgym.rollout.collect_tree`). Without branches every tree
            has one episode and only the group's comparison remains.

    >>> table = StepTable.from_arrays(group=["g"] * 4, trajectory=["a", "a", "b", "c"], t=[0, 1, 1, 0],
    ...     state=["s", "u", "u", "s"], action=["right", "up", "down", "left"], next_state=["u", "goal", "pit", "pit"],
    ...     reward=[0, 1, 0, 0], won=[1, 1, 0, 0], parent={"b": ("a", 0)})
    >>> tree_grpo(table).round(3)  # in the tree of a and b: 0.707 and -0.707; in the group: 1.155, -0.577, -0.577
    array([ 0.289,  1.862, -1.284, -0.577])
    >>> tree_grpo(table, compare="parent").round(3)  # 1/2 - 1/3 over the root of 2; then 1 - 1/2 and 0 - 1/2
    array([ 0.118,  0.5  , -0.5  , -0.333])
    """
    if len(table) == 0:
        return np.zeros(0)
    forest = Forest(table)
    mean = forest.below(chain_sums(table, step_rewards(table, options))) / forest.leaves - penalties(
        table, options, "row"
    )
    if options["compare"] in ("parent", "treerl"):
        above = _above(table, forest, mean, options["compare"] == "treerl")
        scores = above / np.sqrt(forest.leaves)
    else:
        group = _compared(mean, table.group, table.n_groups, table, options)
        again = group if options["compare"] == "nested" else mean
        tree = _compared(again, forest.tree[table.trajectory], table.n_trajectories, table, options)
        scores = tree if options["compare"] == "nested" else group + tree
    if options["shared"] == "sum":
        scores = scores * forest.leaves
    return scores - penalties(table, options, "advantage")


def _compared(values: Floats, sets: Ints, n_sets: int, table: StepTable, options: TreeGRPOOptions) -> Floats:
    return standardise(
        values, sets, n_sets, members=table.last, ddof=options["ddof"], eps=options["eps"],
        singleton=options["singleton"],
    )  # fmt: skip


def _above(table: StepTable, forest: Forest, mean: Floats, of_group: bool) -> Floats:
    before = table.previous
    begins = forest.begins
    members = np.bincount(table.trajectory_group, minlength=table.n_groups)
    total = np.bincount(table.trajectory_group, weights=mean[table.last], minlength=table.n_groups)
    whole = (total / members)[table.group]
    gain = np.zeros(len(table))
    gain[begins] = mean[begins] - np.where(before[begins] >= 0, mean[before[begins]], whole[begins])
    gain = spread(table, gain, begins)
    return gain + (mean - whole) if of_group else gain


class TreeGRPO(CreditWrapper, method=tree_grpo): ...


METHOD = Method(
    tree_grpo, "Advantages relative to a tree that branches at random steps, plus relative to the trees of the task.",
    training={"rollout.branches": 1, "rollout.branch_at": "random 1", "rollout.common_numbers": False},
    space={"groups": (8, 16)}, contender="tree_grpo", colour="#888888",
)  # fmt: skip
