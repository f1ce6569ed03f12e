"""Questions with golden answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.outside.text import DataError, clean
from agentgym.searchqa.retriever import Retriever, SearchFailure, search_all
from agentgym.searchqa.scoring import CLOSED, normalise

#: Maximum number of characters of a question or an answer.
MOST_TEXT = 100_000
#: Questions per search.
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        id: unique among the questions of an environment.
        text: the question.
        golds: golden answers, any of which is right; at least one, none that normalises to nothing.
        source: data set or kind, such as "hotpotqa".
        split: such as "train".
        supports: ids of the needed passages, in the best order to find them; () if unknown.
        kind: a distinction within the source, such as "comparison"; "" for none.
    """

    id: str
    text: str
    golds: tuple[str, ...]
    source: str
    split: str
    supports: tuple[str, ...] = ()
    kind: str = ""

    @property
    def content(self) -> list[Any]:
        return [self.source, self.text, self.golds]


def check_questions(questions: Iterable[Any]) -> tuple[Question, ...]:
    """Return questions given as objects, cleaned; DataError for non-texts or no golden answer."""
    checked = []
    for position, each in enumerate(questions):
        where = f"question {position} (from 0)"
        if isinstance(each.golds, str) or not any(isinstance(gold, str) and normalise(gold) for gold in each.golds):
            raise DataError(f"{where}: golds must hold at least one answer, such as ('Rome',), got {each!r:.200}")
        texts = (each.id, each.text, each.source, each.split, each.kind)
        if not all(isinstance(text, str) and len(text) <= MOST_TEXT for text in (*texts, *each.golds, *each.supports)):
            raise DataError(f"{where}: expected texts of at most {MOST_TEXT:,} characters, got {each!r:.200}")
        named, text, source, split, kind = map(clean, texts)
        golds, supports = tuple(map(clean, each.golds)), tuple(map(clean, each.supports))
        checked.append(Question(named, text, golds, source, split, supports, kind))
    return tuple(checked)


def is_answerable(questions: Sequence[Question], retriever: Retriever, *, k: int = 10) -> list[bool]:
    """Return for each question whether its supporting passages are known or a search for it finds a golden answer.

    "yes" and "no" do not count; the first `k` passages do. A failing search is a RuntimeError.
    """
    found = []
    for start in range(0, len(questions), _BATCH):
        batch = questions[start : start + _BATCH]
        open_ones = [question for question in batch if not question.supports]
        answers = iter(search_all(retriever, [question.text for question in open_ones], k) if open_ones else ())
        for question in batch:
            if question.supports:
                found.append(True)
                continue
            hits = next(answers)
            if isinstance(hits, SearchFailure):
                raise RuntimeError(f"the search for an answer to {question.id!r} failed: {hits.reason}")
            golds = [f" {normalise(gold)} " for gold in question.golds if normalise(gold) not in CLOSED]
            texts = [f" {normalise(hit.passage.contents)} " for hit in hits] if golds else []
            found.append(any(gold in text for text in texts for gold in golds))
    return found
