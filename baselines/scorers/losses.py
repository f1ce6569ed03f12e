"""Losses of a reward model on scores of whole trajectories: preferences inside a task, cross-entropy.

    step scores (N,) -> trajectory scores (M,): their sum or mean
    pair loss        -log sigma( score of the better - score of the worse ), every pair of one task
    cross-entropy    -log sigma( score ) if won, -log sigma( -score ) if lost

Source: the iStar paper, Eq. 2, which first takes the mean over pairs inside a task; PRIME's outcome loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from agentgym.trajectory import Bools, Floats, Ints

Reduce = Literal["sum", "mean"]
PairWeight = Literal["task", "flat"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of trajectories of one task, P of them.

    Attributes:
        better: int64 (P,), a trajectory.
        worse: int64 (P,), the other.
        weight: float64 (P,), above 0.
    """

    better: Ints
    worse: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.better)

    def take(self, chosen: NDArray[np.int64] | Bools) -> Pairs:
        return Pairs(self.better[chosen], self.worse[chosen], self.weight[chosen])


def outcome_pairs(
    group: Ints, won: Bools, returns: Floats, *, margin: float | None = None, pair_weight: PairWeight = "task"
) -> Pairs:
    """Return all pairs of trajectories of one task that differ in outcome.

    Args:
        group: int64 (M,), the task of each trajectory.
        won: bool (M,).
        returns: float64 (M,), sums of rewards.
        margin: None: every won trajectory is better than every lost one. A number, at least 0: a trajectory is better
            if its return is larger by more than that; equal ones are never a pair.
        pair_weight: "task": every task with pairs has weight 1; "flat": every pair has weight 1.

    >>> pairs = outcome_pairs(np.array([0, 0, 0, 1, 1]), np.array([1, 0, 0, 1, 0], bool), np.zeros(5))
    >>> pairs.better.tolist(), pairs.worse.tolist(), pairs.weight.tolist()
    ([0, 0, 3], [1, 2, 4], [0.5, 0.5, 1.0])
    """
    better, worse, weight = [], [], []
    for number in np.unique(group):
        members = np.flatnonzero(group == number)
        if margin is None:
            above = won[members, None] & ~won[None, members]
        else:
            above = returns[members, None] - returns[None, members] > margin
        first, second = np.nonzero(above)
        better.append(members[first])
        worse.append(members[second])
        weight.append(np.full(len(first), 1.0 / max(len(first), 1) if pair_weight == "task" else 1.0))
    none = [np.zeros(0, np.int64)]
    return Pairs(np.concatenate(better or none), np.concatenate(worse or none), np.concatenate(weight or [np.zeros(0)]))


def trajectory_scores(steps: Tensor, trajectory: Tensor, count: int, reduce: Reduce = "sum") -> Tensor:
    """Return the sum or mean of each trajectory's step scores, (count,); 0 for one without steps.

    Args:
        steps: float (N,).
        trajectory: int64 (N,), the trajectory of each step, below `count`.
        reduce: "sum" or "mean".

    >>> trajectory_scores(torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0, 0, 1]), 2, "mean")
    tensor([1.5000, 5.0000])
    """
    sums = steps.new_zeros(count).index_add(0, trajectory, steps)
    if reduce == "sum":
        return sums
    return sums / torch.bincount(trajectory, minlength=count).clamp(min=1)


def pair_loss(scores: Tensor, pairs: Pairs, divisor: float | None = None) -> Tensor:
    """Return `sum(weight * -log sigma(better - worse)) / divisor`.

    Args:
        scores: float (M,), of trajectories.
        divisor: None: the sum of the weights, which makes it a mean.

    >>> pair_loss(torch.tensor([0.0, 0.0]), Pairs(np.array([0]), np.array([1]), np.array([0.5])))
    tensor(0.6931)
    """
    better, worse = (torch.from_numpy(side).to(scores.device) for side in (pairs.better, pairs.worse))
    weight = torch.from_numpy(pairs.weight).to(scores)
    whole = float(pairs.weight.sum()) if divisor is None else divisor
    return (weight * softplus(scores[worse] - scores[better])).sum() / whole


def cross_entropy(scores: Tensor, won: Tensor, divisor: float | None = None) -> Tensor:
    """Return the sum of the cross-entropies of outcomes by `sigma(score)`, divided by `divisor`.

    Args:
        scores: float (n,), of trajectories (PRIME), or of steps (the iStar release's own "PRIME").
        won: bool (n,).
        divisor: None: n, which makes it a mean.

    >>> cross_entropy(torch.tensor([0.0, 0.0]), torch.tensor([True, False]))
    tensor(0.6931)
    """
    losses = binary_cross_entropy_with_logits(scores, won.to(scores), reduction="sum")
    return losses / (len(scores) if divisor is None else divisor)
