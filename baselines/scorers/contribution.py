"""Contribution of each step, or segment of steps, to the outcome of its trajectory.

A copy of the policy's trunk gets a head that is read at the last token of a reply. Its values along a trajectory are
fitted so that they sum to the outcome:

    loss = mean over trajectories of (R - sum_k c_k)^2        c_k read at the last reply of segment k; a turn is one
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from agentgym.checks import Size, fields_checked
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from baselines.config import refuse
from baselines.scorers.losses import trajectory_scores
from baselines.scorers.network import Fit, Losses, joint_losses, shuffled_together
from baselines.scorers.value_model import HeadConfig, Inputs, ValueScorer, explained_variance
from wrappers.credit.returns import outcomes
from wrappers.credit.segments import by_turn, checked_segments

#: Unit of a contribution, see `ContributionConfig`.
Unit = Literal["outcome", "mean", "own"]


class Segmenter(Protocol):
    """Cuts trajectories, as the functions of `wrappers.credit.segments` do."""

    def __call__(self, table: StepTable, /) -> Ints:
        """Return int (N,), 0, 1, .. inside each trajectory."""


@fields_checked
@dataclass(frozen=True)
class ContributionConfig(HeadConfig):
    """Settings of a contribution model, in addition to those of `baselines.scorers.value_model.HeadConfig`.

    Attributes:
        unit: of the head: the size of the first outcomes ("outcome", as published: at ten times the trunk's rate the
            loss is unstable), divided by the mean number of segments in those trajectories ("mean"), or by the number
            in this trajectory ("own": predicts best, attributes worst). Measured in docs/credit/attribution.md.
        outcome: outcome of a trajectory: "won", 0 or 1, or "return", the sum of its rewards.
        segments: a function of the table that returns the segments whose contributions are predicted; with arguments
            `functools.partial(wrappers.credit.segments.by_count, k=4)`.
        minibatch_trajectories: trajectories per update; those of a group stay together, so that shared states are
            computed once.
    """

    level: Literal["turn"] = "turn"
    unit: Unit = "mean"
    outcome: Literal["won", "return"] = "won"
    segments: Segmenter = by_turn
    minibatch_trajectories: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, "segments", callable(self.segments), "a function from a table to the segment of each row")

    def make(self, policy: Any) -> Contribution:
        return Contribution(policy, self)


class Contribution(ValueScorer):
    """Shares of the outcome, learned from finished trajectories: a `baselines.scorers.value_model.ValueScorer`.

    An update fits the sums over trajectories to their outcomes; groups are shuffled into mini-batches. Its figures:
    "prm_loss", mean over the updates, in squared units of the outcome; "explained_variance" of the outcomes by the sums
    before the update.
    """

    takes_forks = False
    config: ContributionConfig

    def __init__(self, policy: Any, config: ContributionConfig | None = None) -> None:
        super().__init__(policy, config or ContributionConfig(), "the contribution model's")

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,): the segment's contribution on its last row, nan on its other rows.

        Exactly 0 before the first update.

        Raises:
            ValueError: the table has no replies, a reply no tokens, or segment numbers decrease or skip one.
        """
        inputs, ends = Inputs.of(table, "reply"), self._ends(table)
        found = self.numbers(inputs, np.unique(inputs.of_row[ends]))
        return np.where(ends, found[inputs.of_row, 0] * self._shares(table, ends), np.nan)

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        worth = outcomes(table, {"outcome": self.config.outcome})
        inputs, ends = Inputs.of(table, "reply"), self._ends(table)
        self.find_scale(worth, ends.sum() / table.n_trajectories if self.config.unit == "mean" else 1.0)
        sums: Floats = np.bincount(table.trajectory, np.nan_to_num(scores), table.n_trajectories).astype(np.float64)
        return Fit(
            lambda generator: shuffled_together(table.trajectory_group, generator),
            self.config.minibatch_trajectories,
            lambda chosen, count: self._losses(table, inputs, ends, chosen, worth),
            figures={"explained_variance": explained_variance(sums, worth)},
        )

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"segments": _name(self.config.segments)}

    def _ends(self, table: StepTable) -> Bools:
        """The last row of each segment, bool (N,)."""
        segment = checked_segments(table, self.config.segments(table))
        ends = np.zeros(len(table), np.bool_)
        ends[table.order[:-1]] = np.diff(segment[table.order]) != 0
        ends[table.last] = True
        return ends

    def _shares(self, table: StepTable, ends: Bools) -> Floats:
        """Factor of the head's output, float64 (N,)."""
        if self.config.unit != "own":
            return np.ones(len(table))
        segments = np.bincount(table.trajectory[ends], minlength=table.n_trajectories)
        return 1.0 / segments[table.trajectory]

    def _losses(self, table: StepTable, inputs: Inputs, ends: Bools, chosen: Ints, worth: Floats) -> Losses:
        place = np.full(table.n_trajectories, -1)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(ends & (place[table.trajectory] >= 0))
        distinct, of_distinct = np.unique(inputs.of_row[rows], return_inverse=True)
        at, owner, share, outcome = (
            torch.from_numpy(array).to(self.device)
            for array in (of_distinct, place[table.trajectory[rows]], self._shares(table, ends)[rows], worth[chosen])
        )
        # In units of the outcome: gradients, and their limit, do not depend on the unit of the rewards.
        unit = float(self.model.scale) * (len(rows) / len(chosen) if self.config.unit == "mean" else 1.0)

        def error(numbers: Tensor) -> Tensor:
            return sum_error(numbers[at, 0] * share.to(numbers.dtype), owner, outcome) / unit**2

        parts = self.parts(inputs.lengths, distinct, learning=True)
        return joint_losses(lambda part: self.predict(inputs, part), parts, error, unit**2)


def sum_error(contributions: Tensor, trajectory: Tensor, outcome: Tensor) -> Tensor:
    """Return the mean over trajectories of the squared difference between outcome and sum of contributions.

    Args:
        contributions: float (S,), one per segment.
        trajectory: int64 (S,), the segment's trajectory, 0 to M - 1.
        outcome: (M,).

    >>> sum_error(torch.tensor([0.5, 0.5, 0.25]), torch.tensor([0, 0, 1]), torch.tensor([1.0, 0.0]))
    tensor(0.0312)
    """
    sums = trajectory_scores(contributions, trajectory, len(outcome))
    return (outcome.to(sums.dtype) - sums).square().mean()


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        given = [*map(repr, function.args), *(f"{key}={value!r}" for key, value in sorted(function.keywords.items()))]
        return f"{_name(function.func)}({', '.join(given)})"
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
