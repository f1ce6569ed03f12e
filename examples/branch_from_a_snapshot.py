"""What is every action of a state worth? Fork the episode, play on at random, and compare with the expert.

A fork continues a sub-environment in others, exactly as it stands. All branches are played side by side.
Run: python examples/branch_from_a_snapshot.py
"""

from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  registers the AgentRL/* ids

BRANCHES, LOOK_AHEAD = 300, 12

# Sub-environment 0 is the episode that is played, the others are its branches.
envs: Any = gym.make_vec(
    "AgentRL/Sokoban-v0", num_envs=1 + 4 * BRANCHES, autoreset_mode="Disabled", boxes=1, expert=True
)
rng = np.random.default_rng(0)
observations, infos = envs.reset(seed=0, options={"split": "train", "index": 3})


def values(actions: tuple[str, ...]) -> list[float]:
    """Return for each action of sub-environment 0 the share of random continuations that win within the look-ahead."""
    branches = range(1, 1 + len(actions) * BRANCHES)
    _, infos = envs.fork(0, branches)
    chosen = [""] * envs.num_envs
    for i in branches:
        chosen[i] = actions[(i - 1) // BRANCHES]
    for _ in range(1 + LOOK_AHEAD):
        _, _, _, _, infos = envs.step(chosen)
        # Where an episode is over, no action is admissible, and the step is ignored.
        chosen = [str(rng.choice(given)) if given else "" for given in infos["admissible_actions"]]
    won: list[float] = infos["won"][branches].reshape(len(actions), BRANCHES).mean(axis=1).tolist()
    return won


over, step = False, 0
while not over:
    print(f"{observations[0]}\n")
    here, best, actions = envs.snapshot(0), infos["expert_action"][0], infos["admissible_actions"][0]
    for action, value in zip(actions, values(actions), strict=True):
        print(f"  {action:6} {100 * value:5.1f} % {'#' * round(40 * value)}{'  <- expert' if action == best else ''}")
    envs.restore(0, here)
    observations, _, terminated, truncated, infos = envs.step([best] + [""] * (envs.num_envs - 1))
    over, step = terminated[0] or truncated[0], step + 1
print(f"{observations[0]}\n\nwon: {infos['won'][0]} after {step} steps")
