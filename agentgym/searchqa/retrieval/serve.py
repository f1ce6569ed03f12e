"""A retrieval server: several trainers share one index.

    python -m agentgym.searchqa.retrieval.serve --corpus wiki-18.jsonl.gz --port 8000

`POST /retrieve` takes both published formats (see `remote`); `GET /health` returns the number of passages. Requests are
limited in bytes, queries and time; `agentgym.outside.http.OwnHosts` checks their hosts.
"""

import argparse
import io
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentgym.outside.http import OwnHosts
from agentgym.outside.redaction import redact
from agentgym.outside.text import DataError, read_json
from agentgym.searchqa.retrieval.remote import Request, read_request, write_answer
from agentgym.searchqa.retriever import Retriever, SearchFailure

_PATHS = ("/", "/retrieve")
#: Larger requests are refused.
_MOST_BYTES = 16_000_000
#: Concurrent searches; others wait.
_SEARCHES = 32
#: Seconds for running requests after the signal to stop.
_GRACE, _END = 1.0, 1.5


class RetrievalServer(ThreadingHTTPServer):
    """Serves one retriever; `serve_forever()` blocks, `shutdown()` from another thread ends it.

    A request that names no number gets `default_k` hits. `patience` is the longest idle time of a connection, `seconds`
    that from a request's first byte to the end of its search, and again for sending; `names`: see `OwnHosts`.
    """

    daemon_threads = True
    # Length of the queue of new connections: as many as a trainer may have sub-environments.
    request_queue_size = 1024

    def __init__(
        self,
        retriever: Retriever,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        default_k: int = 3,
        patience: float = 60.0,
        seconds: float = 60.0,
        names: Iterable[str] = (),
    ) -> None:
        if patience <= 0 or seconds <= 0:
            raise ValueError(f"expected patience > 0 and seconds > 0, got {patience} and {seconds}")
        self.retriever = retriever
        self.default_k = default_k
        self.patience, self.seconds = patience, seconds
        self.hosts = OwnHosts((host, *names))
        self._searches = ThreadPoolExecutor(_SEARCHES, "search")
        self._running = 0
        self._idle = threading.Condition()
        super().__init__((host, port), _Handler)

    def search(self, request: Request, until: float) -> list[Any]:
        """Return the retriever's results; TimeoutError at the time `until` of `time.monotonic`."""
        search = self._searches.submit(self.retriever.search, request.queries, request.k)
        try:
            return list(search.result(max(until - time.monotonic(), 0.0)))
        except TimeoutError:
            search.cancel()
            raise TimeoutError(f"not searched within {self.seconds:g} s") from None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request in progress."""
        with self._idle:
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def drain(self, seconds: float) -> None:
        """Wait for requests in progress, at most `seconds`."""
        with self._idle:
            self._idle.wait_for(lambda: not self._running, seconds)

    def server_close(self) -> None:
        """Close the socket; running searches continue."""
        super().server_close()
        self._searches.shutdown(wait=False, cancel_futures=True)

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/retrieve"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a disconnected client in one line, other errors with traceback."""
        error = sys.exception()
        if isinstance(error, OSError):
            print(redact(f"{client_address}: {error}"), file=sys.stderr)
        else:
            super().handle_error(request, client_address)


