"""The connections under the client library: one per thread, and a limit on the whole of a request.

The transports that come with the client library limit the wait for each next byte, so an answer that trickles in can
hold up training for ever; and a request through all of its layers costs several times the processor time, which
counts when 128 dialogues wait.
"""

from __future__ import annotations

import http.client
import importlib
import ssl
import threading
import time
from contextlib import nullcontext
from typing import Any, NamedTuple

from agentgym.chat.deadlines import Deadlines

#: An answer of more bytes is an error.
_MOST_BYTES = 16_000_000
#: Headers that are not the same for all requests, or that ask for what is not understood here.
_OWN_HEADERS = frozenset({"accept-encoding", "content-length", "x-stainless-retry-count"})


class _Place(NamedTuple):
    """Where a request goes, and how it is introduced."""

    scheme: str
    host: str
    port: int | None
    path: str
    headers: dict[str, str]


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    content: bytes


class DirectTransport:
    """A transport for httpx, as the openai package uses it. Connections are direct: no proxies, no redirections.

    The time-out `read` of a request limits all of it, from connecting to the last byte; without one there is no limit.

    `post` is a short cut past the package: it sends another body to where the package sent its last request, with the
    same headers. What does not succeed there, the package is told as the outcome of its own next request, so it is
    the package that decides what happens then, Retry-After and all.
    """

    def __init__(self) -> None:
        self._thread = threading.local()
        self._deadlines = Deadlines()
        self._place: _Place | None = None
        self._secure: ssl.SSLContext | None = None

    def __enter__(self) -> DirectTransport:
        """Return the transport itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close this thread's connection; those of other threads are closed when these end."""
        self.close()

    def close(self) -> None:
        """Close this thread's connection."""
        kept = vars(self._thread).pop("kept", None)
        if kept is not None:
            kept[1].close()

    def handle_request(self, request: Any) -> Any:
        """Send an httpx request and return the httpx response, read to its end.

        Raises:
            httpx.ReadTimeout: when the time is over.
            httpx.NetworkError: when there is no connection, or it ends within the answer.
        """
        httpx = importlib.import_module(type(request).__module__.partition(".")[0])
        limit: float | None = request.extensions.get("timeout", {}).get("read")
        known: _Answer | Exception | None = vars(self._thread).pop("outcome", None)
        try:
            if isinstance(known, Exception):
                raise known
            answer = known or self._exchange(self._note(request), request.method, request.read(), limit)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {limit:g} s", request=request) from error
        except (OSError, http.client.HTTPException) as error:
            raise httpx.NetworkError(str(error) or type(error).__name__, request=request) from error
        # Nothing packed is asked for, and unpacking has no limit.
        headers = [(name, value) for name, value in answer.headers if name.lower() != "content-encoding"]
        return httpx.Response(answer.status, headers=headers, content=answer.content, request=request)

    def post(self, body: bytes, limit: float) -> bytes | None:
        """Send a body by the short cut.

        Returns:
            the answer's body; None when there was no request yet, or this one did not succeed. The next request of
            this thread must then be the same one through the package.
        """
        if self._place is None:
            return None
        try:
            answer = self._exchange(self._place, "POST", body, limit)
        except (OSError, http.client.HTTPException) as error:
            self._thread.outcome = error
            return None
        if answer.status != http.HTTPStatus.OK:
            self._thread.outcome = answer
            return None
        return answer.content

    def _note(self, request: Any) -> _Place:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        url = request.url
        self._place = _Place(url.scheme, url.host, url.port, url.raw_path.decode("ascii"), headers)
        return self._place

    def _exchange(self, place: _Place, method: str, body: bytes, limit: float | None) -> _Answer:
        """Send a request, on a new connection where the one kept open turns out to be closed."""
        until = None if limit is None else time.monotonic() + limit
        where, kept = vars(self._thread).pop("kept", (None, None))
        if kept is not None and where == place[:3]:
            try:
                return self._once(kept, place, method, body, until)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # closed while it was idle
        if place.scheme == "https":
            self._secure = self._secure or ssl.create_default_context()
            fresh = http.client.HTTPSConnection(place.host, place.port, context=self._secure)
        else:
            fresh = http.client.HTTPConnection(place.host, place.port)  # type: ignore[assignment]
        return self._once(fresh, place, method, body, until)

    def _once(
        self, connection: http.client.HTTPConnection, place: _Place, method: str, body: bytes, until: float | None
    ) -> _Answer:
        try:
            if connection.sock is None:
                connection.timeout = None if until is None else max(until - time.monotonic(), 0.001)
                connection.connect()
                connection.sock.settimeout(None)  # type: ignore[attr-defined]  # connect() has made it
            with nullcontext() if until is None else self._deadlines.limit(connection.sock, until):
                connection.request(method, place.path, body, place.headers)
                response = connection.getresponse()
                content = response.read(_MOST_BYTES + 1)
                if len(content) > _MOST_BYTES:
                    raise http.client.HTTPException(f"an answer of more than {_MOST_BYTES:,} bytes")
                if response.length:
                    raise http.client.IncompleteRead(content, response.length)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._thread.kept = place[:3], connection
        return _Answer(response.status, response.getheaders(), content)
