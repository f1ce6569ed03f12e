"""Searches in the corridor of `tests.corridor`, for the tests of this folder."""

from typing import Any

import numpy as np

from agentgym.trajectory import Reply
from policies.scripted import RandomPolicy, tagged
from policies.search.simulator import Simulator
from policies.search.tree import Budget, Tree, Value
from tests.corridor import CorridorVectorEnv
from tests.playing import Scripted
from wrappers import VectorReplyParser


def make(num_envs: int = 1, limit: int | None = 20) -> Any:
    """The corridor, which takes replies."""
    return VectorReplyParser(CorridorVectorEnv(num_envs, max_episode_steps=limit, autoreset_mode="Disabled"))


def saying(*words: str) -> Scripted:
    """A policy that says these commands one after the other, whoever is asked."""
    return Scripted(*map(tagged, words), by="reply")


def asked(policy: Scripted) -> int:
    """How many replies a policy was asked for."""
    return sum(map(len, policy.seen))


class Priors:
    """Lists left and right with given probabilities; stands for `policies.search.simulator.Listed`.

    Args:
        left: probability of "left".
        cells: in which it lists something at all.
    """

    def __init__(self, left: float, cells: str = "01234") -> None:
        self.left, self.cells = left, cells

    def replies(self, observations: Any, infos: Any) -> tuple[Any, Any, list[int]]:
        both, priors = [Reply(tagged("left")), Reply(tagged("right"))], [self.left, 1 - self.left]
        listed = [text[-1] in self.cells for text in observations]
        return [[*both] * each for each in listed], [priors * each for each in listed], [0] * len(listed)


def search(
    method: Any,
    *,
    start: int = 2,
    num_envs: int = 1,
    trees: int = 1,
    budget: Budget | None = None,
    value: Value | None = None,
    policy: Any = None,
    seed: int = 0,
    until_won: bool = False,
    limit: int | None = 20,
    **options: Any,
) -> list[Tree]:
    """Search from the first state of episodes that begin in a cell; options are those of `Simulator`."""
    played = make(trees, limit)
    played.reset(seed=0, options={"index": start})
    value, budget = value or Value(), budget or Budget(steps=50)
    simulator = Simulator(make(num_envs, limit), policy or RandomPolicy(), value=value, **options)

    def plant(root: Any, task: str) -> Tree:
        return method.tree(root, task, value, budget, np.random.default_rng(seed))

    return simulator.run([played.snapshot(i) for i in range(trees)], plant, until_won=until_won)


def commands(nodes: Any) -> list[str]:
    """What is played on a path."""
    return [node.action for node in nodes]
