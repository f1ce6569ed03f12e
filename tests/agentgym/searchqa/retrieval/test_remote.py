import copy
import hashlib
import pickle
import socket
from typing import Any

import pytest

from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.searchqa.support import Play, answer, drip, drip_body, hang_up, scripted, stay_silent, unused_port
from tests.cases import cases
from tests.refusals import refuses

pytest.importorskip("aiohttp")

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


def test_large_batches_are_split_and_other_servers_understood() -> None:
    def count(connection: socket.socket, request: Any) -> None:
        answer({"result": [[] for _ in request["queries"]]})(connection, request)

    with scripted(count) as server:
        assert client(server.url, batch=4).search([str(i) for i in range(10)], 1) == [()] * 10
        assert sorted(len(request["queries"]) for request in server.requests) == [2, 4, 4]
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


@cases(
    "play, words",
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
)
def test_a_malformed_or_refusing_server_is_a_failure_at_once(play: Play, words: str) -> None:
    with scripted(play, answer(GOOD)) as server:
        (found,) = client(server.url, retries=3).search(["q"], 3)
        assert words in reason(found)
        assert server.url in reason(found)
        assert len(server.requests) == 1


@cases(
    "play",
    answer({"error": "busy"}, 503), answer({}, 500), answer({}, 429), hang_up,
    answer(b'{"result": [[', length=500), answer(b"", length=500),
)  # fmt: skip
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


def test_no_server_is_a_failure_and_one_failing_query_spares_the_others() -> None:
    first, second = client(f"http://127.0.0.1:{unused_port()}", retries=1).search(["a", "b"], 3)
    assert "refused" in reason(first)
    assert first == second
    assert reason(client(f"http://{'a' * 80}.example").search(["q"], 1)[0])
    remote = client("http://localhost", headers={"Authorization": f"Bearer {KEY}"})
    assert copy.deepcopy([remote])[0] is remote

    def picky(connection: socket.socket, request: Any) -> None:
        bad = request["query"] == "bad"
        answer({"error": "no"} if bad else GOOD, 400 if bad else 200)(connection, request)

    with scripted(picky) as server:
        found = client(server.url, wire="verl_agent", threads=3).search(["a", "bad", "b", "c", "d"], 3)
        assert [isinstance(each, SearchFailure) for each in found] == [False, True, False, False, False]
        assert "status 400" in reason(found[1])


def test_arguments_are_checked() -> None:
    for url in ("localhost:8000", "ftp://host/x", "http://", "http:///retrieve"):
        refuses(ValueError, "expected the URL", HttpRetriever, url)
    refuses(ValueError, "did you mean 'searchr1'", HttpRetriever, "http://h", wire="searchr2")
    for wrong in ({"timeout": 0}, {"retries": -1}, {"backoff": -1}, {"batch": 0}, {"threads": 0}):
        refuses(ValueError, "expected timeout > 0", HttpRetriever, "http://h", **wrong)
    refuses(ValueError, "at least 1", lambda: HttpRetriever("http://h").search(["q"], 0))


OTHER = Hit(Passage("4", '"T"\ntext'), 2.5)


@pytest.mark.parametrize(
    "score", ["1" + "0" * 400, "NaN", "-Infinity", "1e400", "1" * 19, '"high"', "true", "null", "[[]]", '{"a": 1}']
)
def test_a_damaged_hit_costs_its_query_and_spares_the_others(score: str) -> None:
    hit = f'{{"document": {{"id": "4", "contents": "\\"T\\"\\ntext"}}, "score": {score}}}'
    good = hit.replace(score, "2.5")
    with scripted(answer(f'{{"result": [[{good}], [{good}, {hit}], [{good}]]}}'.encode())) as server:
        first, second, third = client(server.url).search(["a", "b", "c"], 3)
    assert (first, third) == ((OTHER,), (OTHER,))
    assert "'score' must be a finite number" in reason(second)


@pytest.mark.parametrize(
    "document", [7, None, [], {"contents": 3}, {"id": [], "contents": "x"}, {"id": {}}, "x" * 9999]
)
def test_wrong_types_in_a_hit_are_a_failure_of_one_line(document: Any) -> None:
    with scripted(answer({"result": [[{"document": document}], [HIT]]})) as server:
        first, second = client(server.url).search(["a", "b"], 3)
    assert len(reason(first)) < 400
    assert second == (OTHER,)


def test_text_of_an_answer_is_cleaned_and_limited() -> None:
    hit = {"document": {"id": "\ud800" + "i" * 5000, "contents": "T\n\udfff\x1b[2J" + "x" * 2_000_000}, "score": 1}
    with scripted(answer({"result": [[hit]]})) as server:
        ((found,),) = client(server.url).search(["\ud800"], 3)
        assert server.requests[0]["queries"] == ["\ufffd"]
    assert found.passage.contents.startswith("T\n\ufffd\ufffd[2Jxx")
    assert (len(found.passage.contents), len(found.passage.id)) == (1_000_000, 1_000)
    found.passage.id.encode()


KEY = "sk-" + "k7" * 20


@pytest.mark.parametrize("status", [200, 401, 503])
def test_no_failure_shows_a_key(status: int) -> None:
    words = f"{'x' * 190}Authorization: Bearer {KEY}, X-Token: {KEY[::-1]}, user hunter, {KEY}"
    with scripted(answer(words.encode(), status)) as server:
        url = server.url.replace("//", "//hunter:pw12@") + f"?api_key={KEY}"
        remote = client(url, headers={"Authorization": f"Bearer {KEY}", "X-Token": KEY[::-1]})
        text = reason(remote.search(["q"], 3)[0]) + repr(remote) + remote.url
    for secret in (KEY, KEY[:8], KEY[::-1], KEY[::-1][:8], "hunter", "pw12"):
        assert secret not in text
    assert "127.0.0.1" in text


def test_a_pickle_holds_no_credentials_and_the_copy_works() -> None:
    with scripted(answer(GOOD)) as server:
        url = server.url.replace("//", "//hunter:pw12@") + f"?k=1&api_key={KEY}"
        data = pickle.dumps(client(url, headers={"Authorization": f"Bearer {KEY}", "X-Token": KEY[::-1]}))
        for secret in (KEY, KEY[::-1], "hunter", "pw12"):
            assert secret.encode() not in data
        copy = pickle.loads(data)
        assert copy.search(["q"], 3) == [FOUND]
        assert copy.url.endswith("/retrieve?k=1&api_key=***")


def test_wrong_urls_and_headers_are_refused_without_showing_them() -> None:
    for url in (
        f"http://hunter:pw12@h:port/?api_key={KEY}",
        f"http://h/a b?token={KEY}",
        f"ftp://hunter:pw12@h/{KEY[:0]}",
    ):
        with pytest.raises(ValueError, match="expected the URL") as caught:
            HttpRetriever(url)
        assert KEY not in str(caught.value)
        assert "pw12" not in str(caught.value)
    for value in (f"{KEY}\n", f"{KEY}\r\nX: y", f"{KEY}\u2026", 7):
        with pytest.raises(ValueError, match="header 'Authorization'") as caught:
            HttpRetriever("http://h", headers={"Authorization": value})  # type: ignore[dict-item]
        assert KEY not in str(caught.value)
