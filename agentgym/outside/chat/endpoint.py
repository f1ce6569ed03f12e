"""A language model behind an OpenAI-compatible endpoint, such as vLLM's server or a hosted model."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import os
import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from agentgym.checks import check_name
from agentgym.outside.chat.answer_cache import AnswerCache
from agentgym.outside.chat.wire import (
    Body,
    Budget,
    ChatAnswer,
    ChatFailure,
    ChatRequest,
    Usage,
    key_of,
    make_answer,
    read_answer,
)
from agentgym.outside.files import cache_folder
from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure
from agentgym.outside.redaction import redact
from agentgym.outside.text import DataError, clean_json

#: Forms of structured output.
STRUCTURED = ("", "json_object", "json_schema")
_HOSTED = "https://api.openai.com/v1"
_HOSTED_KEY = "OPENAI_API_KEY"
#: Larger answers are failures.
_MOST_BYTES = 16_000_000
#: Counts that a cache keeps from earlier runs.
_KEPT = ("answered", "prompt_tokens", "completion_tokens", "cost")


class ChatEndpoint:
    """Asks a model many requests at once.

    A request that fails after all tries (see `agentgym.outside.http.HttpClient`) gives a `ChatFailure` and does not
    affect others. Equal requests of one call are sent once, so different samples need different seeds. Keys are in no
    `repr`, failure, warning, cached answer or pickle (see `sign_in`); the same holds for credentials in `base_url`.

    Args:
        model: its name at the endpoint.
        base_url: up to and including `/v1`; None: the variable OPENAI_BASE_URL, else OpenAI's.
        api_key: the key; None: that in `key_variable`.
        key_variable: environment variable of the key; None: OPENAI_API_KEY, but only for OpenAI's own address.
        temperature: None leaves it to the endpoint.
        max_tokens: longest answer; None leaves it to the endpoint.
        timeout: seconds per try, from connecting to the last byte.
        retries: further tries after a failure that may pass.
        concurrency: most requests at a time.
        structured: "json_schema" sends a request's schema, "json_object" asks for any JSON object, "" for neither.
        cache: a folder; True: the user's ($AGENTGYM_CACHE); False: none. Do not cache answers of a model in training.
        prices: of a million prompt tokens and a million completion tokens, for `usage.cost`.
        budget: limits of the spending: with a cache, of all its answers (see `spent`), else of this object's.
        extra: further fields of the request, such as `{"top_p": 0.9}`.
        send_seed: False for endpoints that refuse a seed; it then only distinguishes samples.
        proxy: URL of a proxy; None for direct connections.

    Raises:
        ImportError: aiohttp or tenacity is missing (the extra `chat`).
        ValueError: invalid argument.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        key_variable: str | None = None,
        temperature: float | None = 0.7,
        max_tokens: int | None = 512,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int = 128,
        structured: str = "",
        cache: str | Path | bool = False,
        prices: tuple[float, float] = (0.0, 0.0),
        budget: Budget | None = None,
        extra: Mapping[str, Any] | None = None,
        send_seed: bool = True,
        proxy: str | None = None,
    ) -> None:
        if not model or not isinstance(model, str):
            raise ValueError(f"model must be the name of a model at the endpoint, got {model!r}")
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must be like http://127.0.0.1:8000/v1, got {redact(repr(base_url))}")
        self.model = model
        self._key_variable = key_variable or (_HOSTED_KEY if base_url is None else None)
        if api_key is None and self._key_variable:
            api_key = os.environ.get(self._key_variable)
            if not api_key:
                raise ValueError(
                    f"no api_key, and the variable {self._key_variable} is not set: give one, or a base_url"
                )
        self.timeout, self.retries, self.concurrency = timeout, retries, concurrency
        self.structured = check_name(structured, STRUCTURED, "structured")
        self.prices, self.send_seed = prices, bool(send_seed)
        self.usage, self.budget = Usage(), budget
        settings = {"temperature": temperature, "max_tokens": max_tokens}
        self._fixed: Body = {name: value for name, value in settings.items() if value is not None} | dict(extra or {})
        folder = cache_folder(cache)
        self._cache = AnswerCache(folder) if folder is not None else None
        self._before: dict[str, Any] | None = None
        self._begun: set[Future[HttpAnswer | HttpFailure | ChatAnswer]] = set()  # sent, not yet in `usage`
        self._proxy = proxy
        self._sign((base_url or os.environ.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/"), api_key or "")

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the endpoint of a name `MODEL@URL`; ValueError for another form."""
        cut = name.rfind("@", 0, name.find("://") + 1 or None)  # user and password of the URL end with another "@"
        if cut < 1:
            raise ValueError(f"expected MODEL@URL, such as qwen@http://127.0.0.1:8000/v1, got {redact(repr(name))}")
        return cls(name[:cut], name[cut + 1 :], **options)

    @property
    def temperature(self) -> float | None:
        """Sampling temperature of every request, `extra` included; None: the endpoint's own."""
        return self._fixed.get("temperature")

    def sign_in(self, api_key: str | None = None, base_url: str | None = None) -> None:
        """Set the credentials that a pickle left out: a key given directly, or credentials in the URL."""
        self._sign((base_url or self._url).rstrip("/"), api_key or self._api_key)

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return the model's answer or failure for each request, in order.

        Raises a ValueError without the key after unpickling, or for a damaged cache; a BudgetSpentError if the budget
        does not cover all requests (those covered are sent and cached).
        """
        self._check_signed()
        bodies = [self._body(request) for request in requests]
        keys = [key_of(self.base_url, body) for body in bodies]
        kept = self._cache.load(keys) if self._cache is not None else {}
        found: dict[str, ChatAnswer | ChatFailure] = {key: self._cached(value) for key, value in kept.items()}
        self.usage.remembered += sum(key in found for key in keys)
        missing = {key: body for key, body in zip(keys, bodies, strict=True) if key not in found}
        if missing:
            self._fetch(missing, found)
        return [found[key] for key in keys]

    def spent(self) -> Usage:
        """Return the usage of this object, with a cache also that of the answers that were in it at first."""
        if self._cache is None:
            return dataclasses.replace(self.usage)
        if self._before is None:
            held = Usage()
            for value in self._cache.values():
                held.add(self._cached(value), self.prices)
            self._before = {name: getattr(held, name) - getattr(self.usage, name) for name in _KEPT}
        return dataclasses.replace(
            self.usage, **{name: before + getattr(self.usage, name) for name, before in self._before.items()}
        )

    def begin(self, request: ChatRequest) -> BegunRequest:
        """Send a request without waiting; `answer` returns at once when `came` is done. Errors are those of `ask`."""
        self._check_signed()
        body = self._body(request)
        key = key_of(self.base_url, body)
        kept = self._cache.load([key]) if self._cache is not None else {}
        came: Future[HttpAnswer | HttpFailure | ChatAnswer]
        if kept:
            self.usage.remembered += 1
            came = Future()
            came.set_result(self._cached(kept[key]))
        else:
            if self.budget is not None and not self.budget.room(self.spent(), 1, self._under_way()):
                raise self.budget.spent_error(self.spent(), self._under_way())
            came = self._client.start(self._sent(body))  # type: ignore[assignment]  # futures are only read
            if self.budget is not None:
                self._begun.add(came)
        return BegunRequest(self, key, came)

    def _under_way(self) -> int:
        self._begun = {came for came in self._begun if not came.cancelled()}
        return len(self._begun)

    def _check_signed(self) -> None:
        if self._unsigned:
            raise ValueError(
                f"{self!r} was unpickled without credentials: call its sign_in({self._unsigned}), or make it "
                "with key_variable, the name of an environment variable that holds the key in all processes"
            )

    def _sent(self, body: Body) -> bytes:
        leave_out = () if self.send_seed else ("seed",)
        return json.dumps({name: value for name, value in body.items() if name not in leave_out}).encode()

    def _fetch(self, missing: Mapping[str, Body], found: dict[str, ChatAnswer | ChatFailure]) -> None:
        wanted = len(missing)
        if self.budget is not None and (room := self.budget.room(self.spent(), wanted, self._under_way())) < wanted:
            missing = dict(itertools.islice(missing.items(), room))
        sent = {key: self._sent(body) for key, body in missing.items()}
        came: dict[str, HttpAnswer | HttpFailure] = {}
        try:
            self._client.post(sent, came)
        finally:
            read = self._received(came.copy())
        found.update(read)
        if self.budget is not None and len(missing) < wanted:
            raise self.budget.spent_error(self.spent(), self._under_way())

    def _received(self, came: Mapping[str, HttpAnswer | HttpFailure]) -> dict[str, ChatAnswer | ChatFailure]:
        read = {key: self._read(answer) for key, answer in came.items()}
        for answer in read.values():
            self.usage.add(answer, self.prices)
        self._keep({key: answer for key, answer in read.items() if isinstance(answer, ChatAnswer)})
        return read

    def _read(self, came: HttpAnswer | HttpFailure) -> ChatAnswer | ChatFailure:
        if isinstance(came, HttpFailure):
            return ChatFailure(f"{self.model} at {self.base_url}: {came.reason}", came.attempts)
        try:
            answer = read_answer(self._client.read(came))
        except DataError as error:
            reason = f"{error}: {self._client.beginning(came)}"
            return ChatFailure(f"{self.model} at {self.base_url}: {self._client.shown(reason)}", came.attempts)
        return dataclasses.replace(answer, attempts=came.attempts)

    def _cached(self, value: Any) -> ChatAnswer:
        """Check an answer of the cache, whose file may be foreign."""
        fields = [field.name for field in dataclasses.fields(ChatAnswer)][:-1]
        value = self._client.without_keys(value)
        answer = make_answer(*map(value.get, fields)) if isinstance(value, dict) else None
        if answer is None:
            raise DataError(f"{self._cache.path if self._cache else ''} holds a malformed answer: remove it")
        return dataclasses.replace(answer, attempts=0)

    def _keep(self, answers: Mapping[str, ChatAnswer]) -> None:
        """Write answers to the cache; a failed write loses only the caching."""
        if self._cache is None:
            return
        rows = {key: dataclasses.asdict(answer) for key, answer in answers.items()}
        for row in rows.values():
            del row["attempts"]
        try:
            self._cache.store(rows)
        except (sqlite3.Error, OSError, ValueError) as error:
            reason = self._client.shown(str(error))
            warnings.warn(f"{self._cache.path}: {len(rows)} answers were not cached ({reason})", stacklevel=2)

    def _body(self, request: ChatRequest) -> Body:
        body: Body = {"model": self.model, "messages": [clean_json(dict(each)) for each in request.messages]}
        body |= self._fixed
        if request.seed is not None:
            body["seed"] = int(request.seed)
        if self.structured and request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            given = {"json_schema": schema} if self.structured == "json_schema" else {}
            body["response_format"] = {"type": self.structured, **given}
        return body

    def _sign(self, url: str, api_key: str) -> None:
        parts = urlsplit(url)
        bearer = api_key if parts.username is None else ""  # else the credentials in the URL are sent
        self._client = HttpClient(
            parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions").geturl(),
            headers={"Authorization": f"Bearer {bearer}"} if bearer else {},
            timeout=self.timeout,
            retries=self.retries,
            concurrency=self.concurrency,
            most_bytes=_MOST_BYTES,
            proxy=self._proxy,
        )
        self._url, self._api_key, self.base_url, self._unsigned = url, api_key, redact(url), ""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out connections and keys: a copy signs in itself."""
        lost = {"api_key=...": self._api_key and not self._key_variable, "base_url=...": self._url != self.base_url}
        if self._proxy and self._proxy != redact(self._proxy):
            raise TypeError(f"{self!r} cannot be pickled, because its proxy's URL holds credentials")
        unsigned = self._unsigned or ", ".join(name for name, gone in lost.items() if gone)
        begun: set[Any] = set()
        left = {"_api_key": "", "_url": self.base_url, "_client": None, "_begun": begun, "_unsigned": unsigned}
        return vars(self) | left

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        unsigned, api_key = self._unsigned, os.environ.get(self._key_variable or "", "")
        self._sign(self._url, api_key)
        without = self._key_variable and not api_key
        self._unsigned = ", ".join(filter(None, ("api_key=..." if without else "", unsigned)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy with credentials, as `gymnasium.Env.spec` does within a process."""
        made = type(self).__new__(type(self))
        vars(made).update(copy.deepcopy({**vars(self), "_client": None, "_begun": set()}, memo))
        made._sign(self._url, self._api_key)
        made._unsigned = self._unsigned
        return made

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.model!r}, {self.base_url!r})"


@dataclasses.dataclass(frozen=True, eq=False)
class BegunRequest:
    """A sent request: its cache `key`, and `came`, a future that can be cancelled."""

    endpoint: ChatEndpoint
    key: str
    came: Future[HttpAnswer | HttpFailure | ChatAnswer]

    def answer(self) -> ChatAnswer | ChatFailure:
        """Wait for the answer; call it once."""
        came = self.came.result()
        if isinstance(came, ChatAnswer):
            return came
        self.endpoint._begun.discard(self.came)
        return self.endpoint._received({self.key: came})[self.key]