class _BadRequestError(Exception):
    """Answered with an error status."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: RetrievalServer

    def setup(self) -> None:
        super().setup()
        self._incoming = _Incoming(self.connection)
        self.rfile: io.BufferedReader = io.BufferedReader(self._incoming)

    def handle_one_request(self) -> None:
        self._incoming.until = time.monotonic() + self.server.patience
        try:
            waiting = self.rfile.peek(1)
        except OSError:
            waiting = b""
        if not waiting:
            self.close_connection = True
            return
        self._incoming.until = time.monotonic() + self.server.seconds
        with self.server.answering():
            super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head; refuse foreign hosts and pages, and an unclear length."""
        if not super().parse_request():
            return False
        hosts, origins, lengths = (self.headers.get_all(name, ()) for name in ("Host", "Origin", "Content-Length"))
        status, words = HTTPStatus.FORBIDDEN, self.server.hosts.refusal(hosts, origins)
        if not words and (len(lengths) > 1 or self.headers.defects):
            status, words = HTTPStatus.BAD_REQUEST, "a request needs one header Content-Length, and no broken ones"
        elif not words and self.command != "POST" and ("Transfer-Encoding" in self.headers or {*lengths} - {"0"}):
            status, words = HTTPStatus.BAD_REQUEST, f"a {self.command:.20} has no body; POST to /retrieve"
        if words:
            # The server would read an unread body as the next request.
            self.close_connection = True
            self._send(status, {"error": words})
        return not words

    def do_POST(self) -> None:
        try:
            if self.path.partition("?")[0] not in _PATHS:
                raise _BadRequestError(HTTPStatus.NOT_FOUND, f"no {self.path!r:.100} here; POST to /retrieve")
            self._send(HTTPStatus.OK, self._answer(self._request()))
        except _BadRequestError as error:
            self.close_connection = True  # as above
            self._send(error.status, {"error": str(error)})

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/health":
            self._send(HTTPStatus.NOT_FOUND, {"error": "POST to /retrieve, or GET /health"})
            return
        passages = getattr(self.server.retriever, "passages", None)
        self._send(HTTPStatus.OK, {"status": "ok", "passages": None if passages is None else len(passages)})

    def _request(self) -> Request:
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            raise _BadRequestError(HTTPStatus.LENGTH_REQUIRED, "a request needs the header Content-Length")
        if len(length) > 18 or int(length) > _MOST_BYTES:
            raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {_MOST_BYTES:,} bytes")
        try:
            content = self.rfile.read(int(length))
            if len(content) < int(length):
                raise ConnectionResetError("the request ends too early")
            return read_request(read_json(content), self.server.default_k)
        except DataError as error:
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, str(error)) from error

    def _answer(self, request: Request) -> bytes:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        try:
            found = self.server.search(request, self._incoming.until)
            failed = next((each for each in found if isinstance(each, SearchFailure)), None)
            if failed is None:
                return json.dumps(write_answer(request, found), allow_nan=False).encode()
            words = failed.reason
        except TimeoutError as error:
            words = str(error)
        except Exception as error:
            print(redact(f"search failed: {error!r}"), file=sys.stderr)
            status, words = HTTPStatus.INTERNAL_SERVER_ERROR, f"search failed: {error}"
        raise _BadRequestError(status, redact(words))

    def _send(self, status: HTTPStatus, content: dict[str, Any] | bytes) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.connection.settimeout(self.server.seconds)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: a server may get thousands per second."""


class _Incoming(io.RawIOBase):
    """A client's bytes until a deadline; the socket's own limit restarts with every byte."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.until = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    from agentgym.searchqa.retrieval.engines import ENGINES, find_retriever

    parser = argparse.ArgumentParser(
        prog="python -m agentgym.searchqa.retrieval.serve", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--corpus", help="corpus file (JSON lines, also .xz or .gz) or index folder")
    parser.add_argument("--retriever", default="lexical", help=f"one of {', '.join(ENGINES)}; default: lexical")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free one")
    parser.add_argument("--top-k", type=int, default=3, help="hits for requests that do not say; default: 3")
    parser.add_argument("--seconds", type=float, default=60.0, help="longest time for a request; default: 60")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a host by which clients reach this machine, beside its own, and whose pages may ask; may be repeated; "
        "* allows all",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    if given.top_k < 1:
        parser.error(f"--top-k must be at least 1, got {given.top_k}")
    try:
        retriever = find_retriever(given.retriever, given.corpus)
        server = RetrievalServer(
            retriever, given.host, given.port, default_k=given.top_k, seconds=given.seconds, names=given.allow_host
        )
    except (ValueError, OSError, ImportError, OverflowError) as error:
        print(redact(str(error)), file=sys.stderr)
        return 1

    def stop(*_: object) -> None:
        end = threading.Timer(_END, os._exit, (0,))  # also if a search never ends
        end.daemon = True
        end.start()
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    with server:
        print(f"serving at {server.url}", flush=True)
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            stop()
            print("stopped", file=sys.stderr)
        server.drain(_GRACE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
