"""Concurrent requests to HTTP servers with a time limit per try, and the host check of our own servers.

aiohttp takes 0.25 ms of CPU per request of 128 at a time, httpx 1.1 ms, the package openai 2.9 ms.
"""

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
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from agentgym.checks import Range, check_value, whole
from agentgym.outside.packages import install, needed
from agentgym.outside.redaction import hide_all, redact
from agentgym.outside.text import DataError, clean, one_line, read_json

#: Longest wait between two tries, and longest one that a server may ask for, in seconds.
_LONGEST_WAIT, _LONGEST_ASKED = 8.0, 120.0
#: Characters of a failure.
_LONGEST_REASON: Final = 300
#: Shorter header values ("1", "en") are no credentials.
_SHORTEST_SECRET: Final = 4
#: Least number of characters of a reason that are searched for secrets before it is cut, also per character of the
#: longest secret: enough even if each character is escaped and a separate text.
_READ_OF_REASON, _READ_PER_CHARACTER = 100_000, 4_000
#: Names of headers that hold credentials.
_CREDENTIAL = re.compile(r"(?i)auth|key|token|secret|passw|cookie|session|credential|signature")
#: Characters shown of a foreign host's name.
_SHOWN_OF_NAME: Final = 100
_PLAIN_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}

Key = TypeVar("Key", bound=Hashable)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The unparsed body of a successful answer, and the number of tries."""

    content: bytes = field(repr=False)
    attempts: int


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """Why there is no answer, in one line without credentials, and the number of tries."""

    reason: str
    attempts: int


class HttpClient:
    """Sends bodies to one address by POST; all clients of a process share one thread.

    Connections are kept, cookies are not, redirections are failures. Retried are: no connection, time-out, a truncated
    answer, and the statuses 408, 409, 425, 429 and 5xx; after `backoff` seconds, doubled up to 8, or the server's
    Retry-After up to two minutes. Credentials (values of `headers`, user, password and keys in the URL) are sent but
    not shown: `url` and failures hold `***`, and pickles leave them out. Raises an ImportError for a missing library, a
    ValueError for an invalid URL or header.

    Args:
        url: the address.
        path: the path if the address has none.
        headers: sent with every request.
        timeout: seconds per try, from connecting to the last byte.
        retries: further tries.
        backoff: seconds before the first of them.
        concurrency: most requests at a time.
        most_bytes: larger answers are failures.
        proxy: URL of a proxy; None for direct connections, even if an environment variable names a proxy.
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
        for package in ("aiohttp", "tenacity"):
            needed(package, f"requests over HTTP need the package {package}: {install('http')}")
        parts = [_split(each) for each in (url, proxy) if each is not None]
        if path and parts[0].path in ("", "/"):
            url = parts[0]._replace(path=path).geturl()
        self._url, self._proxy, self._headers = url, proxy, _checked(headers or {})
        if "@" in parts[0].netloc and any(name.lower() == "authorization" for name in self._headers):
            raise ValueError("expected user and password in the URL, or a header Authorization; got both")
        self.url = redact(url)
        check_value("timeout", timeout, float, Range(above=0))
        check_value("backoff", backoff, float, Range(low=0))
        self.timeout, self.backoff = float(timeout), float(backoff)
        self.retries, self._concurrency = whole("retries", retries, 0), whole("concurrency", concurrency, 1)
        self._most_bytes = most_bytes
        self._secrets, self._certain = _secrets(parts, self._headers)
        longest = max(map(len, self._secrets), default=0)
        self._looked_at = max(_READ_OF_REASON, _READ_PER_CHARACTER * longest)
        self._opened: tuple[Any, Any, Any] | None = None

    def post(self, bodies: Mapping[Key, bytes], found: dict[Key, HttpAnswer | HttpFailure]) -> None:
        """Send all bodies and put the answers into `found`, also if waiting is interrupted."""
        _result(asyncio.run_coroutine_threadsafe(self._all(bodies, found), _event_loop()))

    def start(self, body: bytes | None) -> Future[HttpAnswer | HttpFailure]:
        """Send a body (None: a GET) without waiting; cancelling the future gives the request up."""
        return asyncio.run_coroutine_threadsafe(self._one(body), _event_loop())

    def get(self) -> HttpAnswer | HttpFailure:
        return _result(self.start(None))

    def shown(self, reason: str) -> str:
        """Return the beginning of a reason in one line; credentials are removed before it is cut."""
        reason = reason[: self._looked_at]
        return one_line(clean(redact(reason, self._secrets), _LONGEST_REASON))

    def read(self, answer: HttpAnswer, *, spare: bool = False) -> Any:
        """Return the JSON value of an answer without credentials in any string or name; DataError for invalid JSON.

        `agentgym.outside.redaction.hide` finds them. Secrets of at most five characters and headers of letters alone
        stay, since they may be ordinary words, unless the header's name denotes a credential. `spare`: see `read_json`.
        """
        try:
            return self.without_keys(read_json(answer.content, spare=spare))
        except RecursionError:
            raise DataError("nested too deeply") from None

    def without_keys(self, value: Any) -> Any:
        """Return a JSON value without credentials in its strings; see `read`."""
        return hide_all(value, self._certain) if self._certain else value

    def beginning(self, answer: HttpAnswer) -> str:
        """Return the beginning of an answer for a message, in one line without credentials."""
        return self.shown(answer.content[: 4 * self._looked_at].decode(errors="replace"))

    async def _all(self, bodies: Mapping[Key, bytes], found: dict[Key, HttpAnswer | HttpFailure]) -> None:
        async def keep(key: Key, body: bytes) -> None:
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
            # The import takes 0.1 ms and is needed after a failure only.
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
        except Exception as error:  # a bad answer must not affect the others
            known = isinstance(error, (_PassingError, _RefusedError))
            return HttpFailure(self.shown(str(error) if known else f"{type(error).__name__} ({error})"), attempts)

    def _wait(self, state: Any) -> float:
        import tenacity

        asked = state.outcome.exception().wait
        if asked is not None:
            return float(asked)
        # Jitter, so that requests that failed together are not repeated together.
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
                            raise  # the server closed an idle connection: this is no try
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
        """Return the session and the semaphore of this process; called within the loop."""
        import aiohttp

        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            session = aiohttp.ClientSession(
                headers=_PLAIN_HEADERS | self._headers,
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # compression is not asked for, and unpacking has no limit
                trace_configs=[_notes_kept_connections()],
            )
            self._opened = loop, session, asyncio.Semaphore(self._concurrency)
            weakref.finalize(self, _close, session, loop, os.getpid())
        return self._opened[1:]

    def __getstate__(self) -> dict[str, Any]:
        """Leave credentials and connections out of a pickle."""
        empty: dict[str, Any] = {"_headers": {}, "_secrets": (), "_certain": (), "_opened": None}
        return {**vars(self), "_url": _bare(self._url), "_proxy": self._proxy and _bare(self._proxy), **empty}


