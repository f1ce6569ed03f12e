"""Which questions there are, by split and source, and which of them an episode asks."""

from __future__ import annotations

import numbers
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core import suggest
from agentgym.searchqa.generated.encyclopaedia import make_encyclopaedia
from agentgym.searchqa.official.questions import Question, QuestionError, check_questions, is_answerable, read_questions
from agentgym.searchqa.retrieval.engines import Corpus, find_retriever
from agentgym.searchqa.retriever import Retriever

#: In larger corpora nobody looks for the titles of supporting passages.
_MOST_PASSAGES = 200_000
#: Splits in the order in which one is chosen where nobody names one.
_FIRST = ("train", "dev", "validation", "test")


class Collection:
    """Questions in splits, in the order in which they were given.

    Args:
        questions: at least one, with distinct ids.
        name: what they are, for messages.

    >>> both = [Question("1", "Who?", ("Ada",), "nq", "dev"), Question("2", "Where?", ("Rome",), "popqa", "dev")]
    >>> [question.id for question in Collection(both, "mine").of("dev", ("popqa",))]
    ['2']
    """

    def __init__(self, questions: Iterable[Question], name: str) -> None:
        self.questions = tuple(questions)
        self.name = name
        self._by_id = {question.id: question for question in self.questions}
        if not self.questions or len(self._by_id) < len(self.questions):
            twice = [named for named, times in Counter(each.id for each in self.questions).items() if times > 1]
            got = f"{twice[0]!r} more than once" if twice else "none"
            raise QuestionError(f"{name}: expected at least one question, with ids that differ, got {got}")
        self.splits = tuple(sorted({question.split for question in self.questions}))
        self.sources = tuple(sorted({question.source for question in self.questions}))
        self.kinds = tuple(sorted({question.kind for question in self.questions}))
        self._of: dict[tuple[Any, ...], tuple[Question, ...]] = {}
        self._titles: tuple[Retriever, dict[str, str]] | None = None
        self._answerable: tuple[Retriever, Collection] | None = None

    def check_split(self, split: object) -> str:
        """Return the split's name, or raise a ValueError that lists those there are."""
        if split not in self.splits:
            raise ValueError(f"unknown split {split!r} of {self.name}; {suggest(split, self.splits)}")
        return str(split)

    def check_sources(self, sources: Any) -> tuple[str, ...]:
        """Return sources by name, sorted; None stands for all."""
        return self._check(sources, self.sources, "data_source")

    def check_kinds(self, kinds: Any) -> tuple[str, ...]:
        """Return kinds by name, sorted; None stands for all."""
        return self._check(kinds, self.kinds, "kind")

    def _check(self, given: Any, known: tuple[str, ...], what: str) -> tuple[str, ...]:
        if given is None:
            return known
        names = (given,) if isinstance(given, str) else tuple(given)
        for name in names:
            if name not in known:
                raise ValueError(f"unknown {what} {name!r} of {self.name}; {suggest(name, known)}")
        if not names:
            raise ValueError(f"no {what} is named: name at least one, or pass None for all")
        return tuple(sorted(set(names)))

    def first_split(self) -> str:
        """Return the split of episodes for which nobody names one: "train" where it is there."""
        return next((split for split in _FIRST if split in self.splits), self.splits[0])

    def of(
        self, split: str, sources: tuple[str, ...] | None = None, kinds: tuple[str, ...] | None = None
    ) -> tuple[Question, ...]:
        """Return the questions of a split that are of some sources and kinds, None for all."""
        key = (split, sources, kinds)
        if key not in self._of:
            self._of[key] = tuple(
                [
                    each
                    for each in self.questions
                    if each.split == split
                    and (sources is None or each.source in sources)
                    and (kinds is None or each.kind in kinds)
                ]
            )
        return self._of[key]

    def by_id(self, task_id: object, split: str | None = None) -> Question:
        """Return a question by its id, of any split when it is None.

        Raises:
            ValueError: when there is none.
        """
        question = self._by_id.get(task_id) if isinstance(task_id, str) else None
        if question is None:
            known = list(self._by_id)[:5]
            raise ValueError(f"unknown task_id {task_id!r}: {self.name} has ids such as {', '.join(map(repr, known))}")
        if split is not None and question.split != split:
            raise ValueError(f"the question with task_id {task_id!r} is in split {question.split!r}, not in {split!r}")
        return question

    def titles(self, retriever: Retriever) -> dict[str, str]:
        """Return the titles of all supporting passages by id, without quotation marks round them.

        They are looked up once in the retriever's `passages`, where it has them and they are not too many.
        """
        if self._titles is None or self._titles[0] is not retriever:
            wanted = {named for question in self.questions for named in question.supports}
            passages = getattr(retriever, "passages", ())
            passages = () if len(passages) > _MOST_PASSAGES else passages
            found = {each.id: each.title.strip().strip('"') for each in passages if each.id in wanted}
            self._titles = (retriever, found)
        return self._titles[1]

    def answerable(self, retriever: Retriever) -> Collection:
        """Return the questions whose answer can be found, see `questions.is_answerable`; worked out once."""
        if self._answerable is None or self._answerable[0] is not retriever:
            known = is_answerable(self.questions, retriever)
            kept = [question for question, found in zip(self.questions, known, strict=True) if found]
            if not kept:
                raise ValueError(f"{self.name}: no answer of any question stands in what its retriever finds")
            self._answerable = (retriever, Collection(kept, f"the answerable questions of {self.name}"))
        return self._answerable[1]


