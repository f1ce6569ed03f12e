"""Search over HTTP: what the client makes of answers, and what our server makes of requests."""

import contextlib
import copy
import hashlib
import http.client
import json
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retrieval.serve import RetrievalServer, main
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure
from tests.agentgym.outside.chat.chat_server import Handler, Play, chat_server, drip_body, raw
from tests.agentgym.searchqa.support import WORDS, Gives, random_passages, searching, write_corpus
from tests.cases import cases
from tests.processes import ROOT
from tests.refusals import refuses

pytest.importorskip("aiohttp")

HIT = {"document": {"id": "4", "contents": '"T"\ntext'}, "score": 2.5}
FOUND = (Hit(Passage("4", '"T"\ntext'), 2.5),)
KEY = "sk-" + "k7" * 20


def client(url: str, **options: Any) -> HttpRetriever:
    return HttpRetriever(url, **({"timeout": 20.0, "retries": 0, "backoff": 0.0} | options))


def reason(found: object) -> str:
    assert isinstance(found, SearchFailure)
    return found.reason


def answer(content: object, status: int = 200) -> Play:
    return raw(json.dumps(content).encode(), status)


GOOD = answer({"result": [[HIT]]})


@pytest.mark.parametrize("wire", ["searchr1", "verl_agent"])
def test_requests_have_the_published_format(wire: str) -> None:
    def echo(handler: Handler) -> None:
        queries = handler.asked.get("queries", [handler.asked.get("query")])
        hits = [[{"document": {"id": q, "contents": f"{q}\n"}, "score": 1}] for q in queries]
        answer({"result": hits})(handler)

    with chat_server(echo) as server:
        retriever = client(server.url, wire=wire)
        assert isinstance(retriever, Retriever)
        found = retriever.search(["b", "a é", "b"], 3)
        options = {"topk": 3, "return_scores": True}
        if wire == "searchr1":
            assert server.requests == [{"queries": ["b", "a é"]} | options]
        else:
            assert sorted(server.requests, key=str) == [{"query": "a é"} | options, {"query": "b"} | options]
        assert found == [(Hit(Passage(q, f"{q}\n"), 1.0),) for q in ("b", "a é", "b")]
        assert retriever.search([], 3) == []


def test_large_batches_are_split_other_servers_understood_and_texts_cleaned_and_limited() -> None:
    def count(handler: Handler) -> None:
        answer({"result": [[] for _ in handler.asked["queries"]]})(handler)

    with chat_server(count) as server:
        assert client(server.url, batch=4).search([str(i) for i in range(10)], 1) == [()] * 10
        assert sorted(len(request["queries"]) for request in server.requests) == [2, 4, 4]
    plain, bare = {"id": 12, "contents": "A\nb"}, {"document": {"contents": "A\nb"}}
    digest = hashlib.blake2b(b"A\nb", digest_size=8).hexdigest()
    with chat_server(answer({"result": [[plain, bare, HIT], []]})) as server:
        found = client(server.url.removesuffix("/v1")).search(["x", "y"], 2)
        assert found == [(Hit(Passage("12", "A\nb"), 0.0), Hit(Passage(digest, "A\nb"), 0.0)), ()]
        assert server.paths == ["/retrieve"]
    hit = {"document": {"id": "\ud800" + "i" * 5000, "contents": "T\n\udfff\x1b[2J" + "x" * 2_000_000}, "score": 1}
    with chat_server(answer({"result": [[hit]]})) as server:
        ((found,),) = client(server.url).search(["\ud800"], 3)
        assert server.requests[0]["queries"] == ["\ufffd"]
    assert found.passage.contents.startswith("T\n\ufffd\ufffd[2Jxx")
    assert (len(found.passage.contents), len(found.passage.id)) == (1_000_000, 1_000)
    found.passage.id.encode()


