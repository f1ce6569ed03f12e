"""A player of adjustable quality: the expert's move with some probability, else any of the four moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.sokoban.rules import DIRECTIONS
from agentgym.trajectory import Reply


class NoisyExpert:
    """Plays the first optimal move with probability `optimal`, else one of the four moves, uniformly.

    The uniform moves include those that run into a wall. In a dead end, where no move is optimal, all are uniform.
    The environments must be made with `expert=True`; without a reply parser, as the reply is the bare command.

    Args:
        optimal: probability of the expert's move, in 0..1; 0 is uniform play.

    Raises:
        ValueError: the probability is not in 0..1.

    >>> infos = {"expert_action": np.array(["left", ""], dtype=object)}
    >>> [reply.text for reply in NoisyExpert(1.0).act(["a", "b"], infos, np.random.default_rng(0))]
    ['left', 'up']
    """

    def __init__(self, optimal: float) -> None:
        if not 0 <= optimal <= 1:
            raise ValueError(f"optimal must be a probability, got {optimal}")
        self.optimal = optimal

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """One reply per running place; the same numbers are drawn whatever the expert says."""
        advice = infos["expert_action"]
        follows = rng.random(len(observations)) < self.optimal
        others = rng.integers(len(DIRECTIONS), size=len(observations))
        return [
            Reply(best if best and follow else DIRECTIONS[other])
            for best, follow, other in zip(advice, follows.tolist(), others.tolist(), strict=True)
        ]
