"""A policy that moves at random solves Sokoban if it may try before it plays: tree search on forks.

The search simulates in a vector environment of its own, all episodes side by side, and then plays the best simulation.
What it has seen is data: demonstrations to clone, and pairs of replies of which one led further.
Run: python examples/tree_search.py
"""

from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  registers the AgentRL/* ids
from agentgym.rollout import collect
from policies.scripted import RandomPolicy
from policies.search.lessons import demonstrations, preferences
from policies.search.methods import MCTS
from policies.search.player import SearchPlayer
from policies.search.simulator import Listed
from policies.search.tree import Budget, Value
from wrappers import VectorReplyParser, VectorSnapshots

LEVELS = [{"split": "test", "index": i} for i in range(48)]


def make() -> Any:
    """Return Sokoban in as many sub-environments as there are levels."""
    return VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=len(LEVELS), autoreset_mode="Disabled"))


alone = collect(make(), RandomPolicy(), tasks=LEVELS, seed=0)
print(f"random moves alone             {alone.trajectory_won.mean():4.0%} of the levels")
for steps in (30, 100, 300):
    player = SearchPlayer(
        make(), RandomPolicy(), MCTS(), budget=Budget(steps=steps), listed=Listed(), value=Value(rollout=0), keep=True
    )
    table = collect(VectorSnapshots(make()), player, tasks=LEVELS, seed=0)
    spent = sum(cost.steps for cost in player.costs.values()) / len(LEVELS)
    print(f"after {steps:3} simulated steps each {table.trajectory_won.mean():4.0%}, {spent:.0f} of them needed")

trees = [tree for searches in player.trees.values() for tree in searches]
hardest = max((tree for tree in trees if tree.best.won), key=lambda tree: tree.best.t)
print(f"\n{hardest.root.observation}\n\nis solved by {', '.join(node.action for node in hardest.plan())}\n")
pairs = preferences(trees, gap=0.1)
print(f"{len(demonstrations(trees))} replies to clone, {len(pairs)} pairs to prefer by, for instance")
print(f"\n{pairs[0].observation}\n\n{pairs[0].chosen.text} over {pairs[0].rejected.text}: {pairs[0].gap:+.2f}")
