"""Count invalid actions and subtract a penalty for each.

An action is invalid if `info["is_action_valid"]` is False: an unreadable reply or a command that the environment
refuses. The penalty is part of that step's reward, as in published trainers (coefficient 0.1).
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.checks import real
from wrappers.vector_wrapper import Array, Shown, SingleForm, Step, SubEnvWrapper


class VectorInvalidActionPenalty(SubEnvWrapper[int]):
    """Vector form of `InvalidActionPenalty`: `infos["invalid_actions"]` is int64 (num_envs,).

    Under `SAME_STEP` the count of a finished episode is in `final_info`. Ignored actions are not penalised.

    Args:
        env: a vector environment whose infos have `is_action_valid`.
        penalty: at least 0, in units of reward; 0 only counts.
    """

    frozen = True

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], penalty: float = 0.1) -> None:
        super().__init__(env)
        self.penalty = real("penalty", penalty, 0.0, expected="a finite number of at least 0, which is subtracted")

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self.states[i] = 0

    def advance(self, step: Step) -> NDArray[np.float64]:
        charges = np.zeros(self.num_envs)
        for i in step.played:
            if not step.after.entry("is_action_valid", i):
                self.states[i] += 1
                charges[i] = -self.penalty
        return charges

    def columns(self) -> dict[str, Array]:
        return {"invalid_actions": np.array(self.states, np.int64)}


class InvalidActionPenalty(SingleForm):
    """Subtract `penalty` from the reward of every invalid action; arguments as `VectorInvalidActionPenalty`.

    Info gains `invalid_actions`: the number of invalid actions of this episode so far (int).

    >>> import agentgym
    >>> env = InvalidActionPenalty(gym.make("AgentRL/Sokoban-v0"), penalty=0.5)
    >>> _ = env.reset(seed=0)
    >>> _, reward, _, _, info = env.step("dance")
    >>> reward, info["invalid_actions"]
    (-0.6, 1)
    """

    form = VectorInvalidActionPenalty
