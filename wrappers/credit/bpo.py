"""BPO: continuations from one fork compared with each other, the contrast carried back to the steps before.

C_f = G_f - mean of G over the other continuations from the same fork      f: first row of a continuation
A_t = C_{last fork at or before t} + sum_{f > t} lambda^(f - t) C_f        forks on the trajectory that played row t
      + alpha A^E

The contrasts of a fork have mean zero, so they cannot judge the steps before it; `A^E` can: the mean outcome of the
episodes through a row against the group's other trees.
Source: Branching Policy Optimization, by description (no code); see docs/credit/branches.md.
"""

from __future__ import annotations

from typing import Annotated, Unpack

import numpy as np

from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.forks import chain_sums
from wrappers.credit.forks import Forest, along, spread
from wrappers.credit.group import others_factor, standardise
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import OutcomeOptions, credit, option
from wrappers.credit.returns import discounted_returns, penalties, step_rewards
from wrappers.credit.wrapper import CreditWrapper


class BPOOptions(OutcomeOptions, total=False):
    """Options of `bpo`."""

    gamma: Annotated[float, option(1.0, "discount of the returns of siblings", low=0, high=1)]
    lam: Annotated[float, option(0.95, "share of a contrast kept per step before its fork", low=0, high=1)]
    alpha_episode: Annotated[float, option(1.0, "weight of the episode level")]


# As described, the method has no episode level.
@credit(BPOOptions, default={}, paper={"alpha_episode": 0.0})
def bpo(table: StepTable, *, preset: str = "default", **options: Unpack[BPOOptions]) -> Floats:
    """Return the advantage of every step, branches included.

    Args:
        table: N steps of finished groups, with branches (`agentgym.rollout.collect_tree`). Without branches only the
            episode level remains, compared with the others.

    >>> table = StepTable.from_arrays(group=["g"] * 4, trajectory=["a", "a", "b", "c"], t=[0, 1, 1, 0],
    ...     state=["s", "u", "u", "s"], action=["right", "up", "down", "left"], next_state=["u", "goal", "pit", "pit"],
    ...     reward=[0, 1, 0, 0], won=[1, 1, 0, 0], parent={"b": ("a", 0)})
    >>> bpo(table, preset="paper")  # a and b differ by 1 after the fork
    array([ 0.95,  1.  , -1.  ,  0.  ])
    >>> bpo(table)  # half of the episodes through the first step of a won, none of the other tree
    array([ 1.45,  2.  , -1.  , -0.5 ])
    """
    if len(table) == 0:
        return np.zeros(0)
    forest = Forest(table)
    reward = step_rewards(table, options)
    contrast, forks = _contrasts(table, forest, reward, options)
    behind = np.nan_to_num(spread(table, contrast, forks))
    carried = along(table, contrast, options["lam"])
    scores = behind + (carried - contrast)
    scores += options["alpha_episode"] * _against_other_trees(table, forest, reward, options)
    return scores - penalties(table, options, "advantage")


def _contrasts(table: StepTable, forest: Forest, reward: Floats, options: BPOOptions) -> tuple[Floats, Ints]:
    """Return float64 (N,), on first rows of continuations the contrast, else 0; and these rows."""
    fork = table.previous
    rows = forest.begins[fork[forest.begins] >= 0]
    returns = discounted_returns(table, options["gamma"], reward) - penalties(table, options, "row")
    result = np.zeros(len(table))
    centred = standardise(returns[rows], fork[rows], len(table), std="none")
    result[rows] = centred * others_factor(fork[rows], len(table))[fork[rows]]
    return result, rows


def _against_other_trees(table: StepTable, forest: Forest, reward: Floats, options: BPOOptions) -> Floats:
    """Return float64 (N,): mean worth of the episodes through each row minus that of the group's other trees."""
    worth = chain_sums(table, reward)
    own = forest.below(worth) / forest.leaves - penalties(table, options, "row")
    tree, roots = forest.tree, np.flatnonzero(table.parent < 0)
    n_trees = table.n_trajectories  # a tree is named after its root
    of_tree = np.bincount(tree, weights=worth, minlength=n_trees) / np.maximum(np.bincount(tree, minlength=n_trees), 1)
    inside = standardise(own, tree[table.trajectory], n_trees, members=table.last, member_values=worth, std="none")
    group = table.trajectory_group[roots]
    between = np.zeros(n_trees)
    between[roots] = standardise(of_tree[roots], group, table.n_groups, std="none")
    between[roots] *= others_factor(group, table.n_groups)[group]
    alone = np.bincount(group, minlength=table.n_groups) < 2
    return np.where(alone[table.group], 0.0, inside + between[tree[table.trajectory]])


class BPO(CreditWrapper, method=bpo): ...


METHOD = Method(
    bpo, "Comparison of siblings played from each episode's step of highest entropy, plus the episode's outcome.",
    options={"preset": "default", **PENALTY},
    training={"rollout.branches": 1, "rollout.branch_at": "entropy 1", "rollout.common_numbers": False},
)  # fmt: skip
