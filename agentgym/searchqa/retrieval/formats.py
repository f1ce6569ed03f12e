"""The two published formats of a retrieval request, and their answer, as JSON values.

* `searchr1` (Search-R1): `{"queries": [...], "topk": 3, "return_scores": true}`, a batch in one request;
* `verl_agent` (verl-agent, RewardFlow): `{"query": "...", "topk": 3, "return_scores": true}`, one query a request.

Both are answered with `{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}`, one list for each query;
without scores, the documents stand alone.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.outside.text import DataError, clean
from agentgym.searchqa.retriever import MOST_CONTENTS, MOST_ID, MOST_QUERY, Found, Hit, Passage, SearchFailure

FORMATS: tuple[str, ...] = ("searchr1", "verl_agent")
#: Most hits of one query that a request may ask for.
MOST_HITS = 1000
#: Most queries of one request.
MOST_QUERIES = 1024
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a server was sent.

    Attributes:
        queries: one or more; a `verl_agent` request has one.
        k: largest number of hits for each.
        scores: whether the answer says them.
    """

    queries: tuple[str, ...]
    k: int
    scores: bool


def write_request(wire: str, queries: Sequence[str], k: int) -> dict[str, Any]:
    """Return the request of a batch (`searchr1`) or of its only query (`verl_agent`), with scores.

    Scores are always asked for: Search-R1's own server fails without.
    """
    cleaned = [clean(query, MOST_QUERY) for query in queries]
    asked: dict[str, Any] = {"queries": cleaned} if wire == "searchr1" else {"query": cleaned[0]}
    return asked | {"topk": k, "return_scores": True}


def read_request(content: Any, default_k: int) -> Request:
    """Return what a request of either format asks for.

    Args:
        content: the JSON value.
        default_k: number of hits when the request does not say (`topk` absent, null or 0, as in Search-R1).

    Raises:
        DataError: when it is in neither format.
    """
    if not isinstance(content, dict) or ("query" in content) == ("queries" in content):
        raise DataError("expected an object with 'queries' (a list of strings) or 'query' (a string), and 'topk'")
    queries = [content["query"]] if "query" in content else content["queries"]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise DataError("'queries' must be a list of strings, 'query' a string")
    if len(queries) > MOST_QUERIES:
        raise DataError(f"{len(queries)} queries in one request, at most {MOST_QUERIES} are answered: send several")
    k = content.get("topk") or default_k
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_HITS:
        raise DataError(f"'topk' must be an integer from 1 to {MOST_HITS}, got {brief(k)}")
    scores = content.get("return_scores", False)
    if not isinstance(scores, bool):
        raise DataError(f"'return_scores' must be true or false, got {brief(scores)}")
    return Request(tuple([clean(query, MOST_QUERY) for query in queries]), k, scores)


def brief(value: Any) -> str:
    """Return the beginning of what a JSON value looks like, however large it is."""
    if isinstance(value, str):
        return f"{value[:50]!r}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, dict)) else f"{value!r:.50}"


def write_answer(request: Request, found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"result": [[_write_hit(hit, request.scores) for hit in hits] for hits in found]}


def _write_hit(hit: Hit, scores: bool) -> dict[str, Any]:
    document = {"id": clean(hit.passage.id, MOST_ID), "contents": clean(hit.passage.contents, MOST_CONTENTS)}
    return {"document": document, "score": float(hit.score)} if scores else document


def read_answer(content: Any, queries: int, k: int) -> list[Found]:
    """Return the hits of an answer, at most `k` for each query, or a failure for a query with a damaged hit.

    Servers that search the web leave out the score (0.0 here) and the id (then a digest of the contents).

    Raises:
        DataError: when it is no answer to that many queries; the message says where it departs.
    """
    result = content.get("result") if isinstance(content, dict) else None
    if not isinstance(result, list) or not all(isinstance(hits, list) for hits in result):
        got = f"an object with {sorted(content)[:5]!r:.100}" if isinstance(content, dict) else brief(content)
        raise DataError(f"expected {{'result': [[...], ...]}}, got {got}")
    if len(result) != queries:
        raise DataError(f"'result' has {len(result)} lists for {queries} queries")
    return [_read_hits(hits[:k]) for hits in result]


def _read_hits(hits: Sequence[Any]) -> Found:
    try:
        return tuple([_read_hit(hit) for hit in hits])
    except DataError as error:
        return SearchFailure(str(error))


def _read_hit(hit: Any) -> Hit:
    document = hit.get("document", hit) if isinstance(hit, dict) else None
    contents = document.get("contents") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(contents, str):
        raise DataError(f"a hit has no document with 'contents': {brief(hit)}")
    contents = clean(contents, MOST_CONTENTS)
    name = document.get("id")
    if name is None:
        name = hashlib.blake2b(contents.encode(), digest_size=8).hexdigest()
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise DataError(f"the 'id' of a document must be a string or an integer, got {brief(name)}")
    score = hit.get("score", 0.0)
    # Of numbers, only those that are finite come through `read_json`; this asks the same of any other value.
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) <= _LARGEST:
        raise DataError(f"'score' must be a finite number, got {brief(score)}")
    return Hit(Passage(clean(str(name), MOST_ID), contents), float(score))
