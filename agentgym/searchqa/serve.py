"""A retrieval server: several trainers share one index.

    python -m agentgym.searchqa.serve --corpus wiki-18.jsonl.gz --port 8000

`POST /retrieve` speaks both published formats (see `wire`); `GET /health` says how many passages there are. Each
request has its thread; the search itself runs outside Python's global lock.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentgym.searchqa.retriever import Hit, Retriever, SearchFailure
from agentgym.searchqa.wire import Request, WireError, read_request, write_answer

_PATHS = ("/", "/retrieve")
#: A request of more bytes is refused.
_MOST_BYTES = 64_000_000


class RetrievalServer(ThreadingHTTPServer):
    """Serves one retriever; `serve_forever()` blocks, `shutdown()` from another thread ends it.

    Args:
        retriever: what searches.
        host: address to listen at; "" for all of the machine's.
        port: 0 for any free one; `url` says which it became.
        default_k: number of hits for requests that do not say.
        patience: seconds that a client may keep a connection silent.
    """

    daemon_threads = True
    # Clients that come at once wait in this queue: as many as there are places.
    request_queue_size = 1024

    def __init__(
        self,
        retriever: Retriever,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        default_k: int = 3,
        patience: float = 60.0,
    ) -> None:
        self.retriever = retriever
        self.default_k = default_k
        self.patience = patience
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"http://{self.server_address[0]!s}:{self.server_address[1]}/retrieve"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line that a client went away; print the traceback of anything else."""
        error = sys.exception()
        if isinstance(error, OSError):
            print(f"{client_address}: {error}", file=sys.stderr)
        else:
            super().handle_error(request, client_address)


class _BadRequestError(Exception):
    """A request that is answered with an error status."""

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
        """Give silent clients up after a while."""
        super().setup()
        self.connection.settimeout(self.server.patience)

    def do_POST(self) -> None:
        """Answer a search."""
        try:
            if self.path.partition("?")[0] not in _PATHS:
                raise _BadRequestError(HTTPStatus.NOT_FOUND, f"no {self.path!r:.100} here; POST to /retrieve")
            self._send(HTTPStatus.OK, self._answer(self._request()))
        except _BadRequestError as error:
            # What is left of the request would be taken for the next one.
            self.close_connection = True
            self._send(error.status, {"error": str(error)})

    def do_GET(self) -> None:
        """Say that the server is well."""
        if self.path.partition("?")[0] != "/health":
            self._send(HTTPStatus.NOT_FOUND, {"error": "POST to /retrieve, or GET /health"})
            return
        passages = getattr(self.server.retriever, "passages", None)
        self._send(HTTPStatus.OK, {"status": "ok", "passages": None if passages is None else len(passages)})

    def _request(self) -> Request:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _BadRequestError(HTTPStatus.LENGTH_REQUIRED, "a request needs the header Content-Length")
        if len(length) > 18 or int(length) > _MOST_BYTES:
            raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {_MOST_BYTES:,} bytes")
        try:
            return read_request(json.loads(self.rfile.read(int(length))), self.server.default_k)
        except (WireError, ValueError, RecursionError) as error:
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, str(error)) from error

    def _answer(self, request: Request) -> dict[str, Any]:
        try:
            found = self.server.retriever.search(request.queries, request.k)
        except Exception as error:
            print(f"search failed: {error!r}", file=sys.stderr)
            raise _BadRequestError(HTTPStatus.INTERNAL_SERVER_ERROR, f"search failed: {error}") from error
        hits: list[tuple[Hit, ...]] = []
        for each in found:
            if isinstance(each, SearchFailure):
                raise _BadRequestError(HTTPStatus.SERVICE_UNAVAILABLE, each.reason)
            hits.append(each)
        return write_answer(request, hits)

    def _send(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: a line for each request is of no use at thousands a second."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    from agentgym.searchqa.engines import ENGINES, find_retriever

    parser = argparse.ArgumentParser(prog="python -m agentgym.searchqa.serve", description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", help="corpus file (JSON lines, also .xz or .gz) or index folder")
    parser.add_argument("--retriever", default="lexical", help=f"one of {', '.join(ENGINES)}; default: lexical")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free one")
    parser.add_argument("--top-k", type=int, default=3, help="hits for requests that do not say; default: 3")
    given = parser.parse_args(arguments)
    if given.top_k < 1:
        parser.error(f"--top-k must be at least 1, got {given.top_k}")
    try:
        retriever = find_retriever(given.retriever, given.corpus)
        server = RetrievalServer(retriever, given.host, given.port, default_k=given.top_k)
    except (ValueError, OSError, ImportError, OverflowError) as error:
        print(error, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    with server:
        print(f"serving at {server.url}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
