"""Servers on real loopback sockets, for the tests of the HTTP client: one that answers as told, one that searches."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agentgym.searchqa.retrieval.serve import RetrievalServer
from agentgym.searchqa.retriever import Retriever

#: Plays one connection whose request has been read: gets the socket and the request's JSON value.
Play = Callable[[socket.socket, Any], None]


def answer(content: Any, status: int = 200, length: int | None = None) -> Play:
    """Send a body (bytes, or a value as JSON) with a status, and, on request, with a wrong length."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = f"HTTP/1.1 {status} Any\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n".encode()
    return lambda connection, request: connection.sendall(head + body)


def hang_up(connection: socket.socket, request: Any) -> None:
    """Close without a word."""


def stay_silent(connection: socket.socket, request: Any) -> None:
    """Wait until the client has gone."""
    connection.recv(1)


def drip(connection: socket.socket, request: Any) -> None:
    """Send a byte of an endless header now and then, so that no single wait is long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def drip_body(connection: socket.socket, request: Any) -> None:
    """Send the head at once, and the body byte by byte without end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


class ScriptedServer:
    """Plays its plays one connection after another, the last one again and again.

    Attributes:
        requests: the JSON values of the requests so far.
    """

    def __init__(self, *plays: Play) -> None:
        self._plays = plays
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/retrieve"
        self.requests: list[Any] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        count = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            play = self._plays[min(count, len(self._plays) - 1)]
            count += 1
            threading.Thread(target=self._play, args=(connection, play), daemon=True).start()

    def _play(self, connection: socket.socket, play: Play) -> None:
        with connection, connection.makefile("rb") as stream:
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            request = json.loads(stream.read(length))
            self.requests.append(request)
            try:
                play(connection, request)
            except OSError:
                return

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@contextmanager
def scripted(*plays: Play) -> Iterator[ScriptedServer]:
    server = ScriptedServer(*plays)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def searching(retriever: Retriever, **options: Any) -> Iterator[RetrievalServer]:
    with RetrievalServer(retriever, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
