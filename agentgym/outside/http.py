"""Requests to HTTP servers, many at a time, each try under one limit of time; and whom a server of ours answers.

Needs aiohttp and tenacity (the extra `http`), which are imported with the first client. It is aiohttp because one
request of 128 at a time takes it 0.25 ms of the processor, httpx 1.1 ms (2.5 ms with all connections in one pool) and
the package openai, which stands on httpx, 2.9 ms. `python -m benchmarks.run speed endpoint` on two cores, with a test
suite beside it: 128 dialogues take 1.53 to 1.64 times one (five runs); with a thread a connection on http.client, 1.35.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import ipaddress
import os
import random
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Coroutine, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentgym.outside.redaction import hide_all, redact
from agentgym.outside.text import DataError, clean, one_line, read_json

#: Seconds of the longest wait between two tries, and of the longest that a server may ask for.
_LONGEST_WAIT, _LONGEST_ASKED = 8.0, 120.0
#: Characters of a failure.
_LONGEST_REASON: Final = 300
#: A shorter value of a header ("1", "en") is no credential.
_SHORTEST_SECRET: Final = 4
#: Characters of a reason that are looked at before it is cut, at least, and per character of the longest secret: also
#: where each of them is escaped, and a text of its own, what is shown was looked at as a whole.
_READ_OF_REASON, _READ_PER_CHARACTER = 100_000, 4_000
#: Names of headers that hold credentials.
_CREDENTIAL = re.compile(r"(?i)auth|key|token|secret|passw|cookie|session|credential|signature")
#: Characters of a foreign host's name that are shown.
_SHOWN_OF_NAME: Final = 100
_PLAIN_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The body of a successful answer, as it came, and how many tries it took; `HttpClient.read` reads it."""

    content: bytes = field(repr=False)
    attempts: int


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Why there is no answer, in one line without credentials, and how many tries were made."""

    reason: str
    attempts: int


class HttpClient:
    """Sends bodies to one address by POST.

    Connections are kept, cookies are not, redirections are failures. What may pass is tried again: no connection, a
    time-out, an answer cut short, the statuses 408, 409, 425, 429 and 5xx; after `backoff` seconds, twice as many, ...
    8 at most, or what the server's Retry-After says, up to two minutes. All clients of a process share one thread.

    Credentials (values of `headers`, what stands in the URL as `user:password@` or `?api_key=`) are sent and nothing
    else: `url` and failures show `***` for them, and a pickle leaves them out.

    Args:
        url: the address.
        path: its path where the address has none.
        headers: sent with every request.
        timeout: seconds that one try may take, from connecting to the last byte.
        retries: further tries.
        backoff: seconds before the first of them.
        concurrency: most requests at a time.
        most_bytes: an answer of more is a failure.
        proxy: the URL of a proxy; None for direct connections, whatever the environment says.

    Attributes:
        url: the address, without credentials.

    Raises:
        ImportError: when a library is missing.
        ValueError: on a URL or header that cannot be; the message does not show credentials.
    """

    def __init__(
        self,
        url: str,
        *,
        path: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float,
        retries: int,
        backoff: float = 0.5,
        concurrency: int,
        most_bytes: int,
        proxy: str | None = None,
    ) -> None:
        _library()
        parts = [_split(each) for each in (url, proxy) if each is not None]
        if path and parts[0].path in ("", "/"):
            url = parts[0]._replace(path=path).geturl()
        self._url, self._proxy, self._headers = url, proxy, _checked(headers or {})
        self.url = redact(url)
        self.timeout, self.retries, self.backoff = float(timeout), int(retries), float(backoff)
        self._concurrency, self._most_bytes = concurrency, most_bytes
        self._secrets, self._certain = _secrets(parts, self._headers)
        longest = max(map(len, self._secrets), default=0)
        self._looked_at = max(_READ_OF_REASON, _READ_PER_CHARACTER * longest)
        self._opened: tuple[Any, Any, Any] | None = None

    def post(self, bodies: Mapping[Key, bytes], found: dict[Key, HttpAnswer | HttpFailure]) -> None:
        """Send all bodies; what comes is put into `found`, which holds it also when waiting is interrupted."""
        self._wait_for(self._all(bodies, found))

    def start(self, body: bytes) -> Future[HttpAnswer | HttpFailure]:
        """Send a body and do not wait; cancelling what is returned gives the request up."""
        return asyncio.run_coroutine_threadsafe(self._one(body), _event_loop())

    def get(self) -> HttpAnswer | HttpFailure:
        """Ask for what is at the address."""
        found: dict[str, HttpAnswer | HttpFailure] = {}
        self._wait_for(self._all({"": None}, found))
        return found[""]

    @staticmethod
    def _wait_for(requests: Coroutine[Any, Any, None]) -> None:
        task = asyncio.run_coroutine_threadsafe(requests, _event_loop())
        try:
            task.result()
        except BaseException:
            task.cancel()
            raise

    def tell(self, reason: str) -> str:
        """Return the beginning of a reason, in one line; credentials go before it is cut, so that no half stays."""
        reason = reason[: self._looked_at]
        return one_line(clean(redact(reason, self._secrets), _LONGEST_REASON))

    def read(self, answer: HttpAnswer, *, spare: bool = False) -> Any:
        """Return the JSON value of an answer; no string in it, names included, holds a credential.

        What `agentgym.outside.redaction.hide` finds is taken out. Secrets of at most five characters and headers that
        hold letters alone stay, unless the header's name says that it is a credential: they may be ordinary words.

        Args:
            answer: of this client.
            spare: see `agentgym.outside.text.read_json`.

        Raises:
            agentgym.outside.text.DataError: it is no JSON, see `read_json`; the message does not show it.
        """
        try:
            return self.without_keys(read_json(answer.content, spare=spare))
        except RecursionError:
            raise DataError("nested too deeply") from None

    def without_keys(self, value: Any) -> Any:
        """Return a JSON value with the credentials taken out of its strings, and nothing else; see `read`."""
        return hide_all(value, self._certain) if self._certain else value

    def beginning(self, answer: HttpAnswer) -> str:
        """Return the beginning of an answer for a message: in one line, without credentials."""
        return self.tell(answer.content[: 4 * self._looked_at].decode(errors="replace"))

    async def _all(self, bodies: Mapping[Key, bytes | None], found: dict[Key, HttpAnswer | HttpFailure]) -> None:
        async def keep(key: Key, body: bytes | None) -> None:
            found[key] = await self._one(body)

        async with asyncio.TaskGroup() as group:
            for key, body in bodies.items():
                group.create_task(keep(key, body))

    async def _one(self, body: bytes | None) -> HttpAnswer | HttpFailure:
        session, room = self._open()
        async with room:
            return await self._send(session, body)

    async def _send(self, session: Any, body: bytes | None) -> HttpAnswer | HttpFailure:
        attempts = 1
        try:
            try:
                return HttpAnswer(await self._try(session, body), 1)
            except _PassingError as error:
                first: list[_PassingError] = [error]
            # Only here, because it takes 0.1 ms also where nothing fails.
            import tenacity

            async for attempt in tenacity.AsyncRetrying(
                stop=tenacity.stop_after_attempt(self.retries + 1),
                retry=tenacity.retry_if_exception_type(_PassingError),
                wait=self._wait,
                reraise=True,
            ):
                with attempt:
                    if first:
                        raise first.pop()
                    attempts += 1
                    return HttpAnswer(await self._try(session, body), attempts)
            raise AssertionError("unreachable: the last try returns or raises")
        except Exception as error:  # nothing that one answer holds may lose the others
            known = isinstance(error, (_PassingError, _RefusedError))
            return HttpFailure(self.tell(str(error) if known else f"{type(error).__name__} ({error})"), attempts)

    def _wait(self, state: Any) -> float:
        import tenacity

        asked = state.outcome.exception().wait
        if asked is not None:
            return float(asked)
        # Of many that failed at the same time, not all come back at the same time.
        return float(tenacity.wait_exponential(self.backoff, _LONGEST_WAIT)(state)) * random.uniform(0.75, 1.0)

    async def _try(self, session: Any, body: bytes | None) -> bytes:
        import aiohttp

        try:
            async with asyncio.timeout(self.timeout):
                while True:
                    connection = SimpleNamespace(kept=False)
                    try:
                        return await self._exchange(session, body, connection)
                    except aiohttp.ClientConnectionError:
                        if not connection.kept:
                            raise  # else it was closed while it was idle: that is no try that failed
        except TimeoutError:
            raise _PassingError(f"no answer within {self.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _PassingError(f"no connection ({_cause(error)})") from None

    async def _exchange(self, session: Any, body: bytes | None, connection: SimpleNamespace) -> bytes:
        request = session.request(
            "GET" if body is None else "POST",
            self._url, data=body, proxy=self._proxy, allow_redirects=False, trace_request_ctx=connection,
        )  # fmt: skip
        async with request as response:
            parts, left = [], self._most_bytes
            async for part in response.content.iter_any():
                parts.append(part)
                left -= len(part)
                if left < 0:
                    raise _RefusedError(f"an answer of more than {self._most_bytes:,} bytes")
            content = b"".join(parts)
            if 200 <= response.status < 300:
                return content
            reason = f"status {response.status} ({content.decode(errors='replace')})"
            if response.status in (408, 409, 425, 429) or response.status >= 500:
                raise _PassingError(reason, _retry_after(response.headers.get("Retry-After", "")))
            raise _RefusedError(reason)

    def _open(self) -> tuple[Any, Any]:
        """Return the session of this process, and what limits the requests at a time; called within the loop."""
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            session = aiohttp.ClientSession(
                headers=_PLAIN_HEADERS | self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # nothing packed is asked for, and unpacking has no limit
                trace_configs=[_notes_kept_connections()],
            )
            self._opened = loop, session, asyncio.Semaphore(self._concurrency)
            weakref.finalize(self, _close, session, loop, os.getpid())
        return self._opened[1:]

    def __getstate__(self) -> dict[str, Any]:
        """Leave credentials and connections behind: what is pickled may be stored or sent anywhere."""
        empty: dict[str, Any] = {"_headers": {}, "_secrets": (), "_certain": (), "_opened": None}
        return {**vars(self), "_url": _bare(self._url), "_proxy": self._proxy and _bare(self._proxy), **empty}


class _PassingError(Exception):
    """A failure after which another try may succeed, and how long the server wants to wait for it."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _RefusedError(Exception):
    """An answer that another try would not change."""


