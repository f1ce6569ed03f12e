"""Count invalid actions and subtract a penalty for each.

An action is invalid when the environment says so in `info["is_action_valid"]`: no readable reply, or a command that
the world does not accept. The signal is part of the reward of that very step, as in the published agent trainers
(their coefficient is 0.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from agentgym.branching.single import BranchingWrapper
from wrappers.vector_wrapper import Array, Shown, Step, SubEnvWrapper


def _checked(penalty: float) -> float:
    if not (np.isfinite(penalty) and penalty >= 0):
        raise ValueError(f"penalty is subtracted from the reward: pass a finite number of at least 0, got {penalty!r}")
    return float(penalty)


class InvalidActionPenalty(BranchingWrapper, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Subtract `penalty` from the reward of every invalid action.

    Info gains `invalid_actions`: the number of invalid actions in this episode so far (int).

    Args:
        env: an environment whose info has `is_action_valid`.
        penalty: at least 0, in units of reward; 0 only counts.

    >>> import agentgym
    >>> env = InvalidActionPenalty(gym.make("AgentRL/Sokoban-v0"), penalty=0.5)
    >>> _ = env.reset(seed=0)
    >>> _, reward, _, _, info = env.step("dance")
    >>> reward, info["invalid_actions"]
    (-0.6, 1)
    """

    def __init__(self, env: gym.Env[Any, Any], penalty: float = 0.1) -> None:
        RecordConstructorArgs.__init__(self, penalty=penalty)
        gym.Wrapper.__init__(self, env)
        self.penalty = _checked(penalty)
        self._count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and its count."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._count = 0
        return observation, {**info, "invalid_actions": 0}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play an action and charge it when it is invalid."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not info["is_action_valid"]:
            self._count += 1
            reward = float(reward) - self.penalty
        return observation, reward, terminated, truncated, {**info, "invalid_actions": self._count}

    def get_state(self) -> int:
        """Return the count."""
        return self._count

    def set_state(self, state: int) -> None:
        """Load a count."""
        self._count = state

    def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return what is seen from inside, and the count."""
        return observation, {**info, "invalid_actions": self._count}


class VectorInvalidActionPenalty(SubEnvWrapper[int]):
    """Vector form of `InvalidActionPenalty`; `infos["invalid_actions"]` is int64 (num_envs,).

    Only actions that were played are charged: never those of finished or resetting
    sub-environments. Under `SAME_STEP` the
    count of an episode that has ended is in `final_info`.

    Args:
        env: a vector environment whose infos have `is_action_valid`.
        penalty: at least 0, in units of reward.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], penalty: float = 0.1) -> None:
        super().__init__(env)
        self.penalty = _checked(penalty)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Start counting."""
        for i in indices:
            self.states[i] = 0

    def advance(self, step: Step) -> NDArray[np.float64]:
        """Count the invalid actions and return their charges."""
        charges = np.zeros(self.num_envs)
        for i in step.played:
            if not step.after.entry("is_action_valid", i):
                self.states[i] += 1
                charges[i] = -self.penalty
        return charges

    def copied(self, state: int) -> int:
        """Return a count as it is."""
        return state

    def columns(self) -> dict[str, Array]:
        """Return the counts."""
        return {"invalid_actions": np.array(self.states, np.int64)}
