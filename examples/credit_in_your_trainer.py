"""Credit methods in a trainer that is not ours: a table of probabilities on FrozenLake, and 20 lines of numpy.

All that the methods need are columns: who was where, what was done, what came of it. The same loop learns with the
credit of whole episodes (GRPO), of steps that share a state (GiGPO), and of edges of the state graph (GraphGPO).
Run: python examples/credit_in_your_trainer.py
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import StepTable
from wrappers.credit import gigpo, graphgpo, grpo

EPISODES, ITERATIONS, RATE = 48, 24, 0.5


Floats = NDArray[np.float64]


def play(env: gym.Env[int, int], probabilities: Floats, rng: np.random.Generator) -> dict[str, Any]:
    """Play a group of episodes and return its steps as columns, one list each."""
    names = ("trajectory", "t", "state", "action", "next_state", "reward", "won")
    columns: dict[str, Any] = {name: [] for name in names}
    for episode in range(EPISODES):
        (state, _), over, t = env.reset(seed=0), False, 0
        while not over:
            action = int(rng.choice(4, p=probabilities[state]))
            following, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            row = (episode, t, state, action, following, float(reward), False)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
            state, t = following, t + 1
        columns["won"][-t:] = [float(reward) > 0] * t  # the whole episode
    return columns


def train(credit: Callable[[StepTable], Floats]) -> list[float]:
    """Return the share of won episodes in each iteration."""
    env, rng = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=40), np.random.default_rng(0)
    logits, success = np.zeros((16, 4)), list[float]()
    for _ in range(ITERATIONS):
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        columns = play(env, probabilities, rng)
        table = StepTable.from_arrays(group=["lake"] * len(columns["t"]), **columns)
        advantages = credit(table)  # float64, one per row
        gradient = np.zeros_like(logits)
        for state, action, advantage in zip(columns["state"], columns["action"], advantages, strict=True):
            gradient[state] -= advantage * probabilities[state]
            gradient[state, action] += advantage
        logits += RATE * gradient / EPISODES
        success.append(float(table.trajectory_won.mean()))
    return success


print(f"success in % over {ITERATIONS} iterations of {EPISODES} episodes, every third shown")
for credit in (grpo, gigpo, graphgpo):
    print(f"{credit.__name__:9}", *(f"{100 * rate:4.0f}" for rate in train(credit)[::3]))
