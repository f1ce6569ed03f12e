"""The interface of every retriever: a batch of queries in, for each query its ranked passages or a failure out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentgym.outside.redaction import redact

#: Longest contents of a passage and longest id, in characters.
MOST_CONTENTS, MOST_ID = 1_000_000, 1_000
#: Characters of a query that are searched for.
MOST_QUERY = 10_000


class Passage(NamedTuple):
    r"""A passage of a corpus, as in a row of Search-R1's corpus files.

    >>> passage = Passage("7", '"Ada"\nAda wrote\nnotes.')
    >>> passage.title, passage.text
    ('"Ada"', 'Ada wrote\nnotes.')
    """

    id: str
    """Name of the passage, unique in its corpus."""
    contents: str
    """The title in the first line, the text in the others."""

    @property
    def title(self) -> str:
        """First line of the contents, with its quotation marks where the corpus has them."""
        return self.contents.partition("\n")[0]

    @property
    def text(self) -> str:
        """All lines of the contents but the first."""
        return self.contents.partition("\n")[2]


class Hit(NamedTuple):
    """A passage that a search found, with its score: the higher, the better; of no unit that engines share."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class SearchFailure:
    """A search that could not be carried out; its reason is one sentence for logs, never to be shown as a document."""

    reason: str


#: What a search gives for one query: at most k hits, best first, or the failure.
Found = tuple[Hit, ...] | SearchFailure


@runtime_checkable
class Retriever(Protocol):
    """Anything that searches a corpus.

    The order of hits is deterministic: by falling score, ties by position in the corpus. A query is plain text: no
    character of it is query syntax. `search` may be called from several threads at once.
    """

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Search for several queries at once.

        Args:
            queries: plain text; blank ones find nothing.
            k: largest number of hits for each query, at least 1.

        Returns:
            For each query, in order, at most `k` hits, best first, or why the search failed.
        """


def check_search(queries: Sequence[str], k: int) -> None:
    """Raise unless queries are a sequence of strings, and `k` an integer of at least 1."""
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise TypeError(f"queries must be a sequence of strings, one for each search, got {queries!r:.100}")
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k, the number of passages a query may find, must be an integer of at least 1, got {k!r}")


def search_all(retriever: Retriever, queries: Sequence[str], k: int) -> list[Found]:
    """Search for each different query once; an `OSError` fails, another number of answers is a RuntimeError."""
    different = list(dict.fromkeys([query[:MOST_QUERY] for query in queries]))
    found = dict(
        zip(
            different,
            checked_answers(retriever.search, different, k, f"the retriever {type(retriever).__name__}"),
            strict=True,
        )
    )
    return [found[query[:MOST_QUERY]] for query in queries]


def checked_answers(
    search: Callable[[Sequence[Any], int], Sequence[Any]], searches: Sequence[Any], k: int, who: str
) -> list[Found]:
    """Return what `search` answers, each at most `k` hits; an `OSError` fails all, another number is a RuntimeError."""
    try:
        answers = list(search(searches, k))
    except OSError as error:
        answers = [SearchFailure(redact(f"{type(error).__name__}: {error}"))] * len(searches)
    if len(answers) != len(searches):
        raise RuntimeError(f"{who} gave {len(answers)} answers to {len(searches)} searches")
    return [_checked_hits(answer, k, who) for answer in answers]


def _checked_hits(answer: Any, k: int, who: str) -> Found:
    if isinstance(answer, SearchFailure):
        return answer
    try:
        found = tuple(answer[:k])
        fine = all(isinstance(hit.passage.id, str) and isinstance(hit.passage.contents, str) for hit in found)
        hash(found)
    except (AttributeError, TypeError, KeyError):
        fine = False
    return found if fine else SearchFailure(f"{who} answered {type(answer).__name__} that holds no hits")
