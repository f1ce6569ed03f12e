"""A server with an OpenAI-compatible `/v1/completions` as a sampler: token ids in, token ids and log-probabilities out.

The server must return token ids (`return_token_ids`; vLLM since 0.10.2). It is started with
`--logprobs-mode processed_logprobs`, and for adapters with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.
Needs the extra `http`.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, TypeGuard

from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure
from agentgym.outside.text import DataError
from policies.decode.sampler import Completion, Decoding
from policies.engines.engine import CompletionStream, EngineError, EngineSampler, WeightFolder
from policies.prompts import Prompt

_MOST_BYTES = 64_000_000


class ServerSampler(EngineSampler):
    """Generates replies with a server, which can load trained adapters but not whole weights.

    Args:
        url: of the server, such as "http://localhost:8000".
        work: a folder that the server can read, for the sampler's folder of adapters; None: the weights do not change.
        timeout: seconds per try.
        concurrency: most requests at a time.
        headers: headers of all requests, for credentials; no error shows them.

    Raises:
        ValueError: `work` is a file; or an error of `agentgym.outside.http.HttpClient`.
    """

    def __init__(
        self, url: str, model: str, *, work: str | Path | None = None, timeout: float = 600.0, retries: int = 4,
        concurrency: int = 256, headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        given: dict[str, Any] = {
            "timeout": timeout, "retries": retries, "concurrency": concurrency, "headers": headers,
            "most_bytes": _MOST_BYTES,
        }  # fmt: skip
        self._completions = HttpClient(f"{url.rstrip('/')}/v1/completions", **given)
        self._adapters = HttpClient(f"{url.rstrip('/')}/v1/load_lora_adapter", **given)
        self._unused = HttpClient(f"{url.rstrip('/')}/v1/unload_lora_adapter", **given)
        self._name = model
        # A server outlives a run, and refuses a name that is already in use.
        self._run, self._loaded = uuid.uuid4().hex[:8], 0
        self._weights = None
        if work is not None:
            WeightFolder(work)  # raises early if the folder is unusable
            self._weights = WeightFolder(Path(work) / f"weights-{self._run}")

    def send(self, model: Any, version: int) -> None:
        """Load the adapter under a fresh name.

        Raises:
            EngineError: whole weights were trained, there is no folder for adapters, or the server refuses.
        """
        if not hasattr(model, "peft_config"):
            raise EngineError("a server takes no whole weights: train an adapter (policies.lora.add_lora)")
        if self._weights is None:
            raise EngineError(
                "the adapter has changed: name a folder that the server can read, ServerSampler(work=...)"
            )
        folder, _ = self._weights.write(model, version)
        name = f"version-{version}-{self._run}.{self._loaded}"
        answer = _post(self._adapters, {"lora_name": name, "lora_path": str(folder.resolve())})
        if isinstance(answer, HttpFailure):
            raise EngineError(f"{self._adapters.url} does not load the adapter: {answer.reason}")
        if self._loaded:  # else it is the base
            _post(self._unused, {"lora_name": self._name})
        self._name, self._loaded = name, self._loaded + 1
        self._weights.remove_older()

    def generate(self, prompts: Sequence[Prompt], seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
        bodies = {
            place: self._body(prompt, seed, decoding)
            for place, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True))
        }
        found: dict[int, HttpAnswer | HttpFailure] = {}
        self._completions.post(bodies, found)
        return [self.read(found[place], prompt) for place, prompt in enumerate(prompts)]

    def stream(self, decoding: Decoding) -> CompletionStream:
        return _ServerStream(self, decoding)

    def start(self, prompt: Prompt, seed: int | None, decoding: Decoding) -> Future[HttpAnswer | HttpFailure]:
        """Send one prompt, without waiting; `read` reads the answer."""
        return self._completions.start(self._body(prompt, seed, decoding))

    def _body(self, prompt: Prompt, seed: int | None, decoding: Decoding) -> bytes:
        body: dict[str, Any] = {
            "model": self._name, "max_tokens": decoding.max_new_tokens, "temperature": decoding.temperature,
            "logprobs": 0, "return_token_ids": True, "stop_token_ids": sorted(decoding.ends),
            "prompt": list(prompt), "seed": seed,
        }  # fmt: skip
        if decoding.stop:
            body |= {"stop": list(decoding.stop), "include_stop_str_in_output": True}
        return json.dumps(body).encode()

    def read(self, answer: HttpAnswer | HttpFailure, prompt: Prompt) -> Completion:
        """Return the completion of an answer; an EngineError names the defect, without credentials."""
        client, url = self._completions, self._completions.url
        if isinstance(answer, HttpFailure):
            raise EngineError(f"{url} gave no answer: {answer.reason}")
        try:
            choice = client.read(answer)["choices"][0]
            tokens, prompt_ids, listed = (choice.get(name) for name in ("token_ids", "prompt_token_ids", "logprobs"))
            logprobs = None if listed is None else [_number(each) for each in listed["token_logprobs"]]
        except (DataError, KeyError, IndexError, TypeError, AttributeError) as error:
            why = client.shown(f"{error}): {client.beginning(answer)}")
            raise EngineError(f"{url}: the answer is no completion ({why}") from None
        if not _are_ids(tokens):
            raise EngineError(
                f"{url} returns no token ids, and without them nothing can be trained: use a server that knows "
                "return_token_ids, such as vLLM, or a policy that is only evaluated (policies.engines.chat_api)"
            )
        if logprobs is None:
            raise EngineError(f"{url} returns no log-probabilities (logprobs=0 was asked for)")
        if prompt_ids is not None and not _are_ids(prompt_ids):
            shown = client.shown(repr(prompt_ids))
            raise EngineError(f"{url}: expected a list of token ids in 'prompt_token_ids', got {shown:.80}")
        if prompt_ids is not None and tuple(prompt_ids) != prompt:
            shown = client.shown(repr(prompt_ids))
            raise EngineError(f"{url} read another prompt than it was sent: {shown:.80}, expected {prompt!r:.80}")
        return Completion(tokens, logprobs, "length" if choice.get("finish_reason") == "length" else "stop")


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"a log-probability must be a number, got {value!r:.40}")
    return float(value)


def _are_ids(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(each) is int for each in value)


def _post(client: HttpClient, body: Mapping[str, str]) -> HttpAnswer | HttpFailure:
    found: dict[int, HttpAnswer | HttpFailure] = {}
    client.post({0: json.dumps(body).encode()}, found)
    return found[0]


class _ServerStream:
    def __init__(self, sampler: ServerSampler, decoding: Decoding) -> None:
        self._sampler, self._decoding = sampler, decoding
        self._asked: dict[int, tuple[Prompt, Future[HttpAnswer | HttpFailure]]] = {}

    def put(self, name: int, prompt: Prompt, seed: int | None) -> None:
        self._asked[name] = prompt, self._sampler.start(prompt, seed, self._decoding)

    def get(self) -> list[tuple[int, Completion | Exception]]:
        done = wait([came for _, came in self._asked.values()], return_when=FIRST_COMPLETED).done
        found: list[tuple[int, Completion | Exception]] = []
        for name in [name for name, (_, came) in self._asked.items() if came in done]:
            prompt, came = self._asked.pop(name)
            try:
                found.append((name, self._sampler.read(came.result(), prompt)))
            except EngineError as error:
                found.append((name, error))
        return found

    def close(self) -> None:
        for _, came in self._asked.values():
            came.cancel()
        self._asked.clear()
