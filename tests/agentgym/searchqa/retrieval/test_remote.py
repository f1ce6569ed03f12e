"""What `HttpRetriever` makes of answers; tries, time limits and credentials are those of tests/agentgym/outside."""

import copy
import hashlib
import json
import pickle
from typing import Any

import pytest

from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Hit, Passage, Retriever, SearchFailure
from tests.agentgym.outside.chat.chat_server import Handler, Play, chat_server, drip_body, raw
from tests.cases import cases
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


def test_large_batches_are_split_and_other_servers_understood() -> None:
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


@cases(
    "play, words",
    (raw(b"<html>"), "not JSON"),
    (raw(b"\xff\xfe\x00"), "not JSON"),
    (answer({"error": "no"}), "expected {'result'"),
    (answer({"result": [HIT]}), "expected {'result'"),
    (answer({"result": []}), "0 lists for 1 queries"),
    (answer({"result": [[HIT], [HIT]]}), "2 lists for 1 queries"),
    (answer({"detail": "unprocessable"}, 422), "status 422"),
)
def test_a_malformed_or_refusing_server_is_a_failure_at_once(play: Play, words: str) -> None:
    with chat_server(play, GOOD) as server:
        (found,) = client(server.url, retries=3).search(["q"], 3)
        assert words in reason(found)
        assert server.url in reason(found)
        assert len(server.requests) == 1


def test_what_may_pass_is_tried_again_within_the_time_limit() -> None:
    with chat_server(drip_body) as server:
        (found,) = client(server.url, timeout=0.2, retries=1).search(["q"], 3)
        assert "no answer within 0.2 s; 2 tries of at most 0.2 s" in reason(found)
        assert len(server.requests) == 2


def test_one_failing_query_spares_the_others() -> None:
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
    for url in (
        *("localhost:8000", "ftp://host/x", "http://", "http:///retrieve", f"http://h/a b?token={KEY}"),
        *(f"http://hunter:pw12@h:port/?api_key={KEY}", "ftp://hunter:pw12@h/"),
    ):
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


def test_text_of_an_answer_is_cleaned_and_limited() -> None:
    hit = {"document": {"id": "\ud800" + "i" * 5000, "contents": "T\n\udfff\x1b[2J" + "x" * 2_000_000}, "score": 1}
    with chat_server(answer({"result": [[hit]]})) as server:
        ((found,),) = client(server.url).search(["\ud800"], 3)
        assert server.requests[0]["queries"] == ["\ufffd"]
    assert found.passage.contents.startswith("T\n\ufffd\ufffd[2Jxx")
    assert (len(found.passage.contents), len(found.passage.id)) == (1_000_000, 1_000)
    found.passage.id.encode()


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
