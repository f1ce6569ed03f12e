"""Trials of what comes over a connection: answers of endpoints and retrievers, requests to the search server."""

import json
import socket
import urllib.request
import warnings
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.outside.chat.endpoint import ChatEndpoint
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.searchqa.retrieval.lexical import LexicalRetriever
from agentgym.searchqa.retrieval.remote import HttpRetriever
from agentgym.searchqa.retriever import Passage, SearchFailure
from policies.engines.judge import JudgeScorer
from tests.agentgym.outside.chat import chat_server
from tests.agentgym.searchqa.support import searching
from tests.playing import walks
from tests.robustness.damage import accidents, damaged
from tests.robustness.trial import Trial, json_values, pieces, record, text_of

KEY = "sk-Zq7-secret-key"
COMPLETION = chat_server.completion("<action>up</action>")
FOUND = json.dumps(
    {"result": [[{"document": {"id": "p1", "contents": '"Ada"\nBorn.'}, "score": 1.5}] * 2]}, indent=1
).encode()

_drawn = {"text": pieces, "value": json_values, "damage": accidents, "said": pieces, "content": json_values}
bodies = st.one_of(*[st.tuples(st.just(kind), what) for kind, what in _drawn.items()], st.just(("key", None)))
answers = record(
    body=bodies,
    status=st.sampled_from([200, 200, 200, 200, 201, 204, 301, 307, 400, 401, 404, 413, 429, 500, 503]),
    length=st.sampled_from([0, 0, 0, 0, -1, -7, 1, 1000]),
    headers=st.dictionaries(
        st.sampled_from(["Retry-After", "Location", "Content-Encoding", "Content-Type", "X-Any", "Set-Cookie"]),
        st.sampled_from(["0", "-1", "9" * 30, "nan", "gzip", "text/html", "http://127.0.0.1:1/", "a" * 70_000]),
        max_size=2,
    ),
)


def body_of(made: list[Any], whole: bytes) -> bytes:
    """The bytes of an answer."""
    kind, what = made
    if kind == "text":
        return text_of(what).encode("utf-8", "surrogatepass")
    if kind == "value":
        return json.dumps(what).encode()
    if kind == "damage":
        return damaged(whole, what)
    if kind == "key":
        return json.dumps({"error": {"message": f"wrong key {KEY} at http://u:{KEY}@h/?api_key={KEY}"}}).encode()
    found = json.loads(whole)
    said = text_of(what) if kind == "said" else what
    if "choices" in found:
        found["choices"][0]["message"]["content"] = said
    else:
        found["result"][0][0]["document"]["contents"] = said
    return json.dumps(found).encode()


def answered(answer: dict[str, Any], whole: bytes) -> tuple[bytes, int, int | None]:
    """Body, status and the length that is claimed of an answer."""
    body = body_of(answer["body"], whole)
    return body, answer["status"], max(len(body) + answer["length"], 0) if answer["length"] else None


def check_endpoint(given: list[dict[str, Any]]) -> None:
    """Every request has an answer or a failure, none of which raises, holds the key, or cannot be written down."""
    plays = []
    for answer in given:
        headers = {name.replace("-", "_"): value for name, value in answer["headers"].items()}
        plays.append(chat_server.raw(*answered(answer, COMPLETION), **headers))
    with chat_server.chat_server(*plays) as server:
        endpoint = ChatEndpoint("m", server.url, api_key=KEY, timeout=1.0, retries=0)
        found = endpoint.ask([ChatRequest(({"role": "user", "content": f"{i}"},)) for i in range(len(given))])
    assert len(found) == len(given)
    for each in found:
        assert isinstance(each, (ChatAnswer, ChatFailure))
        if isinstance(each, ChatAnswer):
            each.text.encode("utf-8")
            assert 0 <= each.prompt_tokens < 1e12
            assert 0 <= each.completion_tokens < 1e12
        else:
            check_reason(each.reason, repr(each))
    assert KEY not in repr(endpoint)


