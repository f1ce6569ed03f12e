import copy
import hashlib
import json
import pickle
from typing import Any

import pytest

from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.outside.chat.chat_server import Handler, Play, chat_server, raw
from tests.agentgym.searchqa.support import unused_port
from tests.cases import cases
from tests.refusals import refuses

pytest.importorskip("aiohttp")

HIT = {"document": {"id": "4", "contents": '"T"\ntext'}, "score": 2.5}
GOOD = {"result": [[HIT]]}
FOUND = (Hit(Passage("4", '"T"\ntext'), 2.5),)
KEY = "sk-" + "k7" * 20


def answer(content: Any, status: int = 200) -> Play:
    """Send a body (bytes, or a value as JSON) with a status."""
    return raw(content if isinstance(content, bytes) else json.dumps(content).encode(), status)


def client(url: str, **options: Any) -> HttpRetriever:
    return HttpRetriever(url, **({"timeout": 20.0, "retries": 0, "backoff": 0.0} | options))


def reason(found: object) -> str:
    assert isinstance(found, SearchFailure)
    return found.reason


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


def test_large_batches_are_split_and_other_servers_understood() -> None:
    def count(handler: Handler) -> None:
        answer({"result": [[] for _ in handler.asked["queries"]]})(handler)

    with chat_server(count) as server:
        assert client(server.url, batch=4).search([str(i) for i in range(10)], 1) == [()] * 10
        assert sorted(len(request["queries"]) for request in server.requests) == [2, 4, 4]
    plain = {"id": 12, "contents": "A\nb"}
    bare = {"document": {"contents": "A\nb"}}
    with chat_server(answer({"result": [[plain, bare, HIT], []]})) as server:
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
    with chat_server(play, answer(GOOD)) as server:
        (found,) = client(server.url, retries=3).search(["q"], 3)
        assert words in reason(found)
        assert server.url in reason(found)
        assert len(server.requests) == 1


def test_no_server_is_a_failure_and_one_failing_query_spares_the_others() -> None:
    first, second = client(f"http://127.0.0.1:{unused_port()}", retries=1).search(["a", "b"], 3)
    assert "refused" in reason(first)
    assert first == second
    with chat_server(answer({"error": "busy"}, 503)) as server:
        assert "3 tries" in reason(client(server.url, retries=2).search(["q"], 3)[0])
    assert reason(client(f"http://{'a' * 80}.example").search(["q"], 1)[0])
    remote = client("http://localhost", headers={"Authorization": f"Bearer {KEY}"})
    assert copy.deepcopy([remote])[0] is remote

    def picky(handler: Handler) -> None:
        bad = handler.asked["query"] == "bad"
        answer({"error": "no"} if bad else GOOD, 400 if bad else 200)(handler)

    with chat_server(picky) as server:
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


@pytest.mark.parametrize(
    "score", ["1" + "0" * 400, "NaN", "-Infinity", "1e400", "1" * 19, '"high"', "true", "null", "[[]]", '{"a": 1}']
)
def test_a_damaged_hit_costs_its_query_and_spares_the_others(score: str) -> None:
    hit = f'{{"document": {{"id": "4", "contents": "\\"T\\"\\ntext"}}, "score": {score}}}'
    good = hit.replace(score, "2.5")
    with chat_server(answer(f'{{"result": [[{good}], [{good}, {hit}], [{good}]]}}'.encode())) as server:
        first, second, third = client(server.url).search(["a", "b", "c"], 3)
    assert (first, third) == (FOUND, FOUND)
    assert "'score' must be a finite number" in reason(second)


@pytest.mark.parametrize(
    "document", [7, None, [], {"contents": 3}, {"id": [], "contents": "x"}, {"id": {}}, "x" * 9999]
)
def test_wrong_types_in_a_hit_are_a_failure_of_one_line(document: Any) -> None:
    with chat_server(answer({"result": [[{"document": document}], [HIT]]})) as server:
        first, second = client(server.url).search(["a", "b"], 3)
    assert len(reason(first)) < 400
    assert second == FOUND


def test_text_of_an_answer_is_cleaned_and_limited() -> None:
    hit = {"document": {"id": "\ud800" + "i" * 5000, "contents": "T\n\udfff\x1b[2J" + "x" * 2_000_000}, "score": 1}
    with chat_server(answer({"result": [[hit]]})) as server:
        ((found,),) = client(server.url).search(["\ud800"], 3)
        assert server.requests[0]["queries"] == ["\ufffd"]
    assert found.passage.contents.startswith("T\n\ufffd\ufffd[2Jxx")
    assert (len(found.passage.contents), len(found.passage.id)) == (1_000_000, 1_000)
    found.passage.id.encode()


def test_no_failure_shows_a_key_and_a_pickle_holds_none_though_its_copy_works() -> None:
    secrets = (KEY, KEY[:8], KEY[::-1], KEY[::-1][:8], "hunter", "pw12")
    headers = {"Authorization": f"Bearer {KEY}", "X-Token": KEY[::-1]}
    words = f"{'x' * 190}Authorization: Bearer {KEY}, X-Token: {KEY[::-1]}, user hunter, {KEY}"
    for status in (200, 401, 503):
        with chat_server(answer(words.encode(), status)) as server:
            remote = client(server.url.replace("//", "//hunter:pw12@") + f"?api_key={KEY}", headers=headers)
            text = reason(remote.search(["q"], 3)[0]) + repr(remote) + remote.url
        assert not [secret for secret in secrets if secret in text]
        assert "127.0.0.1" in text
    with chat_server(answer(GOOD)) as server:
        url = server.url.replace("//", "//hunter:pw12@") + f"?k=1&api_key={KEY}"
        data = pickle.dumps(client(url, headers=headers))
        assert not [secret for secret in secrets if secret.encode() in data]
        found = pickle.loads(data)
        assert found.search(["q"], 3) == [FOUND]
        assert found.url.endswith("/v1?k=1&api_key=***")
