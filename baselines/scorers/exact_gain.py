"""The exact gain of every step, from environments that know their distance to success.

    score = d(s) - d(s')        d: steps to success, see `wrappers.distance.Distances`

It is an upper bound for learned or estimated credit. If training with it is no better than training with the episode's
outcome, credit hardly limits training there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from agentgym.checks import Range, fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.scorers.scorer import ScorerConfig, StepScorer
from baselines.scorers.task_distance import by_task
from wrappers.distance import Distances, gained, row_distances


@fields_checked
@dataclass(frozen=True)
class ExactGainConfig(ScorerConfig):
    """Settings of the scorer; those of `baselines.scorers.scorer.ScorerConfig` are for networks and have no effect.

    Attributes:
        dead_end: score of a step into a state from which success cannot be reached.
    """

    level: Literal["turn"] = "turn"
    dead_end: Annotated[float, Range(high=0)] = -3.0

    def check_envs(self, make: Callable[[], Any]) -> None:
        """Raise ValueError if the environments that `make` returns do not know their distance to success."""
        Distances(make())

    def around(self, envs: Any) -> Any:
        return Distances(envs)

    def make_in(self, policy: Any, envs: Any) -> ExactGain:
        return ExactGain(envs.found, self)

    def make(self, policy: Any) -> ExactGain:
        """Raise an error: there is no gain without environments.

        Raises:
            ValueError: always.
        """
        raise ValueError("exact gains come from environments: ExactGain(Distances(envs).found), or a trainer's own")


class ExactGain(StepScorer):
    """Exact gains of steps.

    Args:
        found: the `Distances.found` of the environments that are played.
    """

    takes_forks = True

    def __init__(self, found: dict[tuple[str, str], tuple[float, float]], config: ExactGainConfig | None = None):
        self.found, self.config = found, config or ExactGainConfig()

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), the gain of each row; nan if it is unknown, and within dead ends."""
        before, after = np.split(row_distances(by_task(table), self.found), 2)
        return np.where(np.isinf(before), np.nan, np.maximum(gained(before, after), self.config.dead_end))

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Return the share of steps whose gain is known, and their mean gain; nothing is learned."""
        known = ~np.isnan(scores)
        mean = float(scores[known].mean()) if known.any() else 0.0
        return {"gain_known": float(known.mean()) if len(scores) else 0.0, "gain": mean}

    def describe(self) -> dict[str, Any]:
        return {"scorer": "exact_gain", "dead_end": self.config.dead_end}
