"""Symbolic Sokoban for learners that take numbers: a fixed set of levels, drawn by chance, under one of three rewards.

Levels must come back for a graph per task to be of use, hence a fixed set; any other learner can use the same
environments: they are plain Gymnasium with a `Box` and a `Discrete` space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

import agentgym  # noqa: F401  # registers the environments
from wrappers.credit.task_graph import TaskGraphs
from wrappers.shaping import GraphShaping
from wrappers.symbols import DiscreteActions, SymbolPlanes

#: "own": the environment's; "success": 1 for solving the level, else 0; "shaped": success, shaped by the graph.
Reward = Literal["own", "success", "shaped"]
REWARDS: tuple[Reward, ...] = ("own", "success", "shaped")

#: Takes a batch of observations and returns one action each.
Act = Callable[[NDArray[Any]], Sequence[int] | NDArray[Any]]


@dataclass(frozen=True)
class Levels:
    """Which levels.

    Attributes:
        size: rows and columns, walls included.
        min_length: shortest optimal solution, in moves.
        max_length: longest optimal solution, in moves.
        training: number of training levels, the first ones of the split "train".
        held_out: number of held-out levels, the first ones of the split "test".
    """

    size: int = 6
    boxes: int = 1
    min_length: int = 5
    max_length: int = 12
    max_episode_steps: int = 40
    training: int = 16
    held_out: int = 64


class TaskChoice(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draw the task of each episode from a list; a seed given to `reset` seeds the draws.

    Args:
        env: an environment whose `reset` takes options.
        tasks: reset options, one mapping per task.
    """

    def __init__(self, env: gym.Env[Any, Any], tasks: Sequence[Mapping[str, Any]]) -> None:
        RecordConstructorArgs.__init__(self, tasks=tasks)
        gym.Wrapper.__init__(self, env)
        if not tasks:
            raise ValueError("TaskChoice: there are no tasks to draw from")
        self.tasks = tuple(dict(task) for task in tasks)
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        task = self.tasks[int(self._rng.integers(len(self.tasks)))]
        return self.env.reset(seed=seed, options={**task, **(options or {})})


class SuccessReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Pay 1 for a step after which `info["won"]`, and 0 for every other."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, float(info["won"]), terminated, truncated, info


def symbolic_sokoban(levels: Levels) -> gym.Env[NDArray[Any], Any]:
    """Return Sokoban with planes of symbols and numbered moves, time limit included."""
    return DiscreteActions(
        SymbolPlanes(
            gym.make(
                "AgentRL/Sokoban-v0", size=levels.size, boxes=levels.boxes, min_length=levels.min_length,
                max_length=levels.max_length, num_levels=max(1000, levels.training, levels.held_out),
                max_episode_steps=levels.max_episode_steps,
            )
        )
    )  # fmt: skip


def training_env(
    levels: Levels, reward: Reward, *, gamma: float, decay: float, scale: float, graphs: TaskGraphs
) -> gym.Env[NDArray[Any], Any]:
    """Return the environment that a learner trains on."""
    if reward not in REWARDS:
        raise ValueError(f"unknown reward {reward!r}; known: {', '.join(REWARDS)}")
    env: gym.Env[Any, Any] = TaskChoice(symbolic_sokoban(levels), tasks_of("train", levels.training))
    if reward != "own":
        env = SuccessReward(env)
    return GraphShaping(env, gamma, decay=decay, scale=scale, graphs=graphs) if reward == "shaped" else env


def tasks_of(split: str, count: int) -> list[dict[str, Any]]:
    """Reset options of the first levels of a split."""
    return [{"split": split, "index": index} for index in range(count)]


def solved(levels: Levels, split: str, count: int, act: Act) -> str:
    """Play the first levels of a split once, side by side.

    Returns:
        One character per level, "1" where it was solved, else "0".
    """
    envs = [symbolic_sokoban(levels) for _ in range(count)]
    observations = [env.reset(options=task)[0] for env, task in zip(envs, tasks_of(split, count), strict=True)]
    running, won = list(range(count)), ["0"] * count
    while running:
        actions = act(np.stack([observations[i] for i in running]))
        still = []
        for i, action in zip(running, actions, strict=True):
            observations[i], _, terminated, truncated, info = envs[i].step(int(action))
            if terminated or truncated:
                won[i] = "1" if info["won"] else "0"
            else:
                still.append(i)
        running = still
    return "".join(won)
