"""Small corpora and the recorded one, naive BM25, four passages with questions, and servers on loopback sockets."""

import json
import lzma
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval.serve import RetrievalServer
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure
from tests.oracles import oracle

#: The folder that holds `agentgym` and `tests`, for processes that a test starts.
ROOT = Path(__file__).resolve().parents[3]

#: Words that are their own stems and no stop words.
WORDS = ("ka", "lo", "mi", "nu", "ro", "su", "ta", "vo")


@cache
def rows(name: str) -> list[dict[str, Any]]:
    with lzma.open(oracle("searchqa", name), "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def random_passages(count: int, seed: int, words: Sequence[str] = WORDS) -> tuple[Passage, ...]:
    """Passages of a few words each, so that many scores are equal."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        title, text = (" ".join(rng.choice(words, size=int(n))) for n in (rng.integers(1, 3), rng.integers(0, 6)))
        made.append(Passage(f"p{i}", f"{title}\n{text}"))
    return tuple(made)


def write_corpus(path: Path, passages: Sequence[Passage]) -> Path:
    path.write_text("".join(json.dumps(passage._asdict()) + "\n" for passage in passages), encoding="utf-8")
    return path


def naive_scores(passages: Sequence[Passage], query: str) -> list[float]:
    """BM25 of Robertson & Zaragoza (2009), idf = ln(1 + (N - n + 1/2) / (n + 1/2)); words of the title count thrice."""
    texts = [(p.title + " ") * 3 + p.text for p in passages]
    counts = [Counter(text.split()) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths)
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for word in set(query.split()):
            n = sum(word in other for other in counts)
            idf = math.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
            tf = count[word]
            score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean))
        scores.append(score)
    return scores


ADA = Passage("ada", '"Ada Bell"\nAda Bell was born in Port Ulm.')
ULM = Passage("ulm", '"Port Ulm"\nPort Ulm is a town in the Kingdom of Zell.')
IVA = Passage("iva", '"Iva Moll"\nIva Moll taught Ada Bell.')
ZELL = Passage("zell", '"Kingdom of Zell"\nThe crown is its currency.')
PASSAGES = (ADA, ULM, IVA, ZELL)

WHERE = Question("where", "Where was Ada Bell born", ("Port Ulm", "Old Ulm"), "one_hop", "train", ("ada",))
COUNTRY = Question(
    "country", "In which country was Ada Bell born?", ("Kingdom of Zell",), "two_hop", "train", ("ada", "ulm")
)
LOOSE = Question("loose", "Is there a sea?", ("no",), "nq", "test")
QUESTIONS = (WHERE, COUNTRY, LOOSE)


class Titles:
    """Finds the passages whose title holds a word of the query, in the order of the corpus; counts its calls."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = tuple(passages)
        self.calls: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        self.calls.append(list(queries))
        return [self._find(query, k) for query in queries]

    def _find(self, query: str, k: int) -> Found:
        if query == "broken":
            return SearchFailure("the engine is broken")
        words = set(query.lower().split())
        fitting = [each for each in self.passages if words & set(each.title.lower().strip('"').split())]
        return tuple([Hit(passage, 1.0 / (i + 1)) for i, passage in enumerate(fitting[:k])])


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
