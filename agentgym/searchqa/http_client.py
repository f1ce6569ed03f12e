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
from urllib.parse import urlsplit

from agentgym.core import suggest
from agentgym.searchqa.retriever import Found, SearchFailure, check_search
from agentgym.searchqa.wire import FORMATS, WireError, read_answer, write_request

#: An answer of more bytes is an error.
_MOST_BYTES = 256_000_000
#: Answers of a server that is busy or out of order: worth another try.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _RefusedError(Exception):
    """An answer that another try would not change."""


class HttpRetriever:
    """A retrieval server, such as Search-R1's, verl-agent's, or `python -m agentgym.searchqa.serve`.

    A search that fails, after all its tries, gives a `SearchFailure` for its queries and leaves the others alone. The
    standard library's client is enough here, and its socket is at hand for what no client library offers: a limit on
    the whole of a request, so that a server that sends a byte now and then cannot hold up training. Connections are
    direct (no proxies) and redirections are failures.

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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected the URL of a retrieval server, like http://host:8000/retrieve, got {url!r}")
        if wire not in FORMATS:
            raise ValueError(f"unknown wire format {wire!r}; {suggest(wire, FORMATS)}")
        if timeout <= 0 or retries < 0 or backoff < 0 or batch < 1 or threads < 1:
            raise ValueError(
                f"expected timeout > 0, retries >= 0, backoff >= 0, batch >= 1 and threads >= 1, "
                f"got {timeout}, {retries}, {backoff}, {batch} and {threads}"
            )
        self.url, self.wire = url, wire
        self.timeout, self.retries, self.backoff = timeout, retries, backoff
        self._batch = batch if wire == "searchr1" else 1
        self._threads = threads
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        self._connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
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
                return list(read_answer(self._post(body), len(queries), k))
            except (_RefusedError, WireError) as error:
                failure = SearchFailure(f"{self.url}: {error}")
                return [failure] * len(queries)
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
        failure = SearchFailure(f"{self.url}: {reason}; {self.retries + 1} tries of at most {self.timeout:g} s")
        return [failure] * len(queries)

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

    def __repr__(self) -> str:
        """Show where it asks."""
        return f"HttpRetriever({self.url!r}, wire={self.wire!r})"


def _hang_up(connected: socket.socket, expired: threading.Event) -> None:
    expired.set()
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _read(status: int, content: bytes) -> Any:
    if status != http.HTTPStatus.OK:
        message = f"status {status} ({content[:200].decode(errors='replace')})"
        raise (OSError if status in _PASSING else _RefusedError)(message)
    if len(content) > _MOST_BYTES:
        raise _RefusedError(f"an answer of more than {_MOST_BYTES:,} bytes")
    try:
        return json.loads(content)
    except ValueError as error:
        raise _RefusedError(f"the answer is not JSON ({error}): {content[:200].decode(errors='replace')}") from error
