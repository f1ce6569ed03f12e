"""Who plays a panel: a scripted player, what a learning benchmark trained, a model, or an endpoint."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.redaction import redact
from agentgym.rollout import Policy
from benchmarks.config import SMOLLM2, TINY, Config, EnvSettings, make_config
from benchmarks.json_files import ResultsError
from benchmarks.learning.results import EXPERT, RANDOM
from benchmarks.learning.stack import find_model, holds_model, learned_config, new_policy
from benchmarks.panels.play import Usage

#: Bytes at each end of a large file that its fingerprint is made of.
_END = 1 << 20


@dataclass(frozen=True)
class Player:
    """A policy, and how the environment is shown to it.

    Attributes:
        policy: who acts.
        config: environment, prompt and reply format; its setup's options are the panel's.
        expert: it plays what infos advise.
        settings: what it samples with, and what it is made of, for the results.
        usage: counts the tokens of an endpoint; None where replies hold theirs.
    """

    policy: Policy
    config: Config
    expert: bool
    settings: Mapping[str, Any]
    usage: Usage | None = None


@dataclass(frozen=True)
class Sampling:
    """How a model writes.

    Attributes:
        temperature: 0 is greedy.
        max_tokens: longest reply of an endpoint; None leaves it to the endpoint.
        download: fetch a model that the local cache lacks.
    """

    temperature: float = 0.0
    max_tokens: int | None = 512
    download: bool = False


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
    found = _endpoint(name, row, sampling, folder) if "@http" in name else _local(name, row, sampling)
    setup = dataclasses.replace(found.config.setup, options=dict(options), plenty={})
    return dataclasses.replace(found, config=dataclasses.replace(found.config, setup=setup))


def _config(row: EnvSettings, model: str) -> Config:
    return make_config(row, methods=["grpo"], seeds=[0], model=model, history=None, sizes=row.full)


def _endpoint(name: str, row: EnvSettings, sampling: Sampling, folder: Path) -> Player:
    from agentgym.chat.endpoint import ChatEndpoint
    from policies.chat_api import ChatPolicy

    written = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    endpoint = ChatEndpoint.at(name, cache=folder, **written)
    settings = {"model": endpoint.model, "base_url": endpoint.base_url, **written}
    usage = endpoint.usage
    return Player(
        ChatPolicy(endpoint), _config(row, endpoint.model), False, settings,
        lambda: (usage.prompt_tokens, usage.completion_tokens),
    )  # fmt: skip


def _local(name: str, row: EnvSettings, sampling: Sampling) -> Player:
    from policies.scripted import ExpertPolicy, RandomPolicy

    if name in scripted(row):
        config = _config(row, TINY)
        plain = row.pretrained_setup or row.setup  # a scripted player needs nothing made easier
        setup = dataclasses.replace(plain, adviser=name if name in row.advisers else "")
        config = dataclasses.replace(config, setup=setup)
        return Player(RandomPolicy() if name == RANDOM else ExpertPolicy(), config, name != RANDOM, {})
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
    return Player(policy, config, False, settings)


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
