"""The episodes that credit is given to: players of any quality, played once, then cut into groups of any size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy, collect
from agentgym.sokoban.rules import DIRECTIONS
from agentgym.trajectory import Floats, Ints, Reply, StepTable
from baselines.environments.settings import SIDE_BY_SIDE, tasks
from baselines.evaluation import at_temperature
from benchmarks.json_files import ResultsError
from benchmarks.ranking.measures import Comparisons
from benchmarks.ranking.results import RankingConfig
from benchmarks.training.stack import learned_config, make_envs
from wrappers.credit.group import number_pairs


class NoisyExpert:
    """Plays the expert's action with probability `optimal`, else one of other actions, uniformly.

    The four moves of Sokoban include those that run into a wall. Where the expert says nothing, as in a dead end, all
    is uniform. The environments must be made with `expert=True`; without a reply parser, as the reply is the bare
    command.

    Args:
        optimal: probability of the expert's action, in 0..1; 0 is uniform play.
        others: what else is played; None: whatever is admissible.

    Raises:
        ValueError: the probability is not in 0..1.

    >>> infos = {"expert_action": np.array(["left", ""], dtype=object)}
    >>> [reply.text for reply in NoisyExpert(1.0).act(["a", "b"], infos, np.random.default_rng(0))]
    ['left', 'up']
    """

    def __init__(self, optimal: float, others: Sequence[str] | None = DIRECTIONS) -> None:
        if not 0 <= optimal <= 1:
            raise ValueError(f"optimal must be a probability, got {optimal}")
        self.optimal, self.others = optimal, others

    def act(
        self, observations: Sequence[Any], infos: Mapping[str, NDArray[Any]], rng: np.random.Generator
    ) -> list[Reply]:
        """One reply per running sub-environment; the same numbers are drawn whatever the expert says."""
        follows = rng.random(len(observations)) < self.optimal
        if self.others is not None:
            chosen = rng.integers(len(self.others), size=len(observations))
            options: Sequence[Sequence[str]] = [self.others] * len(observations)
        else:
            options = infos["admissible_actions"].tolist()
            counts = np.array([len(given) for given in options])
            chosen = (rng.random(len(observations)) * counts).astype(np.int64)
        return [
            Reply(best if best and follow else given[other] if given else "")
            for best, follow, other, given in zip(
                infos["expert_action"].tolist(), follows.tolist(), chosen.tolist(), options, strict=True
            )
        ]


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
        envs: Any = gym.make_vec(config.env, min(episodes, SIDE_BY_SIDE), autoreset_mode="Disabled", expert=True)
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
