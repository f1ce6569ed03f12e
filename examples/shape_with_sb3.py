"""Stable-Baselines3's PPO on four Sokoban levels: rewarded for success alone, and shaped by the graph of what it saw.

`GraphShaping` keeps a graph of states per level across episodes. As soon as one episode has solved a level, every step
of later ones is rewarded for what it gains on the way; the best policy stays the best. One seed each: five seeds, and
settings in which shaping does nothing, are on the page docs/credit/shaping.md.
Needs the extra `sb3` (docs/install.md).
Run: python examples/shape_with_sb3.py
"""

from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import agentgym  # noqa: F401  registers the AgentRL/* ids
from baselines.sb3.sokoban import SuccessReward, TaskChoice
from wrappers import DiscreteActions, GraphShaping, SymbolPlanes, TaskGraphs

GAMMA, STEPS, ROUNDS = 0.97, 2_560, 5
LEVELS: dict[str, Any] = {"boxes": 1, "min_length": 5, "max_length": 8, "max_episode_steps": 40}


def make_env(graphs: TaskGraphs | None) -> gym.Env[Any, Any]:
    """Return Sokoban as planes and four moves, with a reward of 1 for success; shaped where graphs are given."""
    env: gym.Env[Any, Any] = DiscreteActions(SymbolPlanes(gym.make("AgentRL/Sokoban-v0", **LEVELS)))
    env = SuccessReward(TaskChoice(env, [{"index": index} for index in range(4)]))
    return env if graphs is None else GraphShaping(env, gamma=GAMMA, graphs=graphs)


def learn(graphs: TaskGraphs | None) -> None:
    """Train, and print after every round how many of the last hundred episodes were won."""
    envs = VecMonitor(DummyVecEnv([lambda: make_env(graphs)] * 8), info_keywords=("won",))
    model = PPO(
        "MlpPolicy", envs, gamma=GAMMA, gae_lambda=0.8, n_steps=64, batch_size=128, ent_coef=0.01, device="cpu", seed=0
    )
    for _ in range(ROUNDS):
        model.learn(STEPS, reset_num_timesteps=False)
        won = [episode["won"] for episode in model.ep_info_buffer or ()]
        print(f"{100 * sum(won) / len(won):4.0f} %", end="", flush=True)
    print("" if graphs is None else f"   {graphs}")


torch.set_num_threads(1)  # more threads only wait for each other in a network this small
print("won of the last 100 episodes after", ", ".join(f"{STEPS * (i + 1):,}" for i in range(ROUNDS)), "steps")
for name, graphs in (("1 for success", None), ("the same, shaped", TaskGraphs())):
    print(f"{name:16}", end="", flush=True)
    learn(graphs)
