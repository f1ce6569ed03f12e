"""The scorers that are measured: how each is made, what it is fitted to, and how its scores become step credit.

A scorer is a row of `SCORERS`; anything with the shape of `baselines.scorers.scorer.StepScorer` can be one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agentgym.trajectory import Floats, StepTable
from benchmarks.ranking.learned_credit import GAMMA, gains
from wrappers.credit.agentprm import action_targets

if TYPE_CHECKING:
    from baselines.scorers.scorer import StepScorer

#: What a score is, which decides what may be done with it: an "advantage" or a "contribution" is step credit as it is;
#: a "state value" is a level, whose change over a step is credit; an "action value" is a level that is credit only
#: inside one state; a "reference" is no network.
Kind = Literal["advantage", "contribution", "state value", "action value", "reference"]


def as_they_are(table: StepTable, scores: Floats) -> Floats:
    """Return the scores: they are credit already."""
    return scores


def logs(table: StepTable, scores: Floats) -> Floats:
    """Return the logarithms: of a ratio of probabilities, what an advantage is."""
    return np.log(scores)


def outcome_targets(table: StepTable) -> Floats:
    """Return what values are fitted to, float64 (N,): the discounted outcome that followed each step."""
    return action_targets(table, gamma=GAMMA)


@dataclass(frozen=True)
class Scored:
    """One scorer.

    Attributes:
        kind: what its scores are.
        make: makes it beside a policy.
        targets: what it is fitted to, float64 (N,) of a table; None: it knows by itself.
        credit: float64 (N,), of a table and of scores per step.
    """

    kind: Kind
    make: Callable[[Any], StepScorer]
    targets: Callable[[StepTable], Floats] | None = None
    credit: Callable[[StepTable, Floats], Floats] = as_they_are


class FewerSteps:
    """Says -1 of every step and never learns: what preferences between episodes can be had from their lengths."""

    level: Literal["turn"] = "turn"
    order: Literal["after"] = "after"

    def scores(self, table: StepTable) -> Floats:
        """Return -1 for every row."""
        return np.full(len(table), -1.0)

    def update(
        self,
        table: StepTable,
        scores: Floats,
        targets: Floats | None,
        generator: np.random.Generator,
        learning_rate: float,
    ) -> dict[str, float]:
        """Learn nothing."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over nothing."""

    def describe(self) -> dict[str, Any]:
        """Return nothing."""
        return {}


def _critic(policy: Any) -> StepScorer:
    from baselines.scorers.critic import Critic, CriticConfig

    return Critic(policy, CriticConfig(level="turn"))


def _contribution(policy: Any) -> StepScorer:
    from baselines.scorers.contribution import Contribution

    return Contribution(policy)


def _action_value(policy: Any) -> StepScorer:
    from baselines.scorers.action_value import ActionValue

    return ActionValue(policy)


def _hindsight(policy: Any) -> StepScorer:
    from baselines.scorers.hindsight import Hindsight

    return Hindsight(policy)


def _implicit(**settings: Any) -> Callable[[Any], StepScorer]:
    """Return what makes a reward model with some settings of its own."""

    def make(policy: Any) -> StepScorer:
        from baselines.scorers.implicit_reward import ImplicitReward, ImplicitRewardConfig

        return ImplicitReward(policy, ImplicitRewardConfig(**settings))

    return make


SCORERS: dict[str, Scored] = {
    "fewer steps": Scored("reference", lambda policy: FewerSteps()),
    "implicit sum": Scored("advantage", _implicit(reduce="sum")),
    "implicit mean": Scored("advantage", _implicit(reduce="mean")),
    "implicit ce": Scored("advantage", _implicit(loss="ce", reduce="sum")),
    "implicit centred": Scored("advantage", _implicit(reduce="sum", centre=True)),
    "contribution": Scored("contribution", _contribution),
    "hindsight": Scored("advantage", _hindsight, credit=logs),
    "action value": Scored("action value", _action_value),
    "critic": Scored("state value", _critic, outcome_targets, gains),
}


def step_scores(scores: Floats) -> Floats:
    """Return one score per step, float64 (N,): those of a reply's tokens (N, K) are added up.

    >>> step_scores(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([3., 3.])
    """
    return scores if scores.ndim == 1 else scores.sum(axis=1)