def check_reason(reason: str, shown: str) -> None:
    """What failed can be written down, is short, and does not tell the key."""
    reason.encode("utf-8")
    assert KEY not in shown
    assert len(reason) < 3_000


def check_judge(given: dict[str, Any]) -> None:
    """Every step has a score in the range or none; nothing raises or tells the key."""
    play = chat_server.raw(*answered(given, chat_server.completion('{"1": 2, "2": null, "3": -5}')))
    with chat_server.chat_server(play) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        judge = JudgeScorer(ChatEndpoint("m", server.url, api_key=KEY, timeout=1.0, retries=0, temperature=0))
        scores = judge.scores(walks({"a": "x up y up z up x"}))
    assert (np.isnan(scores) | (np.abs(scores) <= 5)).all()
    assert (judge.counts.unscored, len(judge.failures)) == (np.isnan(scores).sum(), judge.counts.failed)
    for reason in judge.failures:
        check_reason(reason, reason if given["body"][0] == "key" else "")


def check_retriever(given: dict[str, Any]) -> None:
    """A search that fails is a failure value; what is found can be written down."""
    with chat_server.chat_server(chat_server.raw(*answered(given, FOUND))) as server:
        retriever = HttpRetriever(server.url, timeout=1.0, retries=0, headers={"Authorization": f"Bearer {KEY}"})
        (found,) = retriever.search(["ada"], 2)
    if isinstance(found, SearchFailure):
        check_reason(repr(found), repr(found))
    else:
        for hit in found:
            f"{hit.passage.id}{hit.passage.contents}".encode()
            assert len(hit.passage.contents) <= 1_000_000


@cache
def lexical() -> LexicalRetriever:
    return LexicalRetriever(tuple(Passage(f"p{i}", f'"Ada {i}"\nAda {i} was born in Ulm.') for i in range(8)))


requests = record(
    method=st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "X" * 70_000, "", "POST / HTTP/9.9\r\n"]),
    path=st.sampled_from(["/retrieve", "/retrieve", "/", "/../../etc/passwd", "/\x00", "/" + "a" * 70_000]),
    host=st.sampled_from(["", "127.0.0.1", "evil.example", "localhost:80", "\xff"]),
    length=st.sampled_from(["", "", "", "-1", "9" * 30, "0", "x", "5"]),
    body=st.one_of(
        st.builds(lambda made: ["text", made], pieces),
        st.builds(lambda made: ["value", made], json_values),
        st.builds(lambda made, k: ["value", {"queries": made, "topk": k}], st.lists(json_values), json_values),
        st.builds(
            lambda made, k: ["value", {"queries": [text_of(made, 20_000)], "topk": k, "return_scores": True}],
            pieces,
            st.sampled_from([1, 3, 10**9, -1, None]),
        ),
    ),
)


def check_server(given: list[dict[str, Any]]) -> None:
    """Whatever is sent, the next proper request is answered."""
    with searching(lexical()) as server:
        address = server.server_address[:2]
        for request in given:
            body = body_of(request["body"], FOUND)
            length = request["length"] or str(len(body))
            head = f"{request['method']} {request['path']} HTTP/1.1\r\nHost: {request['host'] or address[0]}\r\n"
            with socket.create_connection(address, timeout=5) as connection:
                connection.settimeout(0.2)
                try:
                    connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode("latin-1", "replace") + body)
                    connection.recv(1000)
                except OSError:
                    pass
        proper = urllib.request.Request(
            server.url, json.dumps({"queries": ["ada ulm"], "topk": 2, "return_scores": True}).encode()
        )
        with urllib.request.urlopen(proper, timeout=10) as answer:
            assert len(json.load(answer)["result"][0]) == 2


TRIALS = [
    Trial("network/endpoint", st.lists(answers, min_size=1, max_size=3), check_endpoint, 25, needs=("openai",)),
    Trial("network/judge", answers, check_judge, 40, needs=("aiohttp",)),
    Trial("network/retriever", answers, check_retriever, 40),
    Trial("network/server", st.lists(requests, min_size=1, max_size=3), check_server, 12),
]
