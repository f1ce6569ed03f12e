"""A language model behind an OpenAI-compatible endpoint: vLLM's server, a hosted model, any other."""

from __future__ import annotations

import copy
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
from urllib.parse import parse_qsl, urlsplit

from agentgym.chat.answer_cache import AnswerCache
from agentgym.chat.direct_transport import DirectTransport
from agentgym.chat.usage import Usage
from agentgym.chat.wire import Body, ChatAnswer, ChatFailure, ChatRequest, key_of, make_answer, read_answer
from agentgym.disk_cache import cache_folder
from agentgym.foreign_text import clean, clean_json, one_line
from agentgym.redaction import hide, redact

#: How structured output is asked for.
STRUCTURED = ("", "json_object", "json_schema")
_HOSTED = "https://api.openai.com/v1"
_HOSTED_KEY = "OPENAI_API_KEY"
#: Characters of an endpoint's own words that a failure tells.
_LONGEST_REASON = 300
#: A shorter key, such as "EMPTY", is no secret in a model's answer.
_SHORTEST_SECRET = 6
#: What is this process's own.
_OPEN = {"_made": None, "_direct": None, "_pool": None, "_tries": None, "_process": 0}


class ChatEndpoint:
    """Asks a model many things at once, through the package openai; see docs/sotopia-endpoints.md.

    A request that fails, after all its tries, gives a `ChatFailure` and leaves the others alone. Waits between tries,
    and what is worth another try, are the package's: connection errors, time-outs and the statuses 408, 409, 429 and
    5xx, after 0.5 s, 1 s, ... 8 s or what the endpoint's Retry-After says. An answer is a function of the request:
    equal requests of one call are sent once, so give different seeds for different samples.

    Keys stay in this process: neither `repr`, failures and warnings nor cached answers hold them, and a pickle leaves
    them out (see `sign_in`), with what stands in `base_url` as `user:password@` or `?api_key=`.

    Args:
        model: its name at the endpoint.
        base_url: up to and including `/v1`; None for OpenAI's own, or the variable OPENAI_BASE_URL.
        api_key: the key itself; None for the one in `key_variable`.
        key_variable: the environment variable that holds the key, in every process that this endpoint comes to; None
            for OPENAI_API_KEY where `base_url` is None, else for none: that key is not sent to other places.
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
        base_url: where it is, without credentials.
        usage: what it has cost so far.

    Raises:
        ImportError: when the package openai is not installed.
        ValueError: on an argument that cannot be.
    """

    _made: Any
    _direct: DirectTransport | None
    _pool: ThreadPoolExecutor | None
    _tries: threading.local
    _process: int

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
        extra: Mapping[str, Any] | None = None,
        send_seed: bool = True,
        http_client: Any = None,
    ) -> None:
        if not model or not isinstance(model, str):
            raise ValueError(f"model must be the name of a model at the endpoint, got {model!r}")
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must be like http://127.0.0.1:8000/v1, got {redact(repr(base_url))}")
        if not timeout > 0 or retries < 0 or concurrency < 1:
            raise ValueError(
                f"expected timeout > 0, retries >= 0 and concurrency >= 1, got {timeout}, {retries} and {concurrency}"
            )
        if structured not in STRUCTURED:
            raise ValueError(f"structured must be one of {', '.join(map(repr, STRUCTURED))}, got {structured!r}")
        self.model = model
        self._key_variable = key_variable or (_HOSTED_KEY if base_url is None else None)
        if api_key is None and self._key_variable:
            api_key = os.environ.get(self._key_variable)
            if not api_key:
                raise ValueError(
                    f"no api_key, and the variable {self._key_variable} is not set: give one, or a base_url"
                )
        self._sign((base_url or os.environ.get("OPENAI_BASE_URL") or _HOSTED).rstrip("/"), api_key or "")
        self.timeout, self.retries, self.concurrency = float(timeout), int(retries), int(concurrency)
        self.structured, self.prices, self.send_seed = structured, prices, bool(send_seed)
        self.usage = Usage()
        settings = {"temperature": temperature, "max_tokens": max_tokens}
        self._fixed: Body = {name: value for name, value in settings.items() if value is not None} | dict(extra or {})
        folder = cache_folder(cache)
        self._cache = AnswerCache(folder) if folder is not None else None
        self._http_client = http_client
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

    def sign_in(self, api_key: str | None = None, base_url: str | None = None) -> None:
        """Give the credentials anew that a pickle left out.

        An endpoint that comes out of a pickle reads its key from `key_variable`. One that was given the key itself, or
        credentials within its URL, must be given them again before it is asked.

        Args:
            api_key: the key; None for none.
            base_url: the URL with its credentials; None where it had none.
        """
        self._sign((base_url or self._url).rstrip("/"), api_key or self._api_key)
        self._reset()

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return what the model answers to each request, or why there is no answer, in the order of the requests.

        Raises:
            ValueError: when this endpoint came out of a pickle without its key, or its file of answers is damaged.
        """
        if self._unsigned:
            raise ValueError(
                f"{self!r} came out of a pickle, which holds no credentials: call its sign_in({self._unsigned}), or "
                "make it with key_variable, the name of an environment variable that holds the key in all processes"
            )
        bodies = [self._body(request) for request in requests]
        keys = [key_of(self.base_url, body) for body in bodies]
        kept = self._cache.load(keys) if self._cache is not None else {}
        found: dict[str, ChatAnswer | ChatFailure] = {key: self._cached(value) for key, value in kept.items()}
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

    def _cached(self, value: Any) -> ChatAnswer:
        """Return an answer of the cache; the file may be anybody's."""
        fields = [field.name for field in dataclasses.fields(ChatAnswer)][:-1]
        answer = make_answer(*map(value.get, fields)) if isinstance(value, dict) else None
        if answer is None:
            raise ValueError(f"{self._cache.path if self._cache else ''} holds what is no answer: remove it")
        return dataclasses.replace(answer, attempts=0)

    def _keep(self, answers: Mapping[str, ChatAnswer]) -> None:
        """Write answers to the cache; where that cannot be, they are still used."""
        if self._cache is None:
            return
        rows = {key: dataclasses.asdict(answer) for key, answer in answers.items()}
        for row in rows.values():
            del row["attempts"]
        try:
            self._cache.store(rows)
        except (sqlite3.Error, OSError, ValueError) as error:
            reason = redact(str(error), self._secrets)
            warnings.warn(f"{self._cache.path}: {len(rows)} answers were not kept ({reason})", stacklevel=2)

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
            text = hide(answer.text, [secret for secret in self._secrets if len(secret) >= _SHORTEST_SECRET])
            return dataclasses.replace(answer, text=text, attempts=max(self._tries.number, 1))
        except openai.APITimeoutError:
            reason = f"no answer within {self.timeout:g} s"
        except openai.APIStatusError as error:
            reason = f"status {error.status_code} ({error.response.content.decode(errors='replace')})"
        except openai.APIConnectionError as error:
            reason = f"no connection ({error.__cause__ or error})"
        except (openai.OpenAIError, ValueError) as error:
            reason = str(error)
        except Exception as error:  # nothing that one answer holds may lose the others
            reason = f"{type(error).__name__} ({error})"
        # Redacted first: a cut could leave half a key.
        reason = one_line(clean(redact(reason, self._secrets), _LONGEST_REASON))
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
            parts = urlsplit(self._url)
            self._made = openai.OpenAI(
                base_url=parts._replace(query="").geturl(),
                default_query=dict(parse_qsl(parts.query)) or None,
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

    def _sign(self, url: str, api_key: str) -> None:
        parts = urlsplit(url)
        named = [value for name, value in parse_qsl(parts.query) if redact(f"{name}={value}") != f"{name}={value}"]
        self._url, self._api_key = url, api_key
        self._secrets = tuple(filter(None, (api_key, parts.password or parts.username, *named)))
        self.base_url = redact(url)
        self._unsigned = ""

    def _reset(self) -> None:
        vars(self).update(_OPEN, _process=os.getpid(), _tries=threading.local())

    def __getstate__(self) -> dict[str, Any]:
        """What is open stays behind, and so do keys: a copy opens its own connections and signs in itself."""
        if self._http_client is not None:
            raise TypeError(f"{self!r} was given an http_client, which cannot be pickled: make it where it is used")
        lost = {
            "api_key=...": self._api_key and not self._key_variable,
            "base_url=...": self._url != self.base_url,
        }
        unsigned = self._unsigned or ", ".join(name for name, gone in lost.items() if gone)
        hidden = {"_api_key": "", "_url": self.base_url, "_secrets": (), "_unsigned": unsigned}
        return {**vars(self), **_OPEN, **hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the key from its variable, where it has one; see `sign_in`."""
        vars(self).update(state)
        unsigned = self._unsigned
        if self._key_variable:
            self._sign(self._url, os.environ.get(self._key_variable, ""))
            unsigned = ", ".join(filter(None, ("" if self._api_key else "api_key=...", unsigned)))
        self._unsigned = unsigned

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy within this process, as `gymnasium.Env.spec` does: with its credentials."""
        made = type(self).__new__(type(self))
        kept = {**vars(self), **_OPEN, "_http_client": None}
        vars(made).update(copy.deepcopy(kept, memo), _http_client=self._http_client)
        return made

    def __repr__(self) -> str:
        """Show the model and where it is; never the key."""
        return f"ChatEndpoint({self.model!r}, {self.base_url!r})"
