"""The episodes that credit is given to, with all that is needed to find out what their steps were worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy
from agentgym.rollout.groups import Stage, play_groups, warn_of_unscored
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Ints, StepTable
from baselines.environments.registry import settings_of
from baselines.environments.settings import SIDE_BY_SIDE, tasks
from baselines.evaluation import at_temperature
from benchmarks.league.distances import Distances
from benchmarks.league.players import ENVIRONMENTS
from benchmarks.ranking.rollouts import NoisyExpert
from benchmarks.training.stack import learned_config, make_envs
from wrappers.canonical import CanonicalStates
from wrappers.credit.group import number_pairs

#: Tasks to choose by, and tasks to judge what was chosen by.
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes of one player in one environment.

    Attributes:
        env: name of the environment.
        envs: the vector environment that they were played in.
        policy: who played.
        table: N rows; a group is a task.
        saved: the environment before each step, as `envs.snapshot` returned it, by trajectory and t.
    """

    env: str
    envs: Any
    policy: Policy
    table: StepTable
    saved: dict[tuple[Any, int], Any]

    def snapshot(self, row: int) -> Any:
        """Return the environment as it was before the step of a row."""
        return self.saved[self.table.trajectories[self.table.trajectory[row]], int(self.table.t[row])]


def tasks_of(env: str, count: int, split: str = VALIDATION) -> list[dict[str, Any]]:
    """Reset options of tasks that no training of the learning benchmark has.

    Args:
        env: name of the environment.
        count: how many.
        split: "validation", tasks that its tests do not have either, or "test".
    """
    row = settings_of(env)
    if split == TEST:
        return tasks(row.setup.test, count)
    same = row.setup.validation == row.setup.test
    return tasks(row.setup.validation, count, row.full.eval_tasks if same else 0)


def play_scripted(env: str, optimal: float, count: int, episodes: int, seed: int, split: str = VALIDATION) -> Played:
    """Let an expert with noise play.

    Args:
        env: name of the environment.
        optimal: probability of the expert's action, see `benchmarks.ranking.rollouts.NoisyExpert`.
        count: number of tasks.
        episodes: per task.
        seed: of the episodes.
        split: see `tasks_of`.
    """
    row = settings_of(env)
    envs: Any = gym.make_vec(
        row.id, min(count * episodes, SIDE_BY_SIDE), autoreset_mode="Disabled", expert=True,
        **row.setup.options, **row.setup.plenty,
    )  # fmt: skip
    if row.key is not None:
        envs = CanonicalStates(envs, key=row.key())
    return _played(
        env, envs, NoisyExpert(optimal, ENVIRONMENTS[env].others), tasks_of(env, count, split), episodes, seed
    )


def play_learned(env: str, job: Path, count: int, episodes: int, seed: int, split: str = VALIDATION) -> Played:
    """Let the policy of a learning benchmark's job play, at the temperature of its training."""
    import transformers

    from policies.huggingface import HuggingFacePolicy

    transformers.utils.logging.disable_progress_bar()
    learned = learned_config(job)
    policy = at_temperature(HuggingFacePolicy.from_pretrained(job / "model"), learned.temperature)
    return _played(env, make_envs(learned, count * episodes), policy, tasks_of(env, count, split), episodes, seed)


def _played(env: str, envs: Any, policy: Policy, chosen: list[dict[str, Any]], episodes: int, seed: int) -> Played:
    """Play as `agentgym.rollout.collect` does, and save the environment before each step."""
    if ENVIRONMENTS[env].exact:
        envs = Distances(envs)
    builder = TableBuilder(envs.num_envs, envs.metadata["autoreset_mode"])
    saved: dict[tuple[Any, int], Any] = {}

    def save(stage: Stage) -> None:
        for i in np.flatnonzero(stage.active).tolist():
            saved[builder.position(i)] = envs.snapshot(i)

    play_groups(
        envs, policy, builder, tasks=chosen, group_size=episodes, seed=seed, progress=None,
        before_step=save,
    )  # fmt: skip
    warn_of_unscored(builder.unscored, builder.started)
    return Played(env, envs, policy, builder.table(), saved)


def states_of(table: StepTable) -> tuple[Ints, int]:
    """Number the states of each task: int64 (N,), from 0, and how many there are."""
    numbers, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    return numbers, len(example)


def choices_of(table: StepTable) -> tuple[Ints, int]:
    """Number the distinct choices, an action in a state of a task: int64 (N,), from 0, and how many there are."""
    states, count = states_of(table)
    numbers, example = number_pairs(states, count, table.action, len(table.actions))
    return numbers, len(example)


def earliest(numbers: Ints, t: Ints) -> Ints:
    """Return the row of the smallest t of each number, the first one of several.

    Args:
        numbers: int64 (N,), each of 0..n-1 at least once.
        t: int64 (N,).

    >>> earliest(np.array([0, 1, 0, 1]), np.array([3, 2, 1, 2]))
    array([2, 1])
    """
    order = np.argsort(t, kind="stable")
    return np.asarray(order[np.unique(numbers[order], return_index=True)[1]], np.int64)