def choose(
    collection: Collection,
    split: str,
    sources: tuple[str, ...],
    kinds: tuple[str, ...],
    options: Mapping[str, Any],
    rng: np.random.Generator,
) -> Question:
    """Return the question for the options of a reset.

    Args:
        collection: all questions.
        split: split to use unless the options name one.
        sources: sources to choose from unless the options name one.
        kinds: kinds to choose from.
        options: `task_id`, with or without `split`; or any of `split`, `index`, `data_source`.
        rng: draws the index when the options leave it open.

    Raises:
        ValueError: when options exclude each other or name something that does not exist.
    """
    named = collection.check_split(options["split"]) if options.get("split") is not None else None
    if options.get("task_id") is not None:
        if "index" in options or "data_source" in options:
            raise ValueError(
                f"reset options {sorted(options)} name the question in more than one way: give 'task_id' (with or "
                "without 'split'), or any of 'split', 'index' and 'data_source'"
            )
        return collection.by_id(options["task_id"], named)
    split = split if named is None else named
    if options.get("data_source") is not None:
        sources = collection.check_sources(options["data_source"])
    questions = collection.of(split, sources, kinds)
    if not questions:
        raise ValueError(
            f"split {split!r} of {collection.name} has no question of the sources {', '.join(sources)} that is of a "
            "kind asked for"
        )
    index: Any = options.get("index")
    if index is None:
        index = int(rng.integers(len(questions)))
    if isinstance(index, bool) or not isinstance(index, numbers.Integral) or int(index) < 0:
        raise ValueError(f"option 'index' must be an integer of at least 0, got {index!r}")
    position = int(index)
    if position >= len(questions):
        raise ValueError(
            f"index {index} is out of range: split {split!r} of {collection.name} has {len(questions)} questions of "
            f"the sources {', '.join(sources)}, use 0 to {len(questions) - 1}"
        )
    return questions[position]


def find_data(
    corpus: Corpus | None, questions: Any, retriever: str | Retriever, seed: int, answerable: bool
) -> tuple[Collection, Retriever]:
    """Return questions and what searches their corpus; without either, those of the generated encyclopaedia.

    Args:
        corpus: see `engines.find_retriever`; None where the retriever is an object or a URL.
        questions: a file, a sequence of `Question`, or a `Collection`.
        retriever: see `engines.find_retriever`.
        seed: of the encyclopaedia.
        answerable: keep only the questions whose answer can be found, see `questions.is_answerable`.

    Raises:
        ValueError: when one of them is missing or cannot be read.
    """
    if corpus is None and questions is None:
        made = make_encyclopaedia(seed)
        collection, corpus = _generated(seed), made.passages
    else:
        if questions is None:
            raise ValueError(
                f"corpus={corpus!r:.100} without questions: give a file of questions too, or neither of them"
            )
        if corpus is None and isinstance(retriever, str) and not retriever.startswith(("http://", "https://")):
            raise ValueError(f"questions={questions!r:.100} without a corpus: give its file, or a retriever or its URL")
        collection = _collection(questions)
    found = find_retriever(retriever, () if corpus is None else corpus)
    return (collection.answerable(found) if answerable else collection), found


def _collection(questions: Any) -> Collection:
    if isinstance(questions, Collection):
        return questions
    if isinstance(questions, (str, os.PathLike)):
        path = Path(questions).expanduser()
        state = path.stat() if path.is_file() else None
        return _read(path, state and (state.st_size, state.st_mtime_ns))
    if isinstance(questions, Sequence) and all(isinstance(each, Question) for each in questions):
        return Collection(check_questions(questions), "the questions given")
    raise ValueError(f"questions must be a file, a sequence of Question or a Collection, got {questions!r:.100}")


@lru_cache(maxsize=8)
def _read(path: Path, state: tuple[int, int] | None) -> Collection:
    return Collection(read_questions(path), str(path))


@lru_cache(maxsize=8)
def _generated(seed: int) -> Collection:
    return Collection(make_encyclopaedia(seed).questions, "the encyclopaedia")
