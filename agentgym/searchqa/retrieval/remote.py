"""A retriever in another process: queries go to a retrieval server over HTTP, in either published format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.checks import check_name
from agentgym.outside.http import HttpAnswer, HttpClient, HttpFailure
from agentgym.outside.text import DataError
from agentgym.searchqa.retrieval.formats import FORMATS, read_answer, write_request
from agentgym.searchqa.retriever import Found, SearchFailure, check_search

#: An answer of more bytes is an error.
_MOST_BYTES = 256_000_000


class HttpRetriever:
    """A retrieval server, such as Search-R1's, verl-agent's, or `python -m agentgym.searchqa.retrieval.serve`.

    A search that fails, after all its tries (see `agentgym.outside.http.HttpClient`), gives a `SearchFailure` for its
    queries and leaves the others alone. Credentials (values of `headers`, user and password and keys in the URL) are
    sent and shown nowhere, and a pickle leaves them out: a client that comes out of one, where the server wants some,
    has to be made anew.

    Args:
        url: `http://host:port/path` or https; without a path, `/retrieve`.
        wire: "searchr1" (a batch of queries in one request) or "verl_agent" (one query in each).
        timeout: seconds that one try may take, from connecting to the last byte.
        retries: further tries after a failure that may pass: no connection, time-out, a status such as 503.
        backoff: seconds before the first further try; doubled before each other one, up to 8.
        batch: most queries of one request.
        threads: most requests at a time.
        headers: sent with every request, for example `{"Authorization": "Bearer ..."}`.

    Raises:
        ImportError: when aiohttp or tenacity is not installed (the extra `http`).
        ValueError: on a URL or an argument that cannot be.
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
        if timeout <= 0 or retries < 0 or backoff < 0 or batch < 1 or threads < 1:
            raise ValueError(
                f"expected timeout > 0, retries >= 0, backoff >= 0, batch >= 1 and threads >= 1, "
                f"got {timeout}, {retries}, {backoff}, {batch} and {threads}"
            )
        self.wire = check_name(wire, FORMATS, "wire format")
        self._batch = batch if wire == "searchr1" else 1
        self._client = HttpClient(
            url, path="/retrieve", headers=headers, timeout=timeout, retries=retries, backoff=backoff,
            concurrency=threads, most_bytes=_MOST_BYTES,
        )  # fmt: skip

    @property
    def url(self) -> str:
        """Where it asks, without credentials."""
        return self._client.url

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Search for several queries, each different one once; see `Retriever.search`."""
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
        """Return what an answer gives for each query."""
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
        return SearchFailure(f"{self.url}: {self._client.tell(reason)}")

    def __deepcopy__(self, memo: dict[int, Any]) -> HttpRetriever:
        """Return the client itself: a copy of an environment in this process keeps its credentials."""
        return self

    def __repr__(self) -> str:
        return f"HttpRetriever({self.url!r}, wire={self.wire!r})"
