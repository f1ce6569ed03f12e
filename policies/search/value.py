"""What a state is worth to a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray

#: Values of states in which an episode goes on: (observations, info columns) of n sub-environments -> n numbers.
Critic = Callable[[Sequence[Any], Mapping[str, NDArray[Any]]], ArrayLike]


@dataclass(frozen=True)
class Value:
    """How a simulation is judged.

    A new state is played on from by the policy for `rollout` steps; where that ends, the outcome counts, or what a
    critic says of it where the episode would go on. It is discounted by `gamma` for every step on the way, so that of
    two ways to the same outcome the shorter one is better.

    The outcome is looked up in the environment: a player that searches sees how its attempts end before it plays one.

    Attributes:
        outcome: "score": `info["score"]` of the last state; "won": 1 for success and 0 else; "return": the rewards on
            the way, where a state in which the episode goes on is worth 0 without a critic.
        gamma: discount per step, in 0 to 1.
        rollout: most steps that the policy plays on from a new state; None: to the end of the episode; 0: none, the
            state itself is judged.
        critic: value of states in which the episode goes on, on the scale of the outcome; None: the outcome as it
            stands there.

    Raises:
        ValueError: an unknown outcome, or a number out of range.
    """

    outcome: Literal["score", "won", "return"] = "score"
    gamma: float = 0.99
    rollout: int | None = None
    critic: Critic | None = None

    def __post_init__(self) -> None:
        if self.outcome not in ("score", "won", "return"):
            raise ValueError(f"unknown outcome {self.outcome!r}: expected 'score', 'won' or 'return'")
        if not 0 <= self.gamma <= 1 or (self.rollout is not None and self.rollout < 0):
            raise ValueError(
                f"gamma must be in 0 to 1 and rollout at least 0 (or None), got gamma={self.gamma}, "
                f"rollout={self.rollout}"
            )

    def reward(self, reward: float) -> float:
        """Return what a step's reward counts."""
        return reward if self.outcome == "return" else 0.0

    def standing(self, won: bool, score: float) -> float:
        """Return what a state counts without a critic."""
        return {"score": score, "won": float(won), "return": 0.0}[self.outcome]