@cases(
    "play, words",
    (raw(b"<html>"), "not JSON"), (raw(b"\xff\xfe\x00"), "not JSON"), (answer({"detail": "no"}, 422), "status 422"),
    (answer({"error": "no"}), "expected {'result'"), (answer({"result": [HIT]}), "expected {'result'"),
    (answer({"result": []}), "0 lists for 1 queries"), (answer({"result": [[HIT], [HIT]]}), "2 lists for 1 queries"),
)  # fmt: skip
def test_a_malformed_or_refusing_server_is_a_failure_at_once(play: Play, words: str) -> None:
    with chat_server(play, GOOD) as server:
        (found,) = client(server.url, retries=3).search(["q"], 3)
        assert words in reason(found)
        assert server.url in reason(found)
        assert len(server.requests) == 1


def test_what_may_pass_is_tried_again_and_one_failing_query_spares_the_others() -> None:
    with chat_server(drip_body) as server:
        (found,) = client(server.url, timeout=0.2, retries=1).search(["q"], 3)
        assert "no answer within 0.2 s; 2 tries of at most 0.2 s" in reason(found)
        assert len(server.requests) == 2

    def picky(handler: Handler) -> None:
        (answer({"error": "no"}, 400) if handler.asked["query"] == "bad" else GOOD)(handler)

    with chat_server(picky) as server:
        found = client(server.url, wire="verl_agent", threads=3).search(["a", "bad", "b", "c", "d"], 3)
        assert [isinstance(each, SearchFailure) for each in found] == [False, True, False, False, False]
        assert "status 400" in reason(found[1])


def test_arguments_are_checked_and_credentials_are_not_shown() -> None:
    refuses(ValueError, "did you mean 'searchr1'", HttpRetriever, "http://h", wire="searchr2")
    for name, wrong, named in (
        ("timeout", 0, "timeout"), ("retries", -1, "retries"), ("backoff", -1, "backoff"), ("batch", 0, "batch"),
        ("threads", 0, "concurrency"),
    ):  # fmt: skip
        refuses(ValueError, f"{named} must be .*, got {wrong}", HttpRetriever, "http://h", **{name: wrong})
    refuses(ValueError, "at least 1", lambda: HttpRetriever("http://h").search(["q"], 0))
    wrong = ["localhost:8000", "ftp://host/x", "http://", "http:///retrieve", f"http://h/a b?token={KEY}"]
    for url in (*wrong, f"http://hunter:pw12@h:port/?api_key={KEY}", "ftp://hunter:pw12@h/"):
        words = refuses(ValueError, "expected the URL", HttpRetriever, url)
        assert KEY not in words
        assert "pw12" not in words
    both = {"authorization": f"Bearer {KEY}"}
    assert KEY not in refuses(ValueError, "got both", HttpRetriever, "http://hunter:pw12@h/x", headers=both)
    for value in (f"{KEY}\n", f"{KEY}\r\nX: y", f"{KEY}\u2026", 7):
        headers = {"Authorization": value}
        assert KEY not in refuses(ValueError, "header 'Authorization'", HttpRetriever, "http://h", headers=headers)


ODD = ("high", True, None, [[]], {"a": 1}, 10**400, float("nan"), -float("inf"), int("1" * 19))


@cases(
    "changed, words",
    *(({"score": score}, "'score' must be a finite number") for score in ODD),
    *(({"document": document}, "no document") for document in (7, None, [], {"id": "1", "contents": 3}, "x" * 9999)),
    *(({"document": {"id": name, "contents": "x"}}, "the 'id' of a document must be") for name in ([], {}, True)),
)
def test_a_damaged_hit_costs_its_query_and_spares_the_others(changed: dict[str, Any], words: str) -> None:
    with chat_server(answer({"result": [[HIT], [HIT, HIT | changed], [HIT]]})) as server:
        first, second, third = client(server.url).search(["a", "b", "c"], 3)
    assert (first, third) == (FOUND, FOUND)
    assert words in reason(second)
    assert len(reason(second)) < 400


