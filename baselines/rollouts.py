"""Rollouts that a trainer learns from: groups of episodes, and continuations of some of their steps if wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.branch_points import SELECTIONS, Select, at_random, every, highest_entropy
from agentgym.checks import suggest
from agentgym.rollout import Policy, act_each, collect
from agentgym.trajectory import Reply, StepTable
from agentgym.tree import collect_tree
from baselines.config import TrainerConfig

_COUNTED = ("every", "entropy", "random")


class Timed:
    """A policy that adds up the seconds and reply tokens of its replies."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.seconds = 0.0
        self.tokens = 0

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """Act as the policy does."""
        return self._timed(lambda: self.policy.act(observations, infos, rng))

    def act_each(
        self,
        observations: Sequence[Any],
        infos: Mapping[str, NDArray[Any]],
        rngs: Sequence[np.random.Generator],
    ) -> list[Reply]:
        """Act as the policy does with a generator for each observation."""
        return self._timed(lambda: act_each(self.policy, observations, infos, rngs))

    def _timed(self, ask: Callable[[], list[Reply]]) -> list[Reply]:
        begin = time.perf_counter()
        replies = ask()
        self.seconds += time.perf_counter() - begin
        self.tokens += sum(len(reply.token_ids) for reply in replies)
        return replies


def play_groups(
    envs: gym.vector.VectorEnv[Any, Any, Any],
    policy: Policy,
    tasks: Sequence[Mapping[str, Any]],
    config: TrainerConfig,
    seed: int,
) -> StepTable:
    """Play `config.group_size` episodes of each task, then `config.branches` continuations of each chosen step.

    Args:
        envs: as `agentgym.rollout.collect` takes them; with branches as `agentgym.tree.collect_tree` does.
        policy: who acts.
        tasks: reset options, one group each.
        config: `group_size`, `branches`, `branch_at` and `common_numbers` are used.
        seed: of episodes and continuations.
    """
    if not config.branches:
        return collect(envs, policy, tasks=tasks, group_size=config.group_size, seed=seed)
    return collect_tree(
        envs,
        policy,
        tasks=tasks,
        group_size=config.group_size,
        branches=config.branches,
        select=steps_to_branch_at(config.branch_at, seed),
        common=config.common_numbers,
        seed=seed,
    )


def steps_to_branch_at(words: str, seed: int = 0) -> str | Select:
    """Return the selection of steps that words ask for.

    Args:
        words: a name of `agentgym.branch_points.SELECTIONS`; or "every 4", the steps 0, 4, 8, ..; "entropy 2", the two
            of each trajectory in which the policy was least sure; "random 2", two of each trajectory.
        seed: of a random selection.

    Raises:
        ValueError: the words are none of these.

    >>> steps_to_branch_at("distinct")
    'distinct'
    """
    kind, _, number = words.partition(" ")
    if words in SELECTIONS:
        return words
    if kind not in _COUNTED or not (number.isascii() and number.isdigit() and int(number)):
        known = [*SELECTIONS, *(f"{kind} N" for kind in _COUNTED)]
        raise ValueError(f"unknown branch_at {words!r}; {suggest(words, known)}")
    if kind == "every":
        return every(int(number))
    return highest_entropy(int(number)) if kind == "entropy" else at_random(int(number), seed)


def episodes_of(table: StepTable, count: int) -> StepTable:
    """Return what `play_groups` played before any continuation.

    Steps to continue are chosen, so that what becomes of continuations says nothing of how the policy plays.

    Args:
        table: what it returned; trajectories are numbered as they are begun, episodes first.
        count: how many episodes it was asked for, those that could not be scored included.
    """
    episodes = np.array([int(str(number)) < count for number in table.trajectories])
    return table if episodes.all() else table.keep(episodes)
