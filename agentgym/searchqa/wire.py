"""The two published formats of a retrieval request, and their answer, as JSON values.

* `searchr1` (Search-R1): `{"queries": [...], "topk": 3, "return_scores": true}`, a batch in one request;
* `verl_agent` (verl-agent, RewardFlow): `{"query": "...", "topk": 3, "return_scores": true}`, one query a request.

Both are answered with `{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}`, one list for each query;
without scores, the documents stand alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.searchqa.retriever import Hit, Passage

FORMATS: tuple[str, ...] = ("searchr1", "verl_agent")
#: Most hits of one query that a request may ask for.
MOST_HITS = 1000


class WireError(ValueError):
    """A request or an answer that is in neither format."""


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
    asked: dict[str, Any] = {"queries": list(queries)} if wire == "searchr1" else {"query": queries[0]}
    return asked | {"topk": k, "return_scores": True}


def read_request(content: Any, default_k: int) -> Request:
    """Return what a request of either format asks for.

    Args:
        content: the JSON value.
        default_k: number of hits when the request does not say (`topk` absent, null or 0, as in Search-R1).

    Raises:
        WireError: when it is in neither format.
    """
    if not isinstance(content, dict) or ("query" in content) == ("queries" in content):
        raise WireError("expected an object with 'queries' (a list of strings) or 'query' (a string), and 'topk'")
    queries = [content["query"]] if "query" in content else content["queries"]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise WireError("'queries' must be a list of strings, 'query' a string")
    k = content.get("topk") or default_k
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_HITS:
        raise WireError(f"'topk' must be an integer from 1 to {MOST_HITS}, got {k!r:.50}")
    scores = content.get("return_scores", False)
    if not isinstance(scores, bool):
        raise WireError(f"'return_scores' must be true or false, got {scores!r:.50}")
    return Request(tuple(queries), k, scores)


def write_answer(request: Request, found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"result": [[_write_hit(hit, request.scores) for hit in hits] for hits in found]}


def _write_hit(hit: Hit, scores: bool) -> dict[str, Any]:
    document = {"id": hit.passage.id, "contents": hit.passage.contents}
    return {"document": document, "score": hit.score} if scores else document


def read_answer(content: Any, queries: int, k: int) -> list[tuple[Hit, ...]]:
    """Return the hits of an answer, at most `k` for each query.

    Servers that search the web leave out the score (0.0 here) and the id (then a digest of the contents).

    Raises:
        WireError: when it is no answer to that many queries; the message says where it departs.
    """
    result = content.get("result") if isinstance(content, dict) else None
    if not isinstance(result, list) or not all(isinstance(hits, list) for hits in result):
        raise WireError(f"expected {{'result': [[...], ...]}}, got {content!r:.200}")
    if len(result) != queries:
        raise WireError(f"'result' has {len(result)} lists for {queries} queries")
    return [tuple([_read_hit(hit) for hit in hits[:k]]) for hits in result]


def _read_hit(hit: Any) -> Hit:
    document = hit.get("document", hit) if isinstance(hit, dict) else None
    contents = document.get("contents") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(contents, str):
        raise WireError(f"a hit has no document with 'contents': {hit!r:.200}")
    name = document.get("id")
    if name is None:
        name = hashlib.blake2b(contents.encode(errors="replace"), digest_size=8).hexdigest()
    score = hit.get("score", 0.0)
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        raise WireError(f"'score' must be a finite number, got {score!r:.50}")
    return Hit(Passage(str(name), contents), float(score))
