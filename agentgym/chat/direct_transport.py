"""The connections under the client library: one per thread, and a limit on the whole of a request.

The transports that come with the client library limit the wait for each next byte, so an answer that trickles in can
hold up training for ever; and they cost several times the processor time, which counts when 128 dialogues wait.
"""

from __future__ import annotations

import http.client
import importlib
import threading
import time
from contextlib import nullcontext
from typing import Any

from agentgym.chat.deadlines import Deadlines

#: An answer of more bytes is an error.
_MOST_BYTES = 64_000_000


class DirectTransport:
    """A transport for httpx, as the openai package uses it. Connections are direct: no proxies, no redirections.

    The time-out `read` of a request limits all of it, from connecting to the last byte; without one there is no limit.
    """

    def __init__(self) -> None:
        self._connections = threading.local()
        self._deadlines = Deadlines()

    def __enter__(self) -> DirectTransport:
        """Return the transport itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close this thread's connections; those of other threads are closed when these end."""
        self.close()

    def close(self) -> None:
        """Close this thread's connections."""
        for connection in vars(self._connections).values():
            connection.close()
        vars(self._connections).clear()

    def handle_request(self, request: Any) -> Any:
        """Send an httpx request and return the httpx response, read to its end.

        Raises:
            httpx.ReadTimeout: when the time is over.
            httpx.TransportError: when there is no connection, or it ends within the answer.
        """
        httpx = importlib.import_module(type(request).__module__.partition(".")[0])
        limit: float | None = request.extensions.get("timeout", {}).get("read")
        try:
            status, headers, content = self._exchange(request, limit)
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no answer within {limit:g} s", request=request) from error
        except (OSError, http.client.HTTPException) as error:
            raise httpx.NetworkError(str(error) or type(error).__name__, request=request) from error
        return httpx.Response(status, headers=headers, content=content, request=request)

    def _exchange(self, request: Any, limit: float | None) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request, on a new connection where the one kept open turns out to be closed."""
        until = None if limit is None else time.monotonic() + limit
        url = request.url
        key = f"{url.scheme}://{url.host}:{url.port}"
        kept: http.client.HTTPConnection | None = vars(self._connections).pop(key, None)
        body = request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() != "accept-encoding"}
        path = url.raw_path.decode("ascii")
        if kept is not None:
            try:
                return self._once(kept, key, (request.method, path, body, headers), until)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass  # closed while it was idle
        secure = url.scheme == "https"
        connection = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(url.host, url.port)
        return self._once(connection, key, (request.method, path, body, headers), until)

    def _once(
        self, connection: http.client.HTTPConnection, key: str, parts: tuple[Any, ...], until: float | None
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        try:
            if connection.sock is None:
                connection.timeout = None if until is None else max(until - time.monotonic(), 0.001)
                connection.connect()
                connection.sock.settimeout(None)
            with self._deadlines.limit(connection.sock, until) if until is not None else nullcontext():
                connection.request(*parts)
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
            vars(self._connections)[key] = connection
        return response.status, response.getheaders(), content
