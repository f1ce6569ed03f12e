"""The episodes that credit is given to: played once, then cut into groups of any size."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy, collect
from agentgym.trajectory import Floats, Ints, StepTable
from baselines.evaluation import at_temperature
from benchmarks.json_files import CONFIG, ResultsError, load
from benchmarks.learning.results import Config
from benchmarks.learning.stack import PLACES, make_envs, tasks
from benchmarks.ranking.measures import Comparisons
from benchmarks.ranking.noisy_expert import NoisyExpert
from benchmarks.ranking.results import RankingConfig
from wrappers.credit.group import number_pairs


def play(config: RankingConfig, name: str) -> StepTable:
    """Let a player of the configuration play every task; the result depends on the configuration and the name only.

    Learned players draw from their policy at the temperature of their training.

    Raises:
        ResultsError: the player's folder holds no policy for these episodes.
    """
    episodes = config.tasks * config.episodes
    policy: Policy
    if name in config.optimal:
        policy = NoisyExpert(config.optimal[name])
        envs: Any = gym.make_vec(config.env, min(episodes, PLACES), autoreset_mode="Disabled", expert=True)
    else:
        import transformers

        from policies.huggingface import HuggingFacePolicy

        transformers.utils.logging.disable_progress_bar()
        job = Path(config.models[name])
        learned = learned_config(job)
        if learned.env != config.env:
            raise ResultsError(f"{job}: a policy for {learned.env}; this benchmark plays {config.env}")
        policy = HuggingFacePolicy.from_pretrained(job / "model")
        policy = at_temperature(policy, learned.temperature)
        envs = make_envs(learned, episodes)
    return collect(
        envs, policy, tasks=tasks(config.split, config.tasks), group_size=config.episodes, seed=config.seed
    )  # fmt: skip


def learned_config(job: Path) -> Config:
    """Configuration of the learning benchmark that a job folder belongs to.

    Raises:
        ResultsError: the folder holds no model, or its parent no configuration of a learning benchmark.
    """
    if not (job / "model" / "config.json").is_file():
        raise ResultsError(f"{job}: expected a job folder of a learning benchmark with a model, such as "
                           "runs/learning/clone-seed0")  # fmt: skip
    return load(Config, job.parent / CONFIG)


def split_groups(table: StepTable, size: int) -> StepTable:
    """Cut every group into parts of `size` trajectories, in the order of their numbers; the rows stay as they are.

    Parts are disjoint and hold all rows; a part of size 2 lies in one of size 4, and so on.

    Raises:
        ValueError: a group's number of trajectories is no multiple of the size.
    """
    members = np.bincount(table.trajectory_group, minlength=table.n_groups)
    if (members % size).any():
        raise ValueError(f"groups of {sorted(set(members.tolist()))} episodes cannot be cut into parts of {size}")
    order = np.argsort(table.trajectory_group, kind="stable")
    part = np.empty(table.n_trajectories, np.int64)
    part[order] = np.arange(table.n_trajectories) // size
    labels = tuple((table.groups[group], i) for group, count in enumerate(members // size) for i in range(count))
    return dataclasses.replace(table, group=part[table.trajectory], groups=labels)


def comparisons(part: StepTable, task: Ints, truth: Floats) -> Comparisons:
    """What groups can compare: the steps of one group out of one state.

    Args:
        part: N rows in groups.
        task: int64 (N,), the task of every row, numbered from 0.
        truth: float64 (N,), what the row is worth.
    """
    sets, example = number_pairs(part.group, part.n_groups, part.state, len(part.states))
    return Comparisons(truth, task, sets, int(task.max()) + 1, len(example))


def mixed_groups(table: StepTable) -> float:
    """Share of groups with both won and lost episodes."""
    members = np.bincount(table.trajectory_group, minlength=table.n_groups)
    won = np.bincount(table.trajectory_group, weights=table.trajectory_won, minlength=table.n_groups)
    return float(((won > 0) & (won < members)).mean())