def _library() -> None:
    try:
        import aiohttp  # noqa: F401
        import tenacity  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"requests over HTTP need the package {error.name}: pip install 'stepcredit[http]'"
        ) from error


def _cause(error: Exception) -> str:
    """Say what is wrong with a connection; the library says where it went instead."""
    system = getattr(error, "os_error", error)
    if isinstance(system, OSError) and not isinstance(system, ssl.SSLError) and (system.errno or 0) > 0:
        return os.strerror(system.errno or 0)
    return str(error) or type(error).__name__


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port >= 0)
    except ValueError:
        known = False
    if not known or url != clean(url) or not url.isprintable() or " " in url:
        raise ValueError(f"expected the URL of a server, like http://127.0.0.1:8000/path, got {redact(url)!r}")
    return parts


def _bare(url: str) -> str:
    """Return a URL without its credentials."""
    parts = urlsplit(url)
    query = "&".join(part for part in parts.query.split("&") if redact(part) == part)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query).geturl()


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent; the library's own message would show the value."""
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str) and name.isascii() and f"{name}{value}".isprintable()):
            raise ValueError(f"header {name!r}: name and value must be texts of one line, without control characters")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"header {name!r}: the value holds characters that HTTP cannot send") from None
    return dict(headers)


def _secrets(urls: list[SplitResult], headers: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what no message may show, and what of it no answer may hold.

    These are the values of headers, whole and by word, and of the URLs user, password and named keys.
    """
    found, certain = [], []
    for name, value in headers.items():
        words = [word for word in (value, *value.split()) if word.lower() not in ("bearer", "basic")]
        found += [word for word in words if len(word) >= _SHORTEST_SECRET]
        certain += [word for word in words if _CREDENTIAL.search(name) or not word.isalpha()]
    for url in urls:
        keys = [value for name, value in parse_qsl(url.query) if redact(f"{name}={value}") != f"{name}={value}"]
        user, password = url.username or "", url.password or ""
        if user or password:  # sent as "Basic", in base64
            keys += [password, f"{unquote(user)}:{unquote(password)}"]
        found += [user, *keys]
        certain += [*keys, *([] if password and user.isalpha() else [user])]
    kept = [each for each in certain if len(each) > _SHORTEST_SECRET + 1]
    return tuple(dict.fromkeys(filter(None, found))), tuple(dict.fromkeys(kept))


def _retry_after(value: str) -> float | None:
    """Return the seconds that a Retry-After header asks for; None where it says nothing that will be followed."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 < seconds <= _LONGEST_ASKED else None


def _notes_kept_connections() -> Any:
    import aiohttp

    async def note(session: Any, context: Any, _: Any) -> None:
        context.trace_request_ctx.kept = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


_starting = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process, which runs in a thread of its own: callers may have one themselves."""
    global _loop
    with _starting:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="agentgym-http", daemon=True).start()
        return _loop


def _forget() -> None:
    """Begin anew in a process that was forked: threads do not come along."""
    global _loop, _starting
    _loop, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _close(session: Any, loop: asyncio.AbstractEventLoop, process: int) -> None:
    if process == os.getpid() and loop.is_running():
        closing = asyncio.run_coroutine_threadsafe(session.close(), loop)
        if threading.current_thread().name != "agentgym-http":
            with contextlib.suppress(Exception):
                closing.result(1.0)


class OwnHosts:
    """Whom a server without passwords answers: not the pages of others in a browser on a machine that reaches it.

    Such a page has two ways to the server: its own name resolves to the server's address, and the request has a
    foreign `Host`; or it asks the address itself, and the browser names the page in `Origin`. Programs send none.

    Args:
        names: hosts that requests may be addressed to and pages may come from, beside localhost and this machine's
            name; "*" for all. Requests may be addressed to any IP address, since nobody's name was bent to it; pages
            may come from loopback addresses, and from the host and port that their request is addressed to.

    >>> own = OwnHosts(["node7"])
    >>> own.refusal(["node7:8000"], []), own.refusal(["10.0.0.7"], ["http://localhost:3000"])
    ('', '')
    >>> own.refusal(["evil.example"], [])
    "this is not 'evil.example'; --allow-host gives the server another name"
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in ("localhost", socket.gethostname(), *names) if name}

    def refusal(self, hosts: Sequence[str], origins: Sequence[str]) -> str:
        """Return why a request is refused, "" for one that is answered.

        Args:
            hosts: all its headers `Host`.
            origins: all its headers `Origin`.
        """
        if "*" in self._names:
            return ""
        for host in hosts:
            if self._named(host) is None:
                return f"this is not {clean(host, _SHOWN_OF_NAME)!r}; --allow-host gives the server another name"
        for origin in origins:
            place = origin.strip().lower().partition("://")[2]
            named = self._named(place)
            if not (named or place in [host.strip().lower() for host in hosts]):
                shown = clean(origin, _SHOWN_OF_NAME)
                return f"pages of {shown!r} may not ask this server; --allow-host permits those of a host"
        return ""

    def _named(self, host: str) -> bool | None:
        """Say whether a host, with or without a port, is known by name or is this machine; None for a foreign name."""
        name = host.strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return None