class _PassingError(Exception):
    """A failure that may pass, and how long the server asks to wait."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _RefusedError(Exception):
    """A failure that another try would not change."""


def _cause(error: Exception) -> str:
    """Name the cause of a connection error; the library names the address."""
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
    parts = urlsplit(url)
    query = "&".join(part for part in parts.query.split("&") if redact(part) == part)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query).geturl()


def _result(task: Future[ResultT]) -> ResultT:
    """Wait for a task; whoever stops waiting, as Ctrl-C does, gives it up."""
    try:
        return task.result()
    except BaseException:
        task.cancel()
        raise


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Check headers here, because the library's message would show the value."""
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str) and name.isascii() and f"{name}{value}".isprintable()):
            raise ValueError(f"header {name!r}: name and value must be texts of one line, without control characters")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"header {name!r}: the value holds characters that HTTP cannot send") from None
    return dict(headers)


def _secrets(urls: list[SplitResult], headers: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what no message may show (header values, user, password and keys of URLs), and what no answer may hold."""
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
    """Return the seconds of a Retry-After header; None if it is unusable."""
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
    """Return this process's loop, which runs in its own thread because callers may run a loop themselves."""
    global _loop
    with _starting:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="agentgym-http", daemon=True).start()
        return _loop


def _forget() -> None:
    """Forget the loop in a forked process, which has no threads."""
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
    """The host check of a server without passwords, against foreign pages in a browser on a machine that reaches it.

    Requests may be addressed to any IP address, localhost, this machine's name and `names` ("*": all), so that no
    foreign name can be resolved to the server. Pages (`Origin`) may come from loopback addresses, `names`, and the
    addressed host and port.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in ("localhost", socket.gethostname(), *names) if name}

    def refusal(self, hosts: Sequence[str], origins: Sequence[str]) -> str:
        """Return why a request with these `Host` and `Origin` headers is refused; "" if it is not."""
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
        name = host.strip().lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return None
