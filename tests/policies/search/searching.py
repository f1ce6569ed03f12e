"""Searches in the corridor of `tests.corridor`, for the tests of this folder."""

from typing import Any

import numpy as np

from agentgym.trajectory import Reply
from policies.scripted import RandomPolicy, tagged
from policies.search.simulator import Simulator
from policies.search.tree import Budget, Tree, Value
from tests.corridor import CorridorVectorEnv
from wrappers import VectorReplyParser


def make(num_envs: int = 1, limit: int | None = 20) -> Any:
    """The corridor, which takes replies."""
    return VectorReplyParser(CorridorVectorEnv(num_envs, max_episode_steps=limit, autoreset_mode="Disabled"))


class Priors:
    """Lists left and right with given probabilities; stands for `policies.search.simulator.Listed`."""

    def __init__(self, left: float) -> None:
        self.left = left

    def replies(self, observations: Any, infos: Any) -> tuple[Any, Any, list[int]]:
        count = len(observations)
        both = [Reply(tagged("left")), Reply(tagged("right"))]
        return [list(both) for _ in range(count)], [[self.left, 1 - self.left] for _ in range(count)], [0] * count


def search(
    method: Any,
    *,
    start: int = 2,
    num_envs: int = 1,
    trees: int = 1,
    budget: Budget | None = None,
    value: Value | None = None,
    listed: Any = None,
    policy: Any = None,
    seed: int = 0,
    until_won: bool = False,
    limit: int | None = 20,
    under_way: int | None = None,
) -> list[Tree]:
    """Search from the first state of episodes that begin in a cell."""
    played = make(trees, limit)
    played.reset(seed=0, options={"index": start})
    value, budget = value or Value(), budget or Budget(steps=50)
    simulator = Simulator(
        make(num_envs, limit), policy or RandomPolicy(), value=value, listed=listed, under_way=under_way
    )

    def plant(root: Any, task: str) -> Tree:
        return method.tree(root, task, value, budget, np.random.default_rng(seed))

    return simulator.run([played.snapshot(i) for i in range(trees)], plant, until_won=until_won)


def commands(nodes: Any) -> list[str]:
    """What is played on a path."""
    return [node.action for node in nodes]
