"""Segmented reward of HISR, from two models: the contribution of each segment, and the importance of each turn.

    contribution of a segment x importance of its turns in hindsight -> `wrappers.credit.hisr` -> a reward per step

Both models learn online, from the batches that the policy plays. The paper trains them once and freezes them, which it
names as its limitation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from agentgym.checks import Share, fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.scorers.contribution import Contribution, ContributionConfig
from baselines.scorers.hindsight import Hindsight, HindsightConfig
from baselines.scorers.scorer import SHARED_LIMITS, ScorerConfig, StepScorer
from wrappers.credit.hisr import hisr


@fields_checked
@dataclass(frozen=True)
class SegmentedRewardConfig(ScorerConfig):
    """Settings of HISR's two models; those of `baselines.scorers.scorer.ScorerConfig` hold for both.

    Attributes:
        contribution: settings of the model of contributions, `segments` included.
        hindsight: settings of the model of importance.
        alpha: weight of the grounding reward, see `wrappers.credit.hisr.hisr`, as the next three.
        scale: sum of the absolute segment rewards of a trajectory.
        place: the steps that get a segment's reward.
        temperature: of the rollouts; None: the policy's own.
        grounding: "bonus" for every executed action (as published, which favours long episodes), or "penalty" of equal
        size for every refused one.
    """

    level: Literal["turn"] = "turn"
    contribution: ContributionConfig = field(default_factory=lambda: ContributionConfig(head="mlp"))
    hindsight: HindsightConfig = field(default_factory=HindsightConfig)
    alpha: Share = 0.3
    scale: Literal["outcome", "one", "predicted"] = "outcome"
    place: Literal["end", "spread"] = "end"
    grounding: Literal["bonus", "penalty"] = "penalty"
    temperature: float | None = None

    def make(self, policy: Any) -> SegmentedReward:
        return SegmentedReward(policy, self)


class SegmentedReward(StepScorer):
    """HISR's rewards, learned together with the policy.

    Args:
        policy: its model is copied twice, see the two scorers.
    """

    def __init__(self, policy: Any, config: SegmentedRewardConfig | None = None) -> None:
        self.config = config or SegmentedRewardConfig()
        shared = {name: getattr(self.config, name) for name in (*SHARED_LIMITS, "temperature")}
        self.contribution = self.config.contribution.filled(**shared).make(policy)
        self.hindsight = self.config.hindsight.filled(**shared).make(policy)
        self._scored: tuple[StepTable, dict[str, Floats]] | None = None

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,): rewards of the steps; before the first update only the grounding reward."""
        config = self.config
        parts = {name: scorer.scores(table) for name, scorer in self._parts.items()}
        self._scored = table, parts
        return hisr(
            table, contributions=parts["contribution"], importance=parts["hindsight"],
            segments=config.contribution.segments(table), outcome=config.contribution.outcome, alpha=config.alpha,
            scale=config.scale, place=config.place, grounding=config.grounding,
        )  # fmt: skip

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Update both models; their figures begin with "contribution_" and "hindsight_"."""
        if self._scored is None or self._scored[0] is not table:
            self.scores(table)
        assert self._scored is not None
        parts, self._scored = self._scored[1], None
        found: dict[str, float] = {}
        for name, scorer in self._parts.items():
            figures = scorer.update(table, parts[name], None, rng, learning_rate)
            found |= {f"{name}_{key.removeprefix('prm_')}": value for key, value in figures.items()}
        return found

    def state_dict(self) -> dict[str, Any]:
        return {name: scorer.state_dict() for name, scorer in self._parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, scorer in self._parts.items():
            scorer.load_state_dict(state[name])

    def describe(self) -> dict[str, Any]:
        own = {name: getattr(self.config, name) for name in ("alpha", "scale", "place", "grounding")}
        return {**own, **{name: scorer.describe() for name, scorer in self._parts.items()}}

    @property
    def _parts(self) -> dict[str, Contribution | Hindsight]:
        return {"contribution": self.contribution, "hindsight": self.hindsight}
