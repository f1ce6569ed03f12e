"""A question with its golden answers, and whether a search can find one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.outside.text import DataError, clean
from agentgym.searchqa.retriever import Retriever, SearchFailure, search_all
from agentgym.searchqa.scoring import CLOSED, normalise

#: Characters of the longest question, or of an answer to it.
MOST_TEXT = 100_000
#: Questions of a search at a time.
_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        id: unique among the questions of an environment.
        text: the question.
        golds: golden answers, any of which is right; at least one, none that normalises to nothing.
        source: data set or kind it belongs to, such as "hotpotqa".
        split: such as "train".
        supports: ids of the passages that are needed for the answer, in the order in which they are best found; ()
            where they are not known.
        kind: a further distinction within the source, such as "comparison"; "" for none.
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
        """What is asked and what is right, as plain values; see `agentgym.core.TextEnv.content`."""
        return [self.source, self.text, self.golds]


def check_questions(questions: Iterable[Any]) -> tuple[Question, ...]:
    """Return questions that were given as objects, `clean`; a DataError for what is no text or has no gold."""
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
    """Say of each question whether its answer can be found.

    It can when its supporting passages are known, or when a golden answer stands, word for word after normalisation,
    in one of the first `k` passages that a search for the question finds; "yes" and "no" do not count. A search that
    fails is a RuntimeError.
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
                raise RuntimeError(f"whether {question.id!r} can be answered is not known: {hits.reason}")
            golds = [f" {normalise(gold)} " for gold in question.golds if normalise(gold) not in CLOSED]
            texts = [f" {normalise(hit.passage.contents)} " for hit in hits] if golds else []
            found.append(any(gold in text for text in texts for gold in golds))
    return found