def test_no_failure_shows_a_key_and_a_pickle_holds_none() -> None:
    secrets = (KEY, KEY[:8], KEY[::-1], KEY[::-1][:8], "hunter", "pw12")
    words = f"{'x' * 190}Authorization: Bearer {KEY}, X-Token: {KEY[::-1]}, user hunter, {KEY}"
    with chat_server(raw(words.encode()), raw(words.encode(), 401), GOOD) as server:
        url = server.url.replace("//", "//hunter:pw12@") + f"?k=1&api_key={KEY}"
        remote = client(url, headers={"X-Api-Key": f"Bearer {KEY}", "X-Token": KEY[::-1]})
        texts = [reason(remote.search(["q"], 3)[0]) for _ in range(2)]
        pickled = pickle.dumps(remote)
        for secret in secrets:
            assert secret not in "".join([*texts, repr(remote), remote.url])
            assert secret.encode() not in pickled
        assert ["the answer is not JSON" in texts[0], "status 401" in texts[1]] == [True, True]
        other = pickle.loads(pickled)
        assert other.search(["q"], 3) == [FOUND]
        assert other.url.endswith("/v1?k=1&api_key=***")
    assert copy.deepcopy([remote])[0] is remote


PASSAGES = random_passages(40, seed=2)
BODY = '{"query": "ka"}'
LENGTH = f"Content-Length: {len(BODY)}\r\n"


@pytest.fixture(scope="module")
def lexical() -> LexicalRetriever:
    return LexicalRetriever(PASSAGES)


@pytest.fixture(scope="module")
def server(lexical: LexicalRetriever) -> Iterator[RetrievalServer]:
    with searching(lexical) as server:
        yield server


def post(server: RetrievalServer, body: bytes | dict[str, Any], path: str = "/retrieve") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
    response = connection.getresponse()
    status, content = response.status, json.loads(response.read())
    connection.close()
    return status, content


def connect(port: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def raw_status(server: RetrievalServer, head: str) -> int:
    with connect(server.server_address[1]) as raw:
        raw.sendall(head.encode())
        return int(raw.recv(100).split()[1])


@pytest.mark.parametrize("wire", ["searchr1", "verl_agent"])
def test_our_client_finds_through_our_server_what_the_retriever_finds(lexical, server, wire: str) -> None:
    queries = [*WORDS, "nothing fits", "ka \ud800 lo", "", *(f"{a} {b}" for a in WORDS for b in WORDS)]
    assert HttpRetriever(server.url, wire=wire, timeout=60).search(queries, 5) == lexical.search(queries, 5)


def test_both_formats_are_answered_with_or_without_scores(lexical: LexicalRetriever) -> None:
    def documents(query: str, k: int) -> list[dict[str, Any]]:
        (found,) = lexical.search([query], k)
        assert isinstance(found, tuple)
        return [{"document": hit.passage._asdict(), "score": hit.score} for hit in found]

    with searching(lexical, default_k=2) as server:
        ask = {"topk": 3, "return_scores": True}
        many = {"result": [documents("ka", 3), documents("lo", 3)]}
        assert post(server, {"queries": ["ka", "lo"]} | ask) == (200, many)
        assert post(server, {"query": "ka"} | ask) == (200, {"result": [documents("ka", 3)]})
        assert post(server, {"queries": []} | ask) == (200, {"result": []})
        asked = {"query": "ka", "more": 1, "return_scores": True}
        assert post(server, asked, "/") == (200, {"result": [documents("ka", 2)]})
        bare = [hit["document"] for hit in documents("ka", 2)]
        for fields in ({}, {"return_scores": False}, {"topk": None}, {"topk": 0}):
            assert post(server, {"queries": ["ka"]} | fields) == (200, {"result": [bare]})


@cases(
    "body, words",
    (b"{", "not JSON: Expecting"), ({"query": "a", "queries": ["a"]}, "expected an object with 'queries'"),
    ({"queries": "ka"}, "'queries' must be a list of strings"), ({"query": ["ka"]}, "'query' a string"),
    ({"queries": [1]}, "'queries' must be a list of strings"), ({"query": "ka", "topk": True}, "got True"),
    ({"query": "ka", "topk": -1}, "'topk' must be an integer from 1 to 1000, got -1"),
    ({"query": "ka", "topk": 1001}, "got 1001"),
    ({"query": "ka", "return_scores": "yes"}, "'return_scores' must be true or false"),
)  # fmt: skip
def test_a_bad_request_is_answered_with_what_was_expected(server, body: Any, words: str) -> None:
    status, content = post(server, body)
    assert (status, list(content)) == (400, ["error"])
    assert words in content["error"]
    assert post(server, {"query": "ka"})[0] == 200


def test_requests_that_are_no_search_or_too_much_and_connections_that_are_kept(server: RetrievalServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    for path, status, content in (
        ("/health", 200, {"status": "ok", "passages": 40}), ("/x", 404, {"error": "POST to /retrieve, or GET /health"}),
    ):  # fmt: skip
        connection.request("GET", path)
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())) == (status, content)
    connection.close()
    assert post(server, {"query": "ka"}, "/other")[0] == 404
    for length, status in (("x", 411), ("-1", 411), ("9" * 5000, 413), ("16000001", 413)):
        assert raw_status(server, f"POST /retrieve HTTP/1.1\r\nContent-Length: {length}\r\n\r\n") == status
    assert post(server, {"queries": ["ka"] * 1024})[0] == 200
    status, content = post(server, {"queries": ["ka"] * 1025})
    assert (status, content["error"][:31]) == (400, "1025 queries in one request, at")
    assert raw_status(server, "POST /retrieve HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 411
    assert raw_status(server, "GET /health HTTP/1.1\r\nContent-Length: 0\r\n\r\n") == 200
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    for _ in range(3):
        connection.request("POST", "/retrieve", json.dumps({"query": "ka"}))
        assert connection.getresponse().read()
    used = connection.sock
    connection.request("POST", "/retrieve", json.dumps({"query": "lo"}))
    connection.getresponse().read()
    assert connection.sock is used
    connection.close()
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda i: post(server, {"query": WORDS[i % len(WORDS)]}), range(256)))
    assert all(answer == answers[i % len(WORDS)] and answer[0] == 200 for i, answer in enumerate(answers))


