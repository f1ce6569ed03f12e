"""What the report shows beside numbers: a few test episodes, and one group's state graph before and after training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.rollout import Policy, collect
from agentgym.trajectory import Floats, StepTable
from baselines.environments.settings import OwnEnv, tasks
from baselines.evaluation import at_temperature
from baselines.recipes.methods import method as method_of
from baselines.runs.config import Config
from baselines.runs.stack import CLONE, ObservationLog, held_out_tasks, make_envs
from benchmarks.report.state_graph import Graph, build_graph, pick_group

TRAINED = "trained"
#: Test tasks whose episodes are shown.
SHOWN = 8
#: Training tasks among which one is looked for that the clone solves sometimes, at most.
CANDIDATES = 32
_SEED = 20_000


@dataclass(frozen=True)
class Frame:
    """One moment of an episode: the observation, and what was done there ("" in the last frame).

    Of a picture the data URL stands before the text, see `baselines.runs.stack.ObservationLog`.
    """

    text: str
    action: str
    reward: float
    valid: bool


@dataclass(frozen=True)
class Episode:
    """One greedy test episode; `index` is its place in the test split."""

    policy: str
    index: int
    task_id: str
    won: bool
    frames: list[Frame]


def show_episodes(config: Config, policy: Policy, name: str, own: OwnEnv | None = None) -> list[Episode]:
    """Play the first test tasks and keep every frame."""
    count = min(SHOWN, config.eval_tasks)
    envs = make_envs(config, count, expert=True, log=True, own=own)
    log = _log_of(envs)
    table = collect(envs, policy, tasks=held_out_tasks(config)[:count], seed=_SEED)
    episodes = []
    for index, trajectory in enumerate(table.to_trajectories()):
        texts = log.frames[index]
        frames = [Frame(texts[i], str(step.action), step.reward, step.valid) for i, step in enumerate(trajectory.steps)]
        frames.append(Frame(texts[len(trajectory.steps)], "", 0.0, True))
        episodes.append(Episode(name, index, str(trajectory.group), trajectory.won, frames))
    return episodes


def clone_graphs(config: Config, clone: Policy, seed: int) -> tuple[int, list[Graph]]:
    """Find a training task that the clone solves in some of its episodes, and score that group by every method."""
    first = config.clone_tasks
    count = min(CANDIDATES, config.training_tasks)
    table, texts = _play(config, clone, tasks(config.setup.train, count, first), seed)
    group = pick_group(table)
    return first + group, [
        build_graph(table, group, texts[group], method_of(method)(table), method=method, stage=CLONE, seed=seed)
        for method in config.methods
    ]


def trained_graph(
    config: Config, policy: Policy, estimate: Callable[[StepTable], Floats], method: str, seed: int, index: int,
    own: OwnEnv | None = None,
) -> Graph:  # fmt: skip
    """Play one group of a training task with a trained policy and score it by its method, critic included."""
    table, texts = _play(config, policy, tasks(config.setup.train, 1, index), seed, own)
    return build_graph(table, 0, texts[0], estimate(table), method=method, stage=TRAINED, seed=seed)


def _play(
    config: Config, policy: Policy, chosen: Sequence[dict[str, Any]], seed: int, own: OwnEnv | None = None
) -> tuple[StepTable, list[dict[str, str]]]:
    """Play groups at the training temperature; returns also, per group, state key -> observation."""
    envs = make_envs(config, len(chosen) * config.group_size, log=True, own=own)
    log = _log_of(envs)
    table = collect(
        envs, at_temperature(policy, config.temperature), tasks=chosen, group_size=config.group_size, seed=_SEED + seed
    )
    texts = [{key: text for (task, key), text in log.texts.items() if task == str(label)} for label in table.groups]
    return table, texts


def _log_of(envs: Any) -> ObservationLog:
    while not isinstance(envs, ObservationLog):
        envs = envs.env
    return envs
