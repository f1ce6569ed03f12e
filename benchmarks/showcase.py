"""What the report shows beside numbers: a few test episodes, and one group's state graph before and after training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.rollout import Policy, collect
from baselines.evaluation import at_temperature
from baselines.recipes import RECIPES
from benchmarks.observation_log import ObservationLog
from benchmarks.results import CLONE, TRAINED, Config, Episode, Frame, Graph
from benchmarks.stack import make_envs, tasks
from benchmarks.state_graph import build_graph, pick_group

#: Test levels whose episodes are shown.
SHOWN = 8
#: Training tasks among which the clone finds one that it solves sometimes.
CANDIDATES = 16
_SEED = 20_000


def show_episodes(config: Config, policy: Policy, name: str) -> list[Episode]:
    """Play the first test levels and keep every frame.

    Args:
        config: environment and prompt.
        policy: who plays, at its own temperature.
        name: of the policy, for the results.
    """
    count = min(SHOWN, config.eval_levels)
    envs = make_envs(config, count, expert=True, log=True)
    log = _log_of(envs)
    table = collect(envs, policy, tasks=tasks("test", count), seed=_SEED)
    episodes = []
    for level, trajectory in enumerate(table.to_trajectories()):
        texts = log.frames[level]
        frames = [Frame(texts[i], str(step.action), step.reward, step.valid) for i, step in enumerate(trajectory.steps)]
        frames.append(Frame(texts[len(trajectory.steps)], "", 0.0, True))
        episodes.append(Episode(name, level, str(trajectory.group), trajectory.won, frames))
    return episodes


def choose_task(config: Config, clone: Policy, seed: int) -> int:
    """Find a training task that the clone solves in about half of its episodes.

    Returns:
        Its index in the training split.
    """
    first = config.clone_levels
    table = collect(
        make_envs(config, CANDIDATES * config.group_size), at_temperature(clone, config.temperature),
        tasks=tasks("train", CANDIDATES, first), group_size=config.group_size, seed=_SEED + seed,
    )  # fmt: skip
    return first + pick_group(table)


def show_graphs(
    config: Config, policy: Policy, methods: Sequence[str], stage: str, seed: int, index: int
) -> list[Graph]:
    """Play one group of a training task and build its graph, once per method that scores it.

    Args:
        config: environment, prompt, group size and temperature.
        policy: the clone or a trained policy.
        methods: whose advantages to show; one graph each.
        stage: "clone" or "trained".
        seed: training seed of the policy.
        index: of the task in the training split.
    """
    if stage not in (CLONE, TRAINED):
        raise ValueError(f"stage is {CLONE!r} or {TRAINED!r}, got {stage!r}")
    envs = make_envs(config, config.group_size, log=True)
    log = _log_of(envs)
    table = collect(
        envs, at_temperature(policy, config.temperature),
        tasks=tasks("train", 1, index), group_size=config.group_size, seed=_SEED + seed,
    )  # fmt: skip
    texts = {key: text for (_, key), text in log.texts.items()}
    return [
        build_graph(table, 0, texts, RECIPES[method](table), method=method, stage=stage, seed=seed)
        for method in methods
    ]


def _log_of(envs: Any) -> ObservationLog:
    while not isinstance(envs, ObservationLog):
        envs = envs.env
    return envs