class Failing:
    """Fails for the query "fail", raises for "raise"; either shows credentials."""

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        if "raise" in queries:
            raise RuntimeError("http://me:pw12@host/?api_key=k7k7")
        found = (Hit(Passage("1", "T\nx"), 1.0),)
        failure = SearchFailure("http://me:pw12@host/?api_key=k7k7 is away")
        return [failure if query == "fail" else found for query in queries]


def test_a_failing_search_is_an_error_status_never_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    shown = "http://***@host/?api_key=***"
    with searching(Failing()) as server:
        assert post(server, {"query": "fail"}) == (503, {"error": f"{shown} is away"})
        assert post(server, {"queries": ["a", "fail"]}) == (503, {"error": f"{shown} is away"})
        assert post(server, {"query": "raise"}) == (500, {"error": f"search failed: {shown}"})
        assert f"RuntimeError('{shown}')" in capsys.readouterr().err
        found = HttpRetriever(server.url, wire="verl_agent", retries=1, backoff=0.0).search(["a", "fail", "raise"], 3)
        assert [isinstance(each, SearchFailure) for each in found] == [False, True, True]
        batch = HttpRetriever(server.url, retries=0).search(["a", "fail"], 3)
        assert all(isinstance(each, SearchFailure) and "is away" in each.reason for each in batch)


