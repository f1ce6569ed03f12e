"""An environment in plain Gymnasium that knows nothing of this project: groups of episodes, credit, training.

Continued in docs/tutorials/own-environment.md. Run: python examples/own_environment.py
"""

import string
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.rollout import collect
from agentgym.trajectory import Reply
from baselines.config import Optimiser, TrainerConfig, Validation
from baselines.recipes import recipe
from baselines.trainer import Trainer
from policies.tiny import tiny_policy
from wrappers import VectorPromptWindow, VectorReplyParser
from wrappers.credit import grpo, rewardflow

torch.set_num_threads(1)  # more threads only wait for each other in a model this small


class Stairs(gym.Env[str, str]):
    """Five steps: the top one wins, the bottom one loses. Words that begin with n to z lead up, all others down."""

    observation_space = gym.spaces.Text(100, charset=string.printable)
    action_space = gym.spaces.Text(100, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Stand on the step that the options name."""
        super().reset(seed=seed)
        self.height = int((options or {}).get("start", 2))
        return self.look(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Go one step up or down."""
        self.height += 1 if "n" <= action[:1].lower() <= "z" else -1
        won = self.height == 4
        return self.look(), float(won), won or self.height == 0, False, {"success": won}

    def look(self) -> str:
        """Say where one stands."""
        return f"You are on step {self.height}."


class Words:
    """A policy is anything that answers observations with replies; this one says one of two words."""

    def act(self, observations: Sequence[Any], infos: Mapping[str, Any], rng: np.random.Generator) -> list[Reply]:
        """Answer every observation."""
        return [Reply(str(rng.choice(["up", "down"]))) for _ in observations]


def make(count: int) -> SyncVectorEnv:
    """Return Gymnasium's own vector environment."""
    return SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Stairs(), 8)] * count, autoreset_mode=AutoresetMode.DISABLED)


tasks = [{"start": start} for start in (1, 2, 3)]
table = collect(make(12), Words(), tasks=tasks, group_size=4, seed=0)
print(f"{table.n_groups} groups, {table.n_trajectories} episodes, {table.trajectory_won.mean():.0%} won; a lost one:")
episodes = np.split(table.order, table.offsets[1:-1])
lost = max((rows for rows in episodes if not table.won[rows[0]]), key=len)
print("                        grpo  rewardflow")
for row, whole, step in zip(lost, grpo(table)[lost], rewardflow(table)[lost], strict=True):
    print(f"  {table.states[table.state[row]]} {table.actions[table.action[row]]:4} {whole:+5.2f} {step:+5.2f}")

envs = VectorPromptWindow(VectorReplyParser(make(24)), history=0, instructions=False)
policy = tiny_policy([f"You are on step {height}." for height in range(5)], seed=0, width=16, layers=1, heads=2)
config = TrainerConfig(
    iterations=4, groups=3, group_size=16, learning_rate=1e-2, optimiser=Optimiser(minibatch_rows=8),
    validation=Validation(every=0),
)  # fmt: skip
print("\na language model of 12,000 weights learns; episodes won:")
for result in Trainer(policy, envs, recipe("rewardflow"), tasks, config).run()[1:]:
    print(f"  iteration {result['iteration']}: {result['success']:.0%}")
