"""Contribution: what each step, or segment of steps, had in the outcome of its trajectory (SPA, HISR's SPRM).

A copy of the policy's trunk gets a head that is read at the last token of a reply. What it says along a trajectory is
fitted to sum to the outcome:

    loss = mean over trajectories of (R - sum_k c_k)^2        c_k read at the last reply of segment k; a turn is one
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.checks import fields_checked
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from baselines.config import Positive, Size, refuse
from baselines.scorers.critic import explained_variance
from baselines.scorers.losses import trajectory_scores
from baselines.scorers.network import joint_loss, shuffled_together
from baselines.scorers.scorer import ScoreLevel, ScorerConfig
from baselines.scorers.value_model import Head, Inputs, head_network, value_model
from wrappers.credit.returns import outcomes
from wrappers.credit.segments import by_turn, checked_segments

#: What a contribution is counted in, see `ContributionConfig`.
Unit = Literal["outcome", "mean", "own"]


class Segmenter(Protocol):
    """Cuts trajectories, as the functions of `wrappers.credit.segments` do."""

    def __call__(self, table: StepTable, /) -> Ints:
        """Return int (N,), 0, 1, .. inside each trajectory."""


@fields_checked
@dataclass(frozen=True)
class ContributionConfig(ScorerConfig):
    """Numbers of a contribution model, beside those of `baselines.scorers.scorer.ScorerConfig`.

    Attributes:
        head: what stands on the trunk, "linear" or "mlp", W2 SiLU(W1 h).
        head_rate: learning rate of the head as a multiple of the policy's; `rate` is the trunk's.
        unit: what the head counts in: the size of the first outcomes ("outcome", as printed: at ten times the trunk's
            rate the loss leaps), over the mean number of segments in a trajectory then ("mean"), or over the number in
            the trajectory at hand ("own": predicts best, attributes worst). Measured in docs/credit/attribution.md.
        outcome: what a trajectory is worth: "won", 0 or 1, or "return", the sum of its rewards.
        segments: what a contribution is predicted of, a function of the table; with arguments
            `functools.partial(wrappers.credit.segments.by_count, k=4)`.
        minibatch_trajectories: trajectories per update; those of a group stay together, as they share states, which are
            then computed once.
    """

    level: Literal["turn"] = "turn"
    head: Head = "linear"
    head_rate: Positive = 10.0
    unit: Unit = "mean"
    outcome: Literal["won", "return"] = "won"
    segments: Segmenter = by_turn
    minibatch_trajectories: Size = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self, "segments", callable(self.segments), "a function from a table to the segment of each row")

    def make(self, policy: Any) -> Contribution:
        """Make the contribution model of a policy, from its weights as they are now."""
        return Contribution(policy, self)


class Contribution:
    """Shares of the outcome, learned from finished trajectories: a `baselines.scorers.scorer.StepScorer`.

    Args:
        policy: whose trunk is copied, as it is now; see `baselines.scorers.critic.Critic`.
        config: see `ContributionConfig`.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """

    level: ScoreLevel = "turn"
    order: Literal["after"] = "after"

    def __init__(self, policy: Any, config: ContributionConfig | None = None) -> None:
        self.config = config or ContributionConfig()
        self._precision: torch.dtype | None = getattr(policy, "precision", None)
        self.model = value_model(policy, self.config.head)
        self._network = head_network(self.model, self.config, self.config.head_rate, "the contribution model's")

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,): on the last row of each segment what it contributed, on the others nan.

        Exactly 0 before the first update.

        Raises:
            ValueError: the table has no replies, a reply no tokens, or the segments fall or leap.
        """
        inputs, ends = Inputs.of(table, "reply"), self._ends(table)
        found = inputs.numbers(self.model, self._network, self._precision, np.unique(inputs.of_row[ends]))
        return np.where(ends, found[inputs.of_row, 0] * self._shares(table, ends), np.nan)

    def update(
        self,
        table: StepTable,
        scores: Floats,
        targets: Floats | None,
        generator: np.random.Generator,
        learning_rate: float,
    ) -> dict[str, float]:
        """Fit the sums over trajectories to their outcomes.

        Args:
            table: what `scores` was asked for.
            scores: what it answered, (N,).
            targets: not read: outcomes are of trajectories.
            generator: shuffles groups into mini-batches.
            learning_rate: the policy's, see `ContributionConfig`.

        Returns:
            "prm_loss", mean over the updates, in squared units of the outcome; "explained_variance" of the outcomes by
            the sums before the update.

        Raises:
            FloatingPointError: a gradient is not finite, the message names it; the weights are those of the last good
                step. Or the step itself has made a weight that is not finite.
        """
        config, network = self.config, self._network
        worth = outcomes(table, {"outcome": config.outcome})
        inputs, ends = Inputs.of(table, "reply"), self._ends(table)
        self._find_scale(worth, ends.sum() / table.n_trajectories)
        network.begin(learning_rate)
        found: list[float] = []
        for _ in range(config.epochs):
            order = shuffled_together(table.trajectory_group, generator)
            for chosen in np.array_split(order, -(-len(order) // config.minibatch_trajectories)):
                loss, losses = self._losses(table, inputs, ends, chosen, worth)
                network.step(losses)
                found.append(loss)
        network.end()
        sums: Floats = np.bincount(table.trajectory, np.nan_to_num(scores), table.n_trajectories).astype(np.float64)
        return {"prm_loss": sum(found) / len(found), "explained_variance": explained_variance(sums, worth)}

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimiser state, as a checkpoint keeps them."""
        return self._network.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._network.load_state_dict(state)

    def describe(self) -> dict[str, Any]:
        """Return the settings, as a checkpoint keeps them; of the segmenter its name and arguments."""
        return self._network.describe() | {"segments": _name(self.config.segments)}

    def _ends(self, table: StepTable) -> Bools:
        """The last row of each segment, bool (N,)."""
        segment = checked_segments(table, self.config.segments(table))
        ends = np.zeros(len(table), np.bool_)
        ends[table.order[:-1]] = np.diff(segment[table.order]) != 0
        ends[table.last] = True
        return ends

    def _shares(self, table: StepTable, ends: Bools) -> Floats:
        """What the head's numbers are multiplied by, float64 (N,)."""
        if self.config.unit != "own":
            return np.ones(len(table))
        segments = np.bincount(table.trajectory[ends], minlength=table.n_trajectories)
        own: Floats = 1.0 / segments[table.trajectory]
        return own

    def _find_scale(self, worth: Floats, segments: float) -> None:
        """Take the unit from the first outcomes that are not all 0; until then every contribution is 0 as well."""
        size = float(np.sqrt(np.mean(worth**2)))
        if size > 0 and self.model.silent:
            self.model.scale.fill_(size / segments if self.config.unit == "mean" else size)

    def _losses(
        self, table: StepTable, inputs: Inputs, ends: Bools, chosen: NDArray[np.int64], worth: Floats
    ) -> tuple[float, Iterator[Tensor]]:
        """The loss of some trajectories, and what each pass adds to its gradient."""
        place = np.full(table.n_trajectories, -1)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(ends & (place[table.trajectory] >= 0))
        distinct, of_distinct = np.unique(inputs.of_row[rows], return_inverse=True)
        at, owner, share, outcome = (
            torch.from_numpy(array).to(self._network.device)
            for array in (of_distinct, place[table.trajectory[rows]], self._shares(table, ends)[rows], worth[chosen])
        )
        # In units of the outcome: gradients, and their limit, do not depend on the unit of the rewards.
        unit = float(self.model.scale) * (len(rows) / len(chosen) if self.config.unit == "mean" else 1.0)

        def error(numbers: Tensor) -> Tensor:
            return sum_error(numbers[at, 0] * share.to(numbers.dtype), owner, outcome) / unit**2

        loss, losses = joint_loss(
            lambda part: inputs.predict(self.model, part, self._precision),
            self._network.parts(inputs.lengths, distinct, learning=True),
            error,
        )
        return loss * unit**2, losses


def sum_error(contributions: Tensor, trajectory: Tensor, outcome: Tensor) -> Tensor:
    """Return the mean over trajectories of the squared difference between outcome and sum of contributions.

    Args:
        contributions: float (S,), one per segment.
        trajectory: int64 (S,), whose it is, 0 to M - 1.
        outcome: (M,).

    >>> sum_error(torch.tensor([0.5, 0.5, 0.25]), torch.tensor([0, 0, 1]), torch.tensor([1.0, 0.0]))
    tensor(0.0312)
    """
    sums = trajectory_scores(contributions, trajectory, len(outcome))
    return (outcome.to(sums.dtype) - sums).square().mean()


def _name(function: Any) -> str:
    """Module, name and arguments of a function."""
    if isinstance(function, functools.partial):
        given = [*map(repr, function.args), *(f"{key}={value!r}" for key, value in sorted(function.keywords.items()))]
        return f"{_name(function.func)}({', '.join(given)})"
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