def test_the_command_serves_until_it_is_told_to_stop_and_says_what_is_wrong(tmp_path: Path, lexical, capsys) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", PASSAGES)
    command = [sys.executable, "-m", "agentgym.searchqa.retrieval.serve", "--corpus", str(corpus), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split()[-1]
        assert HttpRetriever(url).search(list(WORDS), 3) == lexical.search(list(WORDS), 3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    corpus = str(write_corpus(tmp_path / "c.jsonl", PASSAGES))
    assert main(["--corpus", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert main(["--corpus", corpus, "--retriever", "lexicla"]) == 1
    assert "did you mean 'lexical'" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--corpus", corpus, "--port", str(taken.getsockname()[1])]) == 1
    assert "in use" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--corpus", corpus, "--top-k", "0"])


@cases(
    "named, status",
    ("Host: localhost:{port}", 200), ("Host: node7:{port}", 200), ("Host: evil.example:{port}", 403),
    ("Host: localhost\r\nHost: evil.example", 403), ("Host: 127.0.0.1:{port}\r\nOrigin: http://node7", 200),
    ("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}", 200), ("Host: 127.0.0.1\r\nOrigin: null", 403),
    ("Host: 127.0.0.1:{port}\r\nOrigin: http://evil.example", 403),
)  # fmt: skip
def test_a_request_for_another_host_or_of_its_page_is_refused(lexical, named: str, status: int) -> None:
    """Which hosts are known is tested in tests/agentgym/outside/test_http.py."""
    for names, expected in (["Node7"], status), (["*"], 200):
        with searching(lexical, names=names) as server:
            head = named.format(port=server.server_address[1])
            assert raw_status(server, f"GET /health HTTP/1.1\r\n{head}\r\n\r\n") == expected
            assert raw_status(server, f"POST /retrieve HTTP/1.1\r\n{head}\r\n{LENGTH}\r\n{BODY}") == expected


@cases(
    "request_line, head, status",
    ("POST /retrieve", LENGTH, 200), ("POST /retrieve", LENGTH * 2, 400), ("PUT /retrieve", LENGTH, 400),
    ("POST /retrieve", f"{LENGTH}Content-Length: 0\r\n", 400), ("GET /health", LENGTH, 400),
    ("POST /retrieve", f"Content-Length: {len(BODY)}, {len(BODY)}\r\n", 411),
    ("POST /retrieve", f"X-Broken : 1\r\n{LENGTH}", 400), ("GET /health", "Transfer-Encoding: chunked\r\n", 400),
    ("POST /retrieve", f"{LENGTH}Transfer-Encoding: chunked\r\n", 411),
)  # fmt: skip
def test_what_follows_a_request_of_unclear_length_is_no_other_one(server, request_line, head, status) -> None:
    with connect(server.server_address[1]) as raw:
        another = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        raw.sendall(f"{request_line} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{BODY}{another}".encode())
        answers = b""
        with contextlib.suppress(ConnectionResetError):
            while more := raw.recv(100_000):
                answers += more
    assert answers.startswith(f"HTTP/1.1 {status} ".encode())
    assert answers.count(b"HTTP/1.1 ") == (2 if status == 200 else 1)


@pytest.mark.parametrize(
    "start", ["", "POST /retrieve HTTP/1.1\r\nX-Slow: ", "POST /retrieve HTTP/1.1\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_request_that_comes_drop_by_drop_is_given_up(lexical: LexicalRetriever, start: str) -> None:
    with searching(lexical, patience=0.3, seconds=0.3) as server, connect(server.server_address[1]) as raw:
        raw.sendall(start.encode())
        raw.settimeout(0.02)
        for _ in range(1000):  # twenty seconds, sixty times what the server grants
            try:
                raw.sendall(b"x")
                if raw.recv(10) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the server still waits")


class Slow:
    """Finds nothing, after an hour or when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        self.go.wait(3600)
        return [()] * len(queries)


def test_a_search_that_takes_too_long_or_answers_something_else_is_an_error_status() -> None:
    slow = Slow()
    with searching(slow, seconds=0.2) as server:
        assert post(server, {"query": "ka"}) == (503, {"error": "not searched within 0.2 s"})
        slow.go.set()
        assert post(server, {"query": "ka"}) == (200, {"result": [[]]})
    for odd in ([7], [("x",)], None, [(Hit(Passage("1", "x"), float("nan")),)], [(Hit(Passage("1", 2), 1.0),)]):  # type: ignore[arg-type]
        with searching(Gives(odd)) as server:
            assert post(server, {"query": "ka", "return_scores": True})[0] == 500


SLOW_COMMAND = """
import agentgym.searchqa.retrieval.serve as serve, agentgym.searchqa.retrieval.engines as engines, time
class Slow:
    def search(self, queries, k):
        print("searching", flush=True)
        time.sleep(3600)
engines.find_retriever = lambda *_: Slow()
serve.main(["--port", "0"])
"""


def test_the_command_ends_soon_though_a_search_goes_on_for_an_hour() -> None:
    with subprocess.Popen([sys.executable, "-c", SLOW_COMMAND], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        port = int(process.stdout.readline().rpartition(":")[2].partition("/")[0])
        body = b'POST /retrieve HTTP/1.1\r\nContent-Length: 14\r\n\r\n{"query": "x"}'
        with connect(port) as busy, connect(port):
            busy.sendall(body)
            assert process.stdout.readline() == "searching\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0  # two seconds are promised, on a machine that is not busy
