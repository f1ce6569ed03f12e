"""The retriever interface: queries in, ranked passages or a failure for each out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from agentgym.checks import whole
from agentgym.outside.redaction import redact
from agentgym.outside.text import clean

#: Maximum number of characters of a passage's contents and of an id.
MOST_CONTENTS, MOST_ID = 1_000_000, 1_000
#: Characters of a query that are used.
MOST_QUERY = 10_000


class Passage(NamedTuple):
    """A passage, as in a row of Search-R1's corpus files."""

    id: str
    """Unique in its corpus."""
    contents: str
    """The title in the first line, then the text."""

    @property
    def title(self) -> str:
        """First line of the contents, with quotation marks if the corpus has them."""
        return self.contents.partition("\n")[0]

    @property
    def text(self) -> str:
        """All lines but the first."""
        return self.contents.partition("\n")[2]

    def cleaned(self) -> Passage:
        """Return the passage as it is shown, see `agentgym.outside.text.clean`."""
        return Passage(clean(self.id, MOST_ID), clean(self.contents, MOST_CONTENTS))


class Hit(NamedTuple):
    """A found passage and its score; higher is better, units differ between engines."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class SearchFailure:
    """The reason why a search failed, in one sentence for logs; never shown as a document."""

    reason: str


#: Result of one query: at most k hits, best first, or the failure.
Found = tuple[Hit, ...] | SearchFailure


@runtime_checkable
class Retriever(Protocol):
    """Searches a corpus; may be called from several threads.

    Queries are plain text without syntax. Hits are sorted by falling score, ties by position in the corpus.
    """

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        """Return at most `k` hits per query, best first, or why it failed; blank queries find nothing."""


def check_search(queries: Sequence[str], k: int) -> None:
    """Raise unless queries are a sequence of strings and `k` an integer of at least 1."""
    if isinstance(queries, str) or not all(isinstance(query, str) for query in queries):
        raise TypeError(f"queries must be a sequence of strings, one for each search, got {queries!r:.100}")
    whole("k, the number of passages a query may find,", k, 1)


def search_all(retriever: Retriever, queries: Sequence[str], k: int) -> list[Found]:
    """Search each distinct query once; an `OSError` becomes failures, a wrong number of answers a RuntimeError."""
    different = list(dict.fromkeys([query[:MOST_QUERY] for query in queries]))
    answers = checked_answers(retriever.search, different, k, f"the retriever {type(retriever).__name__}")
    found = dict(zip(different, answers, strict=True))
    return [found[query[:MOST_QUERY]] for query in queries]


def checked_answers(
    search: Callable[[Sequence[Any], int], Sequence[Any]], searches: Sequence[Any], k: int, who: str
) -> list[Found]:
    """Return the answers of `search`, at most `k` hits each; errors are those of `search_all`."""
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
