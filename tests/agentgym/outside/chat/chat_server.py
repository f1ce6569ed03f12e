"""A real HTTP server on loopback in the place of a model's endpoint; its answers are given."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

#: Plays one request: gets the handler, with the request's JSON value in `handler.asked`.
Play = Callable[["Handler"], None]
T = TypeVar("T", bound=ThreadingHTTPServer)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"
    asked: Any

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_GET(self) -> None:
        self.play(None)

    def do_POST(self) -> None:
        self.play(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def play(self, asked: Any) -> None:
        self.asked = asked
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(self.asked)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.server.paths.append(self.path)
            self.server.times.append(time.monotonic())
            self.server.busy += 1
            self.server.most_busy = max(self.server.most_busy, self.server.busy)
        try:
            self.server.plays[min(number, len(self.server.plays) - 1)](self)
        except OSError:  # the client has gone
            self.close_connection = True
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def send(self, content: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Plays its plays one request after another, the last one again and again."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, plays: tuple[Play, ...]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plays = plays
        self.lock = threading.Lock()
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.times: list[float] = []
        self.connections = self.busy = self.most_busy = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is part of the tests."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serving(server: T) -> Iterator[T]:
    """Let a server answer, in a thread of its own, as long as the block lasts."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def chat_server(*plays: Play) -> AbstractContextManager[Server]:
    return serving(Server(plays))


def completion(text: str | None, finish: str = "stop", tokens: tuple[int, int] = (10, 5)) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": "stand-in"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def say(text: str | None, finish: str = "stop", tokens: tuple[int, int] = (10, 5)) -> Play:
    return lambda handler: handler.send(completion(text, finish, tokens))


def echo(handler: Handler) -> None:
    """Say what the last message says."""
    handler.send(completion(handler.asked["messages"][-1]["content"]))


def raw(content: bytes, status: int = 200, length: int | None = None, **headers: str) -> Play:
    def play(handler: Handler) -> None:
        handler.send(content, status, length, **headers)
        if length is not None:
            handler.close_connection = True

    return play


def hang_up(handler: Handler) -> None:
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    """Send what is no HTTP."""
    handler.wfile.write(b"\x00\xff\x13garbage \r\n" * 1_000)
    handler.close_connection = True


def slow(seconds: float, then: Play) -> Play:
    def play(handler: Handler) -> None:
        time.sleep(seconds)
        then(handler)

    return play


def _drip(begin: bytes, byte: bytes) -> Play:
    """Send what has no end, a byte now and then: no single wait is long."""

    def play(handler: Handler) -> None:
        handler.wfile.write(begin)
        for _ in range(1_000):
            handler.wfile.write(byte)
            handler.wfile.flush()
            time.sleep(0.02)

    return play


drip_head = _drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x")
drip_body = _drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" ")
