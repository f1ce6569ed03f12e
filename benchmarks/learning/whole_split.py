"""Evaluate one player on a whole split, kind by kind.

python -m benchmarks.run evaluate --env alfworld --split valid_unseen --policy explorer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import Policy
from baselines.evaluation import Evaluation, evaluate
from benchmarks.environments.defaults import make_config
from benchmarks.environments.rows import settings_of
from benchmarks.environments.settings import EnvSettings
from benchmarks.json_files import ResultsError
from benchmarks.learning.results import EXPERT, RANDOM, Config
from benchmarks.learning.stack import TINY, make_envs, tasks
from benchmarks.ranking.rollouts import learned_config


@dataclass(frozen=True)
class Request:
    """What is to be played.

    Attributes:
        env: environment id.
        split: which split.
        policy: "random", "expert" (the environment's own), the name of the adviser that is cloned, the job folder of a
            learning benchmark, or the folder of a Hugging Face model.
        options: keyword arguments of the environment that count instead of those of the benchmark.
        levels: how many levels; None: all.
        temperature: of a model; 0 is greedy.
        seed: of episodes and draws.
    """

    env: str
    split: str
    policy: str
    options: Mapping[str, Any]
    levels: int | None = None
    temperature: float = 0.0
    seed: int = 0


def play_split(request: Request) -> Evaluation:
    """Play the split.

    Raises:
        ResultsError: the policy is nothing of what it may be, or was trained in another environment.
        ValueError: the environment refuses split, options or levels.
    """
    row = settings_of(request.env)
    policy, config = _player(request, row)
    options = {**(row.pretrained_setup or row.setup).options, **request.options}
    config = dataclasses.replace(config, setup=dataclasses.replace(config.setup, options=options))
    size = split_size(config, request.split)
    levels = request.levels or size
    if not levels:
        raise ResultsError(f"split {request.split!r} has no level for these arguments: {options}")
    model = request.policy not in scripted(row)
    kinds = config.setup.kinds
    return evaluate(
        make_envs(config, levels, expert=not model and request.policy != RANDOM), policy,
        tasks(request.split, levels), seed=request.seed, temperature=request.temperature if model else None,
        columns=(kinds,) if kinds else (),
    )  # fmt: skip


def split_size(config: Config, split: str) -> int:
    """Number of levels of a split.

    Raises:
        ResultsError: the environment takes no argument of that name.
    """
    try:
        env: Any = gym.make(config.env, **config.setup.options).unwrapped
    except TypeError as error:
        raise ResultsError(f"{config.env}: {error}") from error
    return int(env.num_tasks(split))


def scripted(row: EnvSettings) -> tuple[str, ...]:
    """Players of an environment that are no models, by name."""
    return RANDOM, *row.advisers, EXPERT


def _player(request: Request, row: EnvSettings) -> tuple[Policy, Config]:
    from policies.scripted import ExpertPolicy, RandomPolicy

    name, folder = request.policy, Path(request.policy)
    common: dict[str, Any] = {"env": row.id, "methods": ["grpo"], "seeds": [0], "history": None, "sizes": row.full}
    if name in scripted(row):
        config = make_config(model=TINY, **common)
        plain = row.pretrained_setup or row.setup  # a scripted player needs nothing made easier
        setup = dataclasses.replace(plain, adviser=name if name in row.advisers else "")
        return RandomPolicy() if name == RANDOM else ExpertPolicy(), dataclasses.replace(config, setup=setup)
    from policies.huggingface import HuggingFacePolicy

    if (folder / "model" / "config.json").is_file():
        config = learned_config(folder)
        if config.env != row.id:
            raise ResultsError(f"{folder}: a policy for {config.env}, not for {row.id}")
        return HuggingFacePolicy.from_pretrained(folder / "model"), config
    if (folder / "config.json").is_file():
        from benchmarks.learning.stack import new_policy

        config = make_config(model=name, **common)
        return new_policy(config, 0), config
    raise ResultsError(
        f"unknown policy {name!r}; expected {', '.join(scripted(row))}, a job folder of a learning "
        "benchmark such as runs/alfworld/clone-seed0, or the folder of a Hugging Face model"
    )
