"""Rollouts of a trainer: groups of episodes and, optionally, continuations of some of their steps."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.checks import suggest
from agentgym.rollout import Policy, act_each, collect
from agentgym.rollout.groups import Infos
from agentgym.rollout.lanes import ReplyQueue, answers_of, collect_lanes, reply_queue
from agentgym.rollout.tree import SELECTIONS, Select, at_random, collect_tree, every, highest_entropy
from agentgym.trajectory import Reply, StepTable
from baselines.config import TrainerConfig

#: One vector environment, or several as lanes.
Envs = gym.vector.VectorEnv[Any, Any, Any] | Sequence[gym.vector.VectorEnv[Any, Any, Any]]

_COUNTED = ("every", "entropy", "random")


class Timed:
    """A policy that counts the seconds and tokens of its replies."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.seconds = 0.0
        self.tokens = 0

    def act(self, observations: Sequence[Any], infos: Infos, rng: np.random.Generator) -> list[Reply]:
        return self._timed(lambda: self.policy.act(observations, infos, rng))

    def act_each(self, observations: Sequence[Any], infos: Infos, rngs: Sequence[np.random.Generator]) -> list[Reply]:
        return self._timed(lambda: act_each(self.policy, observations, infos, rngs))

    def reply_queue(self) -> ReplyQueue | None:
        """Return the policy's queue, timed; None where it has none."""
        queue = reply_queue(self.policy)
        return None if queue is None else _TimedQueue(self, queue)

    def _timed(self, ask: Callable[[], list[Reply]]) -> list[Reply]:
        with self.clock():
            replies = ask()
        self.tokens += sum(len(reply.token_ids) for reply in replies)
        return replies

    @contextlib.contextmanager
    def clock(self) -> Iterator[None]:
        """Add the seconds of a block."""
        begin = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - begin


class _TimedQueue:
    def __init__(self, timed: Timed, queue: ReplyQueue) -> None:
        self._timed, self._queue = timed, queue
        self._waiting: set[int] = set()

    def put(self, names: Any, observations: Any, infos: Any, rngs: Any) -> None:
        with self._timed.clock():
            self._queue.put(names, observations, infos, rngs)
        self._waiting.update(names)

    def get(self) -> list[tuple[int, Reply | Exception]]:
        with self._timed.clock():
            found = list(answers_of(self._queue, self._queue.get(), self._waiting))
        self._waiting.difference_update(name for name, _ in found)
        self._timed.tokens += sum(len(reply.token_ids) for _, reply in found if isinstance(reply, Reply))
        return found

    def close(self) -> None:
        self._queue.close()


def play_groups(
    envs: Envs,
    policy: Policy,
    tasks: Sequence[Mapping[str, Any]],
    config: TrainerConfig,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> StepTable:
    """Play the groups' episodes of each task, then the continuations of each chosen step.

    Args:
        envs: environments for `agentgym.rollout.collect`; with branches, for `agentgym.rollout.collect_tree`; several
            are lanes, see `agentgym.rollout.lanes.collect_lanes`.
        config: `group_size` and `rollout` are used.

    Raises:
        ValueError: branches are wanted in lanes.
    """
    check_lanes(envs, config)
    branching = config.rollout
    common: dict[str, Any] = {"tasks": tasks, "group_size": config.group_size, "seed": seed, "progress": progress}
    if isinstance(envs, Sequence):
        return collect_lanes(envs, policy, **common)
    if not branching.branches:
        return collect(envs, policy, **common)
    return collect_tree(
        envs, policy, branches=branching.branches, select=steps_to_branch_at(branching.branch_at, seed),
        common=branching.common_numbers, **common,
    )  # fmt: skip


def check_lanes(envs: Envs, config: TrainerConfig) -> None:
    """Raise a ValueError if there are no lanes, or if steps of lanes are to be continued."""
    if isinstance(envs, Sequence) and not envs:
        raise ValueError("expected one vector environment, or several as lanes, got an empty list")
    if config.rollout.branches and isinstance(envs, Sequence):
        raise ValueError(
            f"rollout.branches={config.rollout.branches} are continued in one vector environment, and {len(envs)} "
            "lanes were given: set rollout.branches=0, or give one environment"
        )


def steps_to_branch_at(words: str, seed: int = 0) -> str | Select:
    """Return the selection of steps that a text describes.

    Args:
        words: a name of `agentgym.rollout.tree.SELECTIONS`; or "every 4", the steps 0, 4, 8, ..; "entropy 2",
            the two of each trajectory in which the policy was least sure; "random 2", two of each trajectory.

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
    """Return the episodes that `play_groups` played before any continuation."""
    episodes = np.array([int(str(number)) < count for number in table.trajectories])
    return table if episodes.all() else table.keep(episodes)
