"""A language model behind an OpenAI-compatible endpoint: vLLM's server, a hosted model, any other."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

from agentgym.chat.answer_cache import AnswerCache
from agentgym.chat.direct_transport import DirectTransport
from agentgym.chat.usage import Usage
from agentgym.chat.wire import Body, ChatAnswer, ChatFailure, ChatRequest, key_of, read_answer
from agentgym.disk_cache import cache_folder

#: How structured output is asked for.
STRUCTURED = ("", "json_object", "json_schema")
_HOSTED = "https://api.openai.com/v1"


class ChatEndpoint:
    """Asks a model many things at once, through the package openai; see docs/sotopia-endpoints.md.

    A request that fails, after all its tries, gives a `ChatFailure` and leaves the others alone. Waits between tries,
    and what is worth another try, are the package's: connection errors, time-outs and the statuses 408, 409, 429 and
    5xx, after 0.5 s, 1 s, ... 8 s or what the endpoint's Retry-After says. An answer is a function of the request:
    equal requests of one call are sent once, so give different seeds for different samples.

    Args:
        model: its name at the endpoint.
        base_url: up to and including `/v1`; None for OpenAI's own, or the variable OPENAI_BASE_URL.
        api_key: None for the variable OPENAI_API_KEY where `base_url` is None, else for none: the variable's key is
            not sent to other places.
        temperature: of the sampling; None leaves it to the endpoint.
        max_tokens: longest answer; None leaves it to the endpoint.
        timeout: seconds that one try may take, from connecting to the last byte.
        retries: further tries after a failure that may pass.
        concurrency: most requests at a time.
        structured: "json_schema" sends the schema of a request that has one, "json_object" asks for any JSON object,
            "" for neither: the format is then asked for in words alone.
        cache: where answers are kept: a folder; True for the user's cache folder ($AGENTGYM_CACHE); False for none. A
            cached answer outlives the model that gave it: leave it off for a model that is being trained.
        prices: of a million tokens read and a million written, for `usage.cost`.
        extra: more of the request's body, such as `{"top_p": 0.9}`.
        send_seed: False for endpoints that refuse a seed; it then only tells samples apart.
        http_client: a client of httpx for the openai package instead of `DirectTransport`, for proxies and the like.

    Attributes:
        usage: what it has cost so far.

    Raises:
        ImportError: when the package openai is not installed.
        ValueError: on an argument that cannot be.
    """

    _made: Any
    _direct: DirectTransport | None
    _pool: ThreadPoolExecutor | None

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 512,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int = 128,
        structured: str = "",
        cache: str | Path | bool = False,
        prices: tuple[float, float] = (0.0, 0.0),
        extra: Mapping[str, Any] | None = None,
        send_seed: bool = True,
        http_client: Any = None,
    ) -> None:
        if not model or not isinstance(model, str):
            raise ValueError(f"model must be the name of a model at the endpoint, got {model!r}")
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must be like http://127.0.0.1:8000/v1, got {base_url!r}")
        if not timeout > 0 or retries < 0 or concurrency < 1:
            raise ValueError(
                f"expected timeout > 0, retries >= 0 and concurrency >= 1, got {timeout}, {retries} and {concurrency}"
            )
        if structured not in STRUCTURED:
            raise ValueError(f"structured must be one of {', '.join(map(repr, STRUCTURED))}, got {structured!r}")
        self.model = model
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/")
        if api_key is None:
            api_key = os.environ.get("OPENAI_API_KEY", "") if base_url is None else ""
            if base_url is None and not api_key:
                raise ValueError("no api_key, and the variable OPENAI_API_KEY is not set: give one, or a base_url")
        self.timeout, self.retries, self.concurrency = float(timeout), int(retries), int(concurrency)
        self.structured, self.prices, self.send_seed = structured, prices, bool(send_seed)
        self.usage = Usage()
        settings = {"temperature": temperature, "max_tokens": max_tokens}
        self._fixed: Body = {name: value for name, value in settings.items() if value is not None} | dict(extra or {})
        folder = cache_folder(cache)
        self._cache = AnswerCache(folder) if folder is not None else None
        self._api_key, self._http_client = api_key, http_client
        self._reset()
        self._client()  # says now whether the package is there

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the endpoint that a name stands for, `MODEL@URL`.

        Raises:
            ValueError: when the name has another form.
        """
        model, at, url = name.rpartition("@")
        if not (model and at):
            raise ValueError(f"expected MODEL@URL, such as qwen@http://127.0.0.1:8000/v1, got {name!r}")
        return cls(model, url, **options)

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return what the model answers to each request, or why there is no answer, in the order of the requests."""
        bodies = [self._body(request) for request in requests]
        keys = [key_of(self.base_url, body) for body in bodies]
        kept = self._cache.load(keys) if self._cache is not None else {}
        found: dict[str, ChatAnswer | ChatFailure] = {
            key: ChatAnswer(**value, attempts=0) for key, value in kept.items()
        }
        self.usage.remembered += sum(key in found for key in keys)
        missing = {key: body for key, body in zip(keys, bodies, strict=True) if key not in found}
        if missing:
            self._fetch(missing, found)
        return [found[key] for key in keys]

    def _fetch(self, missing: Mapping[str, Body], found: dict[str, ChatAnswer | ChatFailure]) -> None:
        """Ask for what is missing and keep what comes, also when waiting is interrupted."""
        client, pool = self._client(), self._threads()
        tasks = {key: pool.submit(self._post, client, body) for key, body in missing.items()}
        try:
            wait(tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            came = {key: task.result() for key, task in tasks.items() if task.done() and not task.cancelled()}
            for answer in came.values():
                self._count(answer)
            self._keep({key: answer for key, answer in came.items() if isinstance(answer, ChatAnswer)})
        found.update(came)

    def _keep(self, answers: Mapping[str, ChatAnswer]) -> None:
        """Write answers to the cache; where that cannot be, they are still used."""
        if self._cache is None:
            return
        rows = {key: dataclasses.asdict(answer) for key, answer in answers.items()}
        for row in rows.values():
            del row["attempts"]
        try:
            self._cache.store(rows)
        except (sqlite3.Error, OSError) as error:
            warnings.warn(f"{self._cache.path}: {len(rows)} answers were not kept ({error})", stacklevel=2)

    def _body(self, request: ChatRequest) -> Body:
        body: Body = {"model": self.model, "messages": [_encodable(message) for message in request.messages]}
        body |= self._fixed
        if request.seed is not None:
            body["seed"] = int(request.seed)
        if self.structured and request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            given = {"json_schema": schema} if self.structured == "json_schema" else {}
            body["response_format"] = {"type": self.structured, **given}
        return body

    def _post(self, client: Any, body: Body) -> ChatAnswer | ChatFailure:
        """Send one request, in a thread of its own."""
        import openai

        sent = body if self.send_seed else {name: value for name, value in body.items() if name != "seed"}
        self._tries.number = 0
        try:
            content = self._direct.post(json.dumps(sent).encode(), self.timeout) if self._direct is not None else None
            if content is None:  # the package's models of answers cost more than the request: it gives bytes
                content = client.post("/chat/completions", body=sent, cast_to=bytes)
            answer = read_answer(content)
            return dataclasses.replace(answer, attempts=max(self._tries.number, 1))
        except openai.APITimeoutError:
            reason = f"no answer within {self.timeout:g} s"
        except openai.APIStatusError as error:
            reason = f"status {error.status_code} ({error.response.text[:200]})"
        except openai.APIConnectionError as error:
            reason = f"no connection ({error.__cause__ or error})"
        except (openai.OpenAIError, ValueError) as error:
            reason = str(error)
        reason = reason.replace(self._api_key, "***") if self._api_key else reason
        return ChatFailure(f"{self.model} at {self.base_url}: {reason}", max(self._tries.number, 1))

    def _count(self, answer: ChatAnswer | ChatFailure) -> None:
        usage = self.usage
        usage.retries += answer.attempts - 1
        if isinstance(answer, ChatFailure):
            usage.failed += 1
            return
        usage.answered += 1
        usage.prompt_tokens += answer.prompt_tokens
        usage.completion_tokens += answer.completion_tokens
        read, written = self.prices
        usage.cost += (answer.prompt_tokens * read + answer.completion_tokens * written) / 1e6

    def _client(self) -> Any:
        """Return this process's client: threads and connections must not be carried through a fork."""
        if self._process != os.getpid():
            self._reset()
        if self._made is None:
            try:
                import openai
            except ImportError as error:
                raise ImportError(
                    "a model behind an endpoint needs the package openai: pip install 'stepcredit[chat]'"
                ) from error
            http_client = self._http_client
            if http_client is None:
                self._direct = DirectTransport()
                http_client = openai.DefaultHttpxClient(
                    transport=self._direct,  # type: ignore[arg-type]  # has all that is asked of one
                    trust_env=False,
                    follow_redirects=False,
                    event_hooks={"request": [self._note_try]},
                )
            self._made = openai.OpenAI(
                base_url=self.base_url,
                api_key=self._api_key or "none",
                max_retries=self.retries,
                timeout=self.timeout,
                http_client=http_client,
            )
        return self._made

    def _note_try(self, request: Any) -> None:
        self._tries.number = getattr(self._tries, "number", 0) + 1

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="chat")
        return self._pool

    def _reset(self) -> None:
        self._process = os.getpid()
        self._made = None
        self._direct = None
        self._pool = None
        self._tries = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """What is open stays behind: a copy opens its own connections."""
        return {**vars(self), "_made": None, "_direct": None, "_pool": None, "_tries": None, "_process": 0}

    def __repr__(self) -> str:
        """Show the model and where it is; never the key."""
        return f"ChatEndpoint({self.model!r}, {self.base_url!r})"


def _encodable(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose texts can be sent: halves of surrogate pairs, which are no characters, become `?`."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in message.items()
    }
