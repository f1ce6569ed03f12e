"""A retriever in another process: queries go to a retrieval server over HTTP, in either published format."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import SplitResult, urlsplit

from agentgym.core import suggest
from agentgym.foreign_text import ForeignError, clean, one_line, read_json
from agentgym.redaction import redact
from agentgym.searchqa.retrieval.formats import FORMATS, read_answer, write_request
from agentgym.searchqa.retriever import Found, SearchFailure, check_search

#: An answer of more bytes is an error.
_MOST_BYTES = 256_000_000
#: Answers of a server that is busy or out of order: worth another try.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


#: Characters of an answer that are looked at for credentials before a failure shows the first of them.
_MOST_REASON, _SHOWN = 100_000, 300
#: A shorter value of a header ("1", "en") is no credential.
_SHORTEST_SECRET = 4


class _RefusedError(ValueError):
    """An answer that another try would not change."""


class HttpRetriever:
    """A retrieval server, such as Search-R1's, verl-agent's, or `python -m agentgym.searchqa.retrieval.serve`.

    A search that fails, after all its tries, gives a `SearchFailure` for its queries and leaves the others alone. The
    standard library's client is enough here, and its socket is at hand for what no client library offers: a limit on
    the whole of a request, so that a server that sends a byte now and then cannot hold up training. Connections are
    direct (no proxies) and redirections are failures.

    Credentials (values of `headers`, user and password and keys in the URL) are sent and nothing else: `url`, `repr`
    and the reasons of failures show `***` for them, and a pickle leaves them out. A client that was unpickled or copied
    in another process has none; give it its own where the server wants some.

    Args:
        url: `http://host:port/path` or https; without a path, `/retrieve`.
        wire: "searchr1" (a batch of queries in one request) or "verl_agent" (one query in each).
        timeout: seconds that one try may take, from connecting to the last byte.
        retries: further tries after a failure that may pass: no connection, time-out, a status such as 503.
        backoff: seconds before the first further try; doubled before each other one.
        batch: most queries of one request.
        threads: most requests at a time.
        headers: sent with every request, for example `{"Authorization": "Bearer ..."}`.

    Raises:
        ValueError: on a URL or an argument that cannot be.
    """

    def __init__(
        self,
        url: str,
        *,
        wire: str = "searchr1",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.5,
        batch: int = 512,
        threads: int = 8,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        parts = _split(url)
        if wire not in FORMATS:
            raise ValueError(f"unknown wire format {wire!r}; {suggest(wire, FORMATS)}")
        if timeout <= 0 or retries < 0 or backoff < 0 or batch < 1 or threads < 1:
            raise ValueError(
                f"expected timeout > 0, retries >= 0, backoff >= 0, batch >= 1 and threads >= 1, "
                f"got {timeout}, {retries}, {backoff}, {batch} and {threads}"
            )
        self.url, self.wire = redact(url), wire
        self.timeout, self.retries, self.backoff = timeout, retries, backoff
        self._batch = batch if wire == "searchr1" else 1
        self._threads = threads
        self._own_headers = _checked(headers or {})
        self._secrets = _secrets(parts, self._own_headers)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **self._own_headers}
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        path = parts.path if parts.path not in ("", "/") else "/retrieve"
        self._path = f"{path}?{parts.query}" if parts.query else path

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Search for several queries, each different one once; see `Retriever.search`."""
        check_search(queries, k)
        different = list(dict.fromkeys(queries))
        parts = [different[i : i + self._batch] for i in range(0, len(different), self._batch)]
        if len(parts) > 1:
            with ThreadPoolExecutor(min(self._threads, len(parts))) as pool:
                answers = list(pool.map(lambda part: self._ask(part, k), parts))
        else:
            answers = [self._ask(part, k) for part in parts]
        found: dict[str, Found] = {}
        for part, answer in zip(parts, answers, strict=True):
            found.update(zip(part, answer, strict=True))
        return [found[query] for query in queries]

    def _ask(self, queries: Sequence[str], k: int) -> list[Found]:
        """Send one request, again while that may help; return what it gave for each query."""
        body = json.dumps(write_request(self.wire, queries, k)).encode()
        reason = ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(self.backoff * 2 ** (attempt - 1))
            try:
                found = read_answer(self._post(body), len(queries), k)
                return [self._failure(each.reason) if isinstance(each, SearchFailure) else each for each in found]
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            except ValueError as error:  # what another try would not change
                return [self._failure(str(error))] * len(queries)
        tries = f"; {self.retries + 1} tries of at most {self.timeout:g} s"
        return [self._failure(reason, tries)] * len(queries)

    def _failure(self, reason: str, tries: str = "") -> SearchFailure:
        """Return a failure that shows the beginning of a reason, without credentials: they go before it is cut."""
        shown = redact(clean(reason, _MOST_REASON), self._secrets)[:_SHOWN]
        return SearchFailure(f"{self.url}: {one_line(shown)}{tries}")

    def _post(self, body: bytes) -> Any:
        """Return the JSON value of the answer; an OSError or HTTPException is worth another try."""
        connection = self._connect(self._host, self._port, timeout=self.timeout)
        until = time.monotonic() + self.timeout
        expired = threading.Event()
        watch: threading.Timer | None = None
        try:
            connection.connect()
            watch = threading.Timer(max(until - time.monotonic(), 0.0), _hang_up, (connection.sock, expired))
            watch.daemon = True
            watch.start()
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            content = response.read(_MOST_BYTES + 1)
            if response.length and len(content) <= _MOST_BYTES:
                raise http.client.IncompleteRead(content, response.length)
        except (OSError, http.client.HTTPException) as error:
            if expired.is_set() or isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer within {self.timeout:g} s") from error
            raise
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()
        if expired.is_set():
            raise TimeoutError(f"no answer within {self.timeout:g} s")
        return _read(response.status, content)

    def __getstate__(self) -> dict[str, Any]:
        """Leave credentials behind: what is pickled may be stored or sent anywhere."""
        plain = {name: value for name, value in self._headers.items() if name not in self._own_headers}
        path, _, query = self._path.partition("?")
        kept = "&".join([part for part in query.split("&") if part and redact(part) == part])
        bare = {"_headers": plain, "_own_headers": {}, "_secrets": (), "_path": f"{path}?{kept}" if kept else path}
        return {**vars(self), **bare}

    def __repr__(self) -> str:
        """Show where it asks."""
        return f"HttpRetriever({self.url!r}, wire={self.wire!r})"


