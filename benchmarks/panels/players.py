"""Who plays a panel: a scripted player, what a learning benchmark trained, a model, or an endpoint.

`benchmarks.prompting.players` makes of a model or an endpoint one that is prompted in another way.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

from agentgym.outside.redaction import redact
from agentgym.rollout import Policy
from baselines.environments.settings import SMOLLM2, TINY, EnvSettings
from benchmarks.config import Config, make_config
from benchmarks.json_files import ResultsError
from benchmarks.panels.journal import Episode
from benchmarks.panels.play import Answers, Unscored
from benchmarks.training.stack import EXPERT, RANDOM, find_model, holds_model, learned_config, make_envs, new_policy

#: A policy, how its environment is played, and what it samples with.
_Found = tuple[Policy, Config, dict[str, Any]]
#: Arguments of endpoints, besides temperature and length, that change what is answered.
SENT = ("extra", "send_seed")
#: Bytes at each end of a large file that its fingerprint is made of.
_END = 1 << 20


@dataclass(frozen=True)
class Player:
    """A policy, and how the environment is shown to it.

    Attributes:
        name: for tables and folders, without credentials.
        policy: who acts.
        config: environment, prompt and reply format; its setup's options are the panel's.
        expert: it plays what infos advise.
        sampling: of a model.
        settings: what it samples with, and what it is made of, for the results.
        answers: of an endpoint; None where replies hold their tokens.
        make: makes as many environments as there are episodes, at most.
        play: plays episodes in place of `benchmarks.panels.play.play`, which does where it is None.
        prompting: what is asked for beside the policy's name, for the folder's configuration; None: nothing.
    """

    name: str
    policy: Policy
    config: Config
    expert: bool
    sampling: Sampling
    settings: Mapping[str, Any]
    answers: Answers | None
    make: Callable[[int], gym.vector.VectorEnv[Any, Any, Any]]
    play: Callable[..., Iterator[Episode | Unscored]] | None = None
    prompting: dict[str, Any] | None = None


@dataclass(frozen=True)
class Sampling:
    """How a model writes.

    Attributes:
        temperature: 0 is greedy; None leaves it to an endpoint.
        max_tokens: longest reply of an endpoint; None leaves it to the endpoint.
        download: fetch a model that the local cache lacks.
        endpoint: further arguments of `agentgym.outside.chat.endpoint.ChatEndpoint`.
    """

    temperature: float | None = 0.0
    max_tokens: int | None = 512
    download: bool = False
    endpoint: Mapping[str, Any] = field(default_factory=dict)


def scripted(row: EnvSettings) -> tuple[str, ...]:
    """Players of an environment that are no models, by name."""
    return RANDOM, *row.advisers, EXPERT


def find_player(name: str, row: EnvSettings, options: Mapping[str, Any], sampling: Sampling, folder: Path) -> Player:
    """Return a player.

    Args:
        name: "random", "expert", the name of an adviser of the environment, the job folder of a learning benchmark,
            "smollm2", the folder or hub name of a Hugging Face model, or MODEL@URL for an endpoint.
        row: the environment.
        options: its arguments.
        sampling: of a model.
        folder: where an endpoint's answers are kept.

    Raises:
        ResultsError: the name is nothing of this, or a policy of another environment.
    """
    policy, config, settings = (
        _endpoint(name, row, sampling, folder) if "@http" in name else _local(name, row, sampling)
    )
    config, advised = _on_panel(config, options), name in scripted(row) and name != RANDOM
    return Player(
        redact(name), policy, config, advised, sampling, settings,
        answers=(lambda: policy.answers) if hasattr(policy, "answers") else None,
        make=lambda episodes: make_envs(config, episodes, expert=advised),
    )  # fmt: skip


def config_of(row: EnvSettings, model: str, options: Mapping[str, Any]) -> Config:
    """Return how a model that was not trained here plays a panel: environment and prompt.

    Args:
        row: the environment.
        model: its name.
        options: the panel's arguments.
    """
    return _on_panel(_config(row, model), options)


def _on_panel(config: Config, options: Mapping[str, Any]) -> Config:
    return dataclasses.replace(config, setup=dataclasses.replace(config.setup, options=dict(options), plenty={}))


def _config(row: EnvSettings, model: str) -> Config:
    return make_config(row, methods=["grpo"], seeds=[0], model=model, history=None, sizes=row.full)


def _endpoint(name: str, row: EnvSettings, sampling: Sampling, folder: Path) -> _Found:
    from agentgym.outside.chat.endpoint import ChatEndpoint
    from policies.engines.chat_api import ChatPolicy

    written = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    endpoint = ChatEndpoint.at(name, cache=folder, **written, **sampling.endpoint)
    settings = {"model": endpoint.model, "base_url": endpoint.base_url, **written}
    settings |= {key: value for key, value in sampling.endpoint.items() if key in SENT}
    return ChatPolicy(endpoint, patient=True), _config(row, endpoint.model), settings


def _local(name: str, row: EnvSettings, sampling: Sampling) -> _Found:
    from policies.scripted import ExpertPolicy, RandomPolicy

    if name in scripted(row):
        config = _config(row, TINY)
        plain = row.pretrained_setup or row.setup  # a scripted player needs nothing made easier
        setup = dataclasses.replace(plain, adviser=name if name in row.advisers else "")
        config = dataclasses.replace(config, setup=setup)
        return RandomPolicy() if name == RANDOM else ExpertPolicy(), config, {}
    from policies.huggingface import HuggingFacePolicy

    job = Path(name)
    if holds_model(job / "model"):
        config = learned_config(job)
        if config.env != row.id:
            raise ResultsError(f"{job}: a policy for {config.env}, not for {row.id}")
        policy, weights = HuggingFacePolicy.from_pretrained(job / "model"), fingerprint(job / "model")
    else:
        try:
            model = name if name == SMOLLM2 else find_model(name, download=sampling.download)
        except ResultsError as error:
            raise ResultsError(
                f"unknown policy {redact(name)!r}; expected {', '.join(scripted(row))}, a job folder of a learning "
                "benchmark such as runs/alfworld/clone-seed0, the folder or hub name of a Hugging Face model, or "
                f"MODEL@URL for an OpenAI-compatible endpoint; {error}"
            ) from error
        config = _config(row, model)
        policy, weights = new_policy(config, 0), fingerprint(Path(model)) if holds_model(Path(model)) else model
    policy = policy.with_settings(temperature=sampling.temperature)
    settings = {**dataclasses.asdict(policy.settings), "template": dict(policy.settings.template), "weights": weights}
    return policy, config, settings


def weights_of(jobs: Iterable[str]) -> dict[str, str] | None:
    """Return the fingerprints of the models in job folders, by folder; None: there is no folder.

    They stand in configurations, so that what a policy reached is not taken for that of one trained on in its folder.
    """
    return {job: fingerprint(Path(job) / "model") for job in jobs} or None


def fingerprint(path: Path) -> str:
    """Return 16 hexadecimal digits for a file, or for all files of a folder: names, sizes, and both ends of each.

    Neither where it lies nor when it was written counts. Of what is larger than two mebibytes, only the ends are read.
    """
    digest = hashlib.sha256()
    for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
        size = file.stat().st_size
        name = file.relative_to(path).as_posix() if path.is_dir() else ""
        digest.update(f"{name} {size}\n".encode("utf-8", "surrogatepass"))
        with file.open("rb") as content:
            digest.update(content.read(_END))
            content.seek(max(_END, size - _END))
            digest.update(content.read(_END))
    return digest.hexdigest()[:16]
