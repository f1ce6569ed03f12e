"""The client of a retrieval server, and the published wire formats.

* `searchr1` (Search-R1): `{"queries": [...], "topk": 3, "return_scores": true}`, a batch per request;
* `verl_agent` (verl-agent): `{"query": "...", "topk": 3, "return_scores": true}`, one query per request.

The answer to both is `{"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}`, one list per query, or
documents alone without scores.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.checks import check_name, whole
from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure
from agentgym.outside.text import DataError, clean
from agentgym.searchqa.retriever import MOST_ID, MOST_QUERY, Found, Hit, Passage, SearchFailure, check_search

FORMATS: tuple[str, ...] = ("searchr1", "verl_agent")
#: Maximum number of hits per query.
MOST_HITS = 1000
#: Maximum number of queries per request.
MOST_QUERIES = 1024
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Request:
    """A server's request: queries, most hits of each, and whether scores are returned."""

    queries: tuple[str, ...]
    k: int
    scores: bool


def write_request(wire: str, queries: Sequence[str], k: int) -> dict[str, Any]:
    """Return the request of a batch, with scores, since Search-R1's own server fails without them."""
    cleaned = [clean(query, MOST_QUERY) for query in queries]
    asked: dict[str, Any] = {"queries": cleaned} if wire == "searchr1" else {"query": cleaned[0]}
    return asked | {"topk": k, "return_scores": True}


def read_request(content: Any, default_k: int) -> Request:
    """Return a request of either format; `topk` absent, null or 0 is the default, as in Search-R1."""
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
    """Return the beginning of a JSON value's repr."""
    if isinstance(value, str):
        return f"{value[:50]!r}"
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, (list, dict)) else f"{value!r:.50}"


def write_answer(request: Request, found: Sequence[Sequence[Hit]]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"result": [[_write_hit(hit, request.scores) for hit in hits] for hits in found]}


def _write_hit(hit: Hit, scores: bool) -> dict[str, Any]:
    document = hit.passage.cleaned()._asdict()
    return {"document": document, "score": float(hit.score)} if scores else document


def read_answer(content: Any, queries: int, k: int) -> list[Found]:
    """Return at most `k` hits per query, or a failure for a query with a damaged hit.

    Without scores they are 0.0, without ids digests of the contents. DataError for another number of queries or form.
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
    passage = Passage("", contents).cleaned()
    name = document.get("id")
    if name is None:
        name = hashlib.blake2b(passage.contents.encode(), digest_size=8).hexdigest()
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise DataError(f"the 'id' of a document must be a string or an integer, got {brief(name)}")
    score = hit.get("score", 0.0)
    # `read_json` admits finite numbers only; this checks other values.
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) <= _LARGEST:
        raise DataError(f"'score' must be a finite number, got {brief(score)}")
    return Hit(passage._replace(id=clean(str(name), MOST_ID)), float(score))


#: Larger answers, in bytes, are an error.
_MOST_BYTES = 256_000_000


class HttpRetriever:
    """A retrieval server, such as Search-R1's, verl-agent's, or `python -m agentgym.searchqa.retrieval.serve`.

    A failed request gives a `SearchFailure` for its queries. Credentials in `headers` and URL are not shown, and
    pickles leave them out. `timeout`, `retries`, `backoff` and `headers` are those of
    `agentgym.outside.http.HttpClient`, `threads` is its `concurrency`.

    Args:
        url: `http://host:port/path` or https; without a path, `/retrieve`.
        wire: "searchr1" (a batch of queries per request) or "verl_agent" (one query).
        batch: most queries per request.
    """

    def __init__(
        self,
        url: str,
        *,
        wire: str = "searchr1",
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.5,
        batch: int = 512,
        threads: int = 8,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.wire = check_name(wire, FORMATS, "wire format")
        self._batch = whole("batch", batch, 1) if wire == "searchr1" else 1
        self._client = HttpClient(
            url, path="/retrieve", headers=headers, timeout=timeout, retries=retries, backoff=backoff,
            concurrency=threads, most_bytes=_MOST_BYTES,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The address without credentials."""
        return self._client.url

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        check_search(queries, k)
        different = list(dict.fromkeys(queries))
        parts = [different[i : i + self._batch] for i in range(0, len(different), self._batch)]
        came: dict[int, HttpAnswer | HttpFailure] = {}
        requests = [json.dumps(write_request(self.wire, part, k)).encode() for part in parts]
        self._client.post(dict(enumerate(requests)), came)
        found: dict[str, Found] = {}
        for i, part in enumerate(parts):
            found.update(zip(part, self._read(came[i], len(part), k), strict=True))
        return [found[query] for query in queries]

    def _read(self, came: HttpAnswer | HttpFailure, queries: int, k: int) -> list[Found]:
        if isinstance(came, HttpFailure):
            tries = f"; {came.attempts} tries of at most {self._client.timeout:g} s" if came.attempts > 1 else ""
            return [SearchFailure(f"{self.url}: {came.reason}{tries}")] * queries
        try:
            content = self._client.read(came, spare=True)
        except DataError as error:
            return [self._failure(f"the answer is not JSON ({error}): {self._client.beginning(came)}")] * queries
        try:
            found = read_answer(content, queries, k)
        except ValueError as error:
            return [self._failure(str(error))] * queries
        return [self._failure(each.reason) if isinstance(each, SearchFailure) else each for each in found]

    def _failure(self, reason: str) -> SearchFailure:
        return SearchFailure(f"{self.url}: {self._client.shown(reason)}")

    def __deepcopy__(self, memo: dict[int, Any]) -> HttpRetriever:
        """Return itself: a copy within this process keeps its credentials."""
        return self

    def __repr__(self) -> str:
        return f"HttpRetriever({self.url!r}, wire={self.wire!r})"