def _hang_up(connected: socket.socket, expired: threading.Event) -> None:
    expired.set()
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port >= 0)
    except ValueError:
        known = False
    if not known or url != clean(url) or not url.isprintable() or " " in url:
        raise ValueError(f"expected the URL of a retrieval server, like http://host:8000/retrieve, got {redact(url)!r}")
    return parts


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that can be sent; the standard library's own message would show the value."""
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str) and name.isascii() and f"{name}{value}".isprintable()):
            raise ValueError(f"header {name!r}: name and value must be texts of one line, without control characters")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise ValueError(f"header {name!r}: the value holds characters that HTTP cannot send") from None
    return dict(headers)


def _secrets(parts: SplitResult, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what no text may show: values of headers, whole and by word, user and password of the URL."""
    words = [word for value in headers.values() for word in (value, *value.split())]
    known = [word for word in words if len(word) >= _SHORTEST_SECRET and word.lower() not in ("bearer", "basic")]
    return (*known, *[each for each in (parts.username, parts.password) if each])


def _read(status: int, content: bytes) -> Any:
    beginning = content[:_MOST_REASON].decode(errors="replace")
    if status != http.HTTPStatus.OK:
        message = f"status {status} ({beginning})"
        raise (OSError if status in _PASSING else _RefusedError)(message)
    if len(content) > _MOST_BYTES:
        raise _RefusedError(f"an answer of more than {_MOST_BYTES:,} bytes")
    try:
        return read_json(content, spare=True)
    except ForeignError as error:
        raise _RefusedError(f"the answer is not JSON ({error}): {beginning}") from None
