"""Engines that generate a training run's replies: the loop over its own model, vLLM in this process, or a server."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.outside.http import HttpAnswer, HttpClient
from agentgym.outside.redaction import redact

#: Folders in a run's folder: the start weights that an engine reads, and later weights for it.
ENGINE_FOLDER = ".engine.partial"
#: vLLM's share of the card that it shares with the trainer.
SHARE = 0.4
_DEFAULT_URL = "http://localhost:8000"
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Engine:
    """Value of the option `--engine`.

    Attributes:
        kind: "loop", "vllm" or "server".
        sleeps: whether it frees the card's memory while the trainer learns.
    """

    kind: str = "loop"
    url: str = ""
    sleeps: bool = False

    @classmethod
    def read(cls, text: str) -> Engine:
        """Read the option.

        Raises:
            ValueError: it names no engine.

        >>> Engine.read("server:http://gpu:8000"), Engine.read("vllm:sleep").sleeps
        (Engine(kind='server', url='http://gpu:8000', sleeps=False), True)
        """
        kind, colon, url = text.partition(":")
        if text == "vllm:sleep":
            return cls("vllm", sleeps=True)
        if kind not in ("loop", "vllm", "server") or (colon and kind != "server"):
            raise ValueError(f"--engine is loop, vllm, vllm:sleep or server:URL, got {text!r}")
        if redact(url) != url or (url and not url.startswith(("http://", "https://"))):
            # a credential would stay in the run's folder
            raise ValueError(f"--engine server:URL needs an address such as {_DEFAULT_URL}, got {redact(url)!r}")
        return cls(kind, (url or _DEFAULT_URL) if kind == "server" else "")

    def check(self, lora: int, staleness: int = 0) -> None:
        """Refuse impossible combinations before a model is loaded.

        Raises:
            ImportError: vLLM is not installed, or its release is not supported.
            ValueError: all weights are trained, and this engine accepts only adapters; or it cannot sleep.
        """
        if self.kind == "server" and not lora:
            raise ValueError("a server takes only adapters, not whole weights: --lora 32, or --engine vllm")
        if self.kind == "vllm":
            from policies.engines.vllm import check_version, is_cpu_build

            check_version()
            if not lora and is_cpu_build():
                raise ValueError("vLLM's CPU build does not take whole weights: --lora 32, or --engine loop")
            if self.sleeps and (staleness or is_cpu_build()):
                raise ValueError(
                    "--engine vllm:sleep frees a GPU's memory while the trainer learns: "
                    + ("with rollout.staleness it plays then" if staleness else "vLLM's CPU build cannot sleep")
                    + ", --engine vllm"
                )

    def sampler(self, base: Any, folder: Path, *, lora: int, stored: Path | None, resumed: bool) -> Any:
        """Start the engine, or connect to it, and return its sampler; None for the loop.

        Raises:
            ValueError: replies are restricted to admissible commands, or the server does not answer.
        """
        if self.kind == "loop":
            return None
        if base.settings.admissible:
            raise ValueError(
                f"--engine {self.kind} cannot restrict replies to admissible commands, which the model's settings ask "
                "for (policy.json, admissible): --engine loop"
            )
        place = folder / ENGINE_FOLDER
        shutil.rmtree(place, ignore_errors=True)  # left by a run that was stopped
        if self.kind == "server":
            from policies.engines.server import ServerSampler

            return ServerSampler(self.url, _served(self.url), work=place / "weights")
        from policies.engines.vllm import VllmSampler

        start = stored
        if start is None or not start.is_dir():  # a name on the hub has no such folder either
            start = place / "start"
            base.save_pretrained(start)
        settings = base.settings
        limit = {}
        if settings.max_prompt_tokens is not None:
            limit["max_model_len"] = settings.max_prompt_tokens + settings.max_new_tokens
        return VllmSampler.start(
            start,
            work=place / "weights",
            lora_rank=lora or None,
            holds=-1 if resumed and not lora else 0,
            # Engines use the stored type, and the comparison uses the trainer's.
            dtype="float32" if base.precision is None else "bfloat16",
            gpu_memory_utilization=SHARE,
            sleeps=self.sleeps,
            **limit,
        )


def _served(url: str) -> str:
    client = HttpClient(
        f"{url.rstrip('/')}/v1/models", timeout=30, retries=0, concurrency=1, most_bytes=_MOST_BYTES
    )  # fmt: skip
    answer = client.get()
    try:
        if not isinstance(answer, HttpAnswer):
            raise ValueError(answer.reason)
        return str(client.read(answer)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"{client.url} lists no model ({error}): start a server there, see docs/samplers.md"
        ) from error
