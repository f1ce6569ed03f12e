import hashlib
import socket
from typing import Any

import pytest

from agentgym.searchqa.http_client import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.searchqa.loopback import (
    Play,
    answer,
    drip,
    drip_body,
    hang_up,
    scripted,
    stay_silent,
    unused_port,
)

HIT = {"document": {"id": "4", "contents": '"T"\ntext'}, "score": 2.5}
GOOD = {"result": [[HIT]]}
FOUND = (Hit(Passage("4", '"T"\ntext'), 2.5),)


def client(url: str, **options: Any) -> HttpRetriever:
    return HttpRetriever(url, **({"timeout": 20.0, "retries": 0, "backoff": 0.0} | options))


def reason(found: object) -> str:
    assert isinstance(found, SearchFailure)
    return found.reason


@pytest.mark.parametrize("wire", ["searchr1", "verl_agent"])
def test_requests_have_the_published_format(wire: str) -> None:
    def echo(connection: socket.socket, request: Any) -> None:
        queries = request.get("queries", [request.get("query")])
        hits = [[{"document": {"id": q, "contents": f"{q}\n"}, "score": 1}] for q in queries]
        answer({"result": hits})(connection, request)

    with scripted(echo) as server:
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


def test_a_large_batch_is_sent_in_several_requests() -> None:
    def count(connection: socket.socket, request: Any) -> None:
        answer({"result": [[] for _ in request["queries"]]})(connection, request)

    with scripted(count) as server:
        assert client(server.url, batch=4).search([str(i) for i in range(10)], 1) == [()] * 10
        assert sorted(len(request["queries"]) for request in server.requests) == [2, 4, 4]


def test_answers_of_other_servers_are_understood() -> None:
    plain = {"id": 12, "contents": "A\nb"}
    bare = {"document": {"contents": "A\nb"}}
    with scripted(answer({"result": [[plain, bare, HIT], []]})) as server:
        assert client(server.url).search(["x", "y"], 2) == [
            (
                Hit(Passage("12", "A\nb"), 0.0),
                Hit(Passage(hashlib.blake2b(b"A\nb", digest_size=8).hexdigest(), "A\nb"), 0.0),
            ),
            (),
        ]


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (answer(b"<html>"), "not JSON"),
        (answer(b""), "not JSON"),
        (answer(b"\xff\xfe\x00"), "not JSON"),
        (answer({"error": "no"}), "expected {'result'"),
        (answer([]), "expected {'result'"),
        (answer({"result": [HIT]}), "expected {'result'"),
        (answer({"result": []}), "0 lists for 1 queries"),
        (answer({"result": [[HIT], [HIT]]}), "2 lists for 1 queries"),
        (answer({"result": [["text"]]}), "no document"),
        (answer({"result": [[{"document": {"id": "1"}, "score": 1}]]}), "no document"),
        (answer({"result": [[{"document": {"id": "1", "contents": None}}]]}), "no document"),
        (answer(b'{"result": [[{"document": {"id": "1", "contents": "x"}, "score": NaN}]]}'), "finite number"),
        (answer({"result": [[HIT | {"score": "high"}]]}), "finite number"),
        (answer({"detail": "unprocessable"}, 422), "status 422"),
        (answer({}, 404), "status 404"),
        (answer({}, 302), "status 302"),
    ],
)
def test_a_malformed_or_refusing_server_is_a_failure_at_once(play: Play, words: str) -> None:
    with scripted(play, answer(GOOD)) as server:
        (found,) = client(server.url, retries=3).search(["q"], 3)
        assert words in reason(found)
        assert server.url in reason(found)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "play",
    [
        answer({"error": "busy"}, 503),
        answer({}, 500),
        answer({}, 429),
        hang_up,
        answer(b'{"result": [[', length=500),
        answer(b"", length=500),
    ],
)
def test_what_may_pass_is_tried_again(play: Play) -> None:
    with scripted(play, play, answer(GOOD)) as server:
        assert client(server.url, retries=2).search(["q"], 3) == [FOUND]
        assert len(server.requests) == 3
    with scripted(play) as server:
        (found,) = client(server.url, retries=2).search(["q"], 3)
        assert "3 tries" in reason(found)
        assert len(server.requests) == 3


@pytest.mark.parametrize("play", [stay_silent, drip, drip_body])
def test_a_slow_server_costs_no_more_than_the_time_limit(play: Play) -> None:
    with scripted(play) as server:
        (found,) = client(server.url, timeout=0.2, retries=1).search(["q"], 3)
        assert "no answer within 0.2 s; 2 tries" in reason(found)
        assert len(server.requests) == 2


def test_no_server_is_a_failure() -> None:
    first, second = client(f"http://127.0.0.1:{unused_port()}", retries=1).search(["a", "b"], 3)
    assert "refused" in reason(first)
    assert first == second


def test_one_failing_query_spares_the_others_of_its_batch() -> None:
    def picky(connection: socket.socket, request: Any) -> None:
        bad = request["query"] == "bad"
        answer({"error": "no"} if bad else GOOD, 400 if bad else 200)(connection, request)

    with scripted(picky) as server:
        found = client(server.url, wire="verl_agent", threads=3).search(["a", "bad", "b", "c", "d"], 3)
        assert [isinstance(each, SearchFailure) for each in found] == [False, True, False, False, False]
        assert "status 400" in reason(found[1])


def test_arguments_are_checked() -> None:
    for url in ("localhost:8000", "ftp://host/x", "http://", "http:///retrieve"):
        with pytest.raises(ValueError, match="expected the URL"):
            HttpRetriever(url)
    with pytest.raises(ValueError, match="did you mean 'searchr1'"):
        HttpRetriever("http://h", wire="searchr2")
    for wrong in ({"timeout": 0}, {"retries": -1}, {"backoff": -1}, {"batch": 0}, {"threads": 0}):
        with pytest.raises(ValueError, match="expected timeout > 0"):
            HttpRetriever("http://h", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        HttpRetriever("http://h").search(["q"], 0)
