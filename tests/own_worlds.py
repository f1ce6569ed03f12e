"""Environments and a credit function of one's own, as the command line takes them: "tests.own_worlds:Mine/Doors-v0"."""

from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.core import TextEnv
from agentgym.trajectory import Floats, StepTable
from agentgym.vector import TextVectorEnv
from baselines.recipes import recipe
from tests.corridor import CorridorEnv


class Doors(CorridorEnv):
    """The corridor without an expert and without a list of tasks."""

    num_tasks = TextEnv.num_tasks

    def describe(self, valid: bool) -> dict[str, Any]:
        return {name: value for name, value in super().describe(valid).items() if name != "expert_action"}


class DoorsVector(TextVectorEnv):
    env_class = Doors


class Plain(gym.Env[str, str]):
    """Any word wins; it says neither which words there are nor what an expert would do."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "go", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "go", 1.0, True, False, {"success": True}


class Stairs(Plain):
    """Words that begin with n to z lead up from one of three steps; the fourth wins, the ground loses."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.height = int(self.np_random.integers(1, 4))
        return str(self.height), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.height += 1 if action[:1] >= "n" else -1
        return str(self.height), float(self.height == 4), self.height in (0, 4), False, {"success": self.height == 4}


def credit(table: StepTable, *, scale: float = 1.0, sign: str = "plus") -> Floats:
    return scale * np.where(table.won, 1.0, -0.1)


half = recipe("grpo").with_options(invalid_penalty=0.5)


gym.register("Mine/Doors-v0", Doors, vector_entry_point=DoorsVector, max_episode_steps=2)
gym.register("Mine/Plain-v0", Plain, max_episode_steps=2)
gym.register("Mine/Stairs-v0", Stairs, max_episode_steps=8)
