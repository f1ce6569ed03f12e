"""Who plays a panel: a scripted player, a policy of a learning benchmark, a model, or an endpoint, prompted or not."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym.outside.files import fingerprint_of_content
from agentgym.outside.redaction import redact
from agentgym.outside.text import DataError
from agentgym.rollout import Policy
from baselines.environments.settings import SMOLLM2, TINY, EnvSettings
from baselines.runs.config import Config, make_config
from baselines.runs.stack import EXPERT, RANDOM, find_model, holds_model, learned_policy, make_envs, new_policy
from benchmarks.json_files import ResultsError
from benchmarks.play.panel import Answers, Episode, Unscored
from benchmarks.play.prompting import Examples, Method, shown
from benchmarks.play.reflexion import Trials
from benchmarks.training.run import learned_config

#: Arguments of endpoints, besides temperature and length, that change what is answered.
_SENT = ("extra", "send_seed")


@dataclass(frozen=True)
class Sampling:
    """How a model writes; `endpoint` are further arguments of `ChatEndpoint`, None leaves a value to it."""

    temperature: float | None = 0.0
    max_tokens: int | None = 512
    download: bool = False
    endpoint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Player:
    """A policy, and the prompts of its environment; names hold no credentials.

    `settings`, sampling and weights, go into the results; `answers` are an endpoint's; `make` makes environments for so
    many episodes; `play` is used in place of `benchmarks.play.panel.play`; `prompting` None: as the panel prompts.
    """

    name: str
    policy: Policy
    config: Config
    sampling: Sampling
    settings: Mapping[str, Any]
    answers: Answers | None
    make: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]]
    play: Callable[..., Iterator[Episode | Unscored]] | None = None
    prompting: dict[str, Any] | None = None


def scripted(row: EnvSettings) -> tuple[str, ...]:
    """Return the names of an environment's players that are no models."""
    return RANDOM, *row.advisers, EXPERT


def find_player(name: str, row: EnvSettings, options: Mapping[str, Any], sampling: Sampling, folder: Path) -> Player:
    """Return a player: one of `scripted`, a job folder, a Hugging Face model, "smollm2", or MODEL@URL of an endpoint.

    `options` are the environment's arguments, `folder` is that of an endpoint's cached answers.
    """
    find = _scripted if name in scripted(row) else _endpoint if "@http" in name else _local
    policy, config, settings = find(name, row, sampling, folder)
    config, advised = _on_panel(config, options), name in scripted(row) and name != RANDOM
    return Player(
        redact(name), policy, config, sampling, settings,
        answers=(lambda: policy.answers) if hasattr(policy, "answers") else None,
        make=lambda episodes: make_envs(config, episodes, expert=advised),
    )  # fmt: skip


def config_of(row: EnvSettings, model: str, options: Mapping[str, Any]) -> Config:
    """Return environment and prompt of a model that was not trained here, on a panel with these arguments."""
    return _on_panel(_config(row, model), options)


def _on_panel(config: Config, options: Mapping[str, Any]) -> Config:
    return dataclasses.replace(config, setup=dataclasses.replace(config.setup, options=dict(options), plenty={}))


def _config(row: EnvSettings, model: str) -> Config:
    return make_config(row, methods=[], seeds=[0], model=model, history=None, sizes=row.full)


#: A policy, how its environment is played, and its settings in the results.
_Found = tuple[Policy, Config, dict[str, Any]]


def _scripted(name: str, row: EnvSettings, sampling: Sampling, folder: Path) -> _Found:
    from policies.scripted import ExpertPolicy, RandomPolicy

    # The plain setup: the tiny model's makes some things easier.
    setup = dataclasses.replace(row.pretrained_setup or row.setup, adviser=name if name in row.advisers else "")
    config = dataclasses.replace(_config(row, TINY), setup=setup)
    return RandomPolicy() if name == RANDOM else ExpertPolicy(), config, {}


def _endpoint(name: str, row: EnvSettings, sampling: Sampling, folder: Path) -> _Found:
    from agentgym.outside.chat.endpoint import ChatEndpoint
    from policies.engines.chat_api import ChatPolicy

    written = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    endpoint = ChatEndpoint.at(name, cache=folder, **written, **sampling.endpoint)
    settings = {"model": endpoint.model, "base_url": endpoint.base_url, **written}
    settings |= {key: value for key, value in sampling.endpoint.items() if key in _SENT}
    return ChatPolicy(endpoint, patient=True), _config(row, endpoint.model), settings


def _local(name: str, row: EnvSettings, sampling: Sampling, folder: Path) -> _Found:
    job = Path(name)
    if holds_model(job / "model"):
        config = learned_config(job)
        if config.env != row.id:
            raise ResultsError(f"{job}: a policy for {config.env}, not for {row.id}")
        policy, weights = learned_policy(job / "model", config.model), fingerprint_of_content(job / "model")
    else:
        try:
            model = name if name == SMOLLM2 else find_model(name, download=sampling.download)
        except DataError as error:
            raise ResultsError(
                f"unknown policy {redact(name)!r}; expected {', '.join(scripted(row))}, a job folder of a learning "
                "benchmark such as runs/alfworld/clone-seed0, the folder or hub name of a Hugging Face model, or "
                f"MODEL@URL for an OpenAI-compatible endpoint; {error}"
            ) from error
        config = _config(row, model)
        policy = new_policy(config, 0)
        weights = fingerprint_of_content(Path(model)) if holds_model(Path(model)) else model
    policy = policy.with_settings(temperature=sampling.temperature)
    return policy, config, {**dataclasses.asdict(policy.settings), "weights": weights}


def weights_of(jobs: Iterable[str]) -> dict[str, str] | None:
    """Return the fingerprints of the models in job folders, by folder; None: there is no folder."""
    return {job: fingerprint_of_content(Path(job) / "model") for job in jobs} or None


def prompted(player: Player, method: Method, examples: Examples, folder: Path) -> Player:
    """Return an endpoint, or a model that was not trained here, prompted by a method."""
    from policies.huggingface import HuggingFacePolicy

    text = shown(examples, method.written)
    shape = {
        "method": method.name, "trials": method.trials, "admissible": method.listed,
        "shots": [example.task for example in examples.episodes],
        "examples": hashlib.sha256(text.encode()).hexdigest()[:16] if text else "",
    }  # fmt: skip
    settings = {**player.settings, **shape}
    policy: Any = player.policy
    writer = policy  # of notes, which are free text
    if player.answers is None:
        if not isinstance(policy, HuggingFacePolicy):
            raise ResultsError(f"{player.name} reads no prompts; expected a model or an endpoint")
        free = {"max_new_tokens": player.sampling.max_tokens, "truncate": "end-episode"}
        writer = policy.with_settings(prefix="", suffix="", stop=(), **free)
        policy = policy.with_settings(**(method.local and free | dict(method.local)))
        settings |= dataclasses.asdict(policy.settings)
    return dataclasses.replace(
        player,
        name=f"{player.name} {label_of(method, examples)}",
        policy=policy,
        settings=settings,
        make=lambda episodes: method.envs(player.config, episodes, examples),
        play=Trials(folder, method.trials, writer) if method.trials > 1 else player.play,
        prompting=shape | {name: settings[name] for name in _SENT if name in settings},
    )


def label_of(method: Method, examples: Examples) -> str:
    """Return the name of a method with its number of examples.

    >>> from benchmarks.play.prompting import METHODS
    >>> label_of(METHODS["react"], Examples("", []))
    'react'
    """
    return method.name + (f"-{len(examples.episodes)}-shot" if examples.episodes else "")
