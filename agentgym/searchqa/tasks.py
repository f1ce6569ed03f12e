"""Questions by split, source and kind, and the retriever for them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from agentgym.checks import suggest
from agentgym.outside.text import DataError
from agentgym.searchqa.generated.encyclopaedia import Difficulty, make_harder
from agentgym.searchqa.official import read_questions
from agentgym.searchqa.question import Question, check_questions, is_answerable
from agentgym.searchqa.retrieval.engines import Corpus, find_retriever
from agentgym.searchqa.retriever import Passage, Retriever

#: In larger corpora titles of supporting passages are not looked up.
_MOST_PASSAGES = 200_000
#: Default splits, first choice first.
_FIRST = ("train", "dev", "validation", "test")


class Questions:
    """All questions, at least one, with distinct ids.

    `recipe`: a function and arguments that unpickle them; `missing`: titles of passages that are in no corpus, by id.
    """

    def __init__(
        self,
        questions: Iterable[Question],
        name: str,
        recipe: tuple[Any, ...] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        self.all = tuple(questions)
        self.missing = dict(missing or {})
        self.name = name
        self.by_id = {question.id: question for question in self.all}
        if not self.all or len(self.by_id) < len(self.all):
            twice = [named for named, times in Counter(each.id for each in self.all).items() if times > 1]
            got = f"{twice[0]!r} more than once" if twice else "none"
            raise DataError(f"{name}: expected at least one question, with distinct ids, got {got}")
        self.splits = tuple(sorted({question.split for question in self.all}))
        self.sources = tuple(sorted({question.source for question in self.all}))
        self.kinds = tuple(sorted({question.kind for question in self.all}))
        self._recipe = recipe
        self._narrowed: dict[tuple[Any, ...], QuestionTasks] = {}
        self._passages: tuple[Retriever, dict[str, Passage]] | None = None
        self._titles: tuple[Retriever, dict[str, str]] | None = None
        self._answerable: tuple[Retriever, Questions] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return self._recipe or (Questions, (self.all, self.name))

    def check(self, what: str, given: Any) -> tuple[str, ...]:
        """Return names of sources ("data_source") or kinds ("kind"), sorted; None for all."""
        known = self.sources if what == "data_source" else self.kinds
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
        """Return the default split: "train" if there is one."""
        return next((split for split in _FIRST if split in self.splits), self.splits[0])

    def narrowed(self, sources: tuple[str, ...] | None = None, kinds: tuple[str, ...] | None = None) -> QuestionTasks:
        """Return the tasks of some sources and kinds (None: all), each made once."""
        key = (sources, kinds)
        if key not in self._narrowed:
            self._narrowed[key] = QuestionTasks(self, sources, kinds)
        return self._narrowed[key]

    def titles(self, retriever: Retriever) -> dict[str, str]:
        """Return the titles of all supporting passages by id, without quotation marks."""
        if self._titles is None or self._titles[0] is not retriever:
            found = {named: each.title.strip().strip('"') for named, each in self.passages(retriever).items()}
            self._titles = (retriever, found | self.missing)
        return self._titles[1]

    def passages(self, retriever: Retriever) -> dict[str, Passage]:
        """Return the known supporting passages of all questions by id."""
        if self._passages is None or self._passages[0] is not retriever:
            wanted = {named for question in self.all for named in question.supports}
            passages = getattr(retriever, "passages", ())
            passages = () if len(passages) > _MOST_PASSAGES else passages
            self._passages = (retriever, {each.id: each for each in passages if each.id in wanted})
        return self._passages[1]

    def support_texts(self, question: Question, retriever: Retriever) -> list[str]:
        """Return the known texts of a question's supporting passages, without titles."""
        known = self.passages(retriever)
        return [known[named].text for named in question.supports if named in known]

    def search_keys(self, question: Question, retriever: Retriever) -> list[tuple[str, ...]]:
        """Return the title of each known supporting passage: the best queries."""
        known = self.titles(retriever)
        return [(known[named],) for named in question.supports if named in known]

    def answerable(self, retriever: Retriever) -> Questions:
        """Return the questions that `question.is_answerable` accepts; computed once."""
        if self._answerable is None or self._answerable[0] is not retriever:
            known = is_answerable(self.all, retriever)
            kept = [question for question, found in zip(self.all, known, strict=True) if found]
            if not kept:
                raise ValueError(f"{self.name}: its retriever finds the answer of no question")
            self._answerable = (retriever, Questions(kept, f"the answerable questions of {self.name}"))
        return self._answerable[1]


class QuestionTasks:
    """Questions of some sources and kinds (None: all) as `Tasks`; ids may be those of any question."""

    def __init__(
        self, questions: Questions, sources: tuple[str, ...] | None = None, kinds: tuple[str, ...] | None = None
    ) -> None:
        some = "" if sources is None or sources == questions.sources else f" of {', '.join(sources)}"
        some += "" if kinds is None or kinds == questions.kinds else f" of the kinds {', '.join(kinds)}"
        self.name = f"{questions.name} (those{some})" if some else questions.name
        self.splits = questions.splits
        self._questions, self._sources, self._kinds = questions, sources, kinds
        self._by_split: dict[str, list[Question]] = {split: [] for split in self.splits}
        for each in questions.all:
            if (sources is None or each.source in sources) and (kinds is None or each.kind in kinds):
                self._by_split[each.split].append(each)

    def __reduce__(self) -> tuple[Any, ...]:
        return Questions.narrowed, (self._questions, self._sources, self._kinds)

    def count(self, split: str) -> int:
        return len(self._by_split[split])

    def by_index(self, split: str, index: int) -> Question:
        return self._by_split[split][index]

    def by_id(self, task_id: str, split: str | None = None) -> Question:
        question = self._questions.by_id.get(task_id)
        if question is None:
            known = ", ".join(map(repr, islice(self._questions.by_id, 5)))
            raise ValueError(f"unknown task_id {task_id!r:.200}: {self.name} has ids such as {known}")
        if split is not None and question.split != split:
            raise ValueError(f"the question with task_id {task_id!r} is in split {question.split!r}, not in {split!r}")
        return question

    def golds(self, task_id: str) -> tuple[str, ...]:
        """Return the golden answers of a question by its id; () for an unknown id."""
        question = self._questions.by_id.get(task_id)
        return () if question is None else question.golds

    def ids(self, split: str) -> Iterator[str]:
        return (question.id for question in self._by_split[split])


def find_data(
    corpus: Corpus | None,
    questions: Any,
    retriever: str | Retriever,
    seed: int,
    answerable: bool,
    difficulty: Difficulty | None = None,
) -> tuple[Questions, Retriever]:
    """Return questions and a retriever for their corpus; by default the generated encyclopaedia.

    `corpus` and `retriever` are those of `engines.find_retriever` (no corpus if the retriever is an object or a URL),
    `questions` a file, a sequence of `Question`, or `Questions`; `seed` and `difficulty` are those of the
    encyclopaedia. `answerable` keeps the questions that `question.is_answerable` accepts.
    """
    difficulty = difficulty or Difficulty()
    if corpus is None and questions is None:
        found, corpus = _generated(seed, difficulty), make_harder(seed, difficulty)[0].passages
    else:
        if difficulty != Difficulty():
            raise ValueError(
                f"distractors={difficulty.distractors}, missing={difficulty.missing} are of the generated "
                "encyclopaedia: leave them out where corpus or questions are given"
            )
        if questions is None:
            raise ValueError(
                f"corpus={corpus!r:.100} without questions: give a file of questions too, or neither of them"
            )
        if corpus is None and isinstance(retriever, str) and not retriever.startswith(("http://", "https://")):
            raise ValueError(f"questions={questions!r:.100} without a corpus: give its file, or a retriever or its URL")
        found = _given(questions)
    engine = find_retriever(retriever, () if corpus is None else corpus)
    return (found.answerable(engine) if answerable else found), engine


def _given(questions: Any) -> Questions:
    if isinstance(questions, Questions):
        return questions
    if isinstance(questions, (str, os.PathLike)):
        return _open(Path(questions).expanduser())
    if isinstance(questions, Sequence) and all(isinstance(each, Question) for each in questions):
        return Questions(check_questions(questions), "the questions given")
    raise ValueError(f"questions must be a file, a sequence of Question or Questions, got {questions!r:.100}")


def _open(path: Path) -> Questions:
    state = path.stat() if path.is_file() else None
    return _read(path, state and (state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=8)
def _read(path: Path, state: tuple[int, int] | None) -> Questions:
    return Questions(read_questions(path), str(path), (_open, (path,)))


@lru_cache(maxsize=8)
def _generated(seed: int, difficulty: Difficulty) -> Questions:
    made, missing = make_harder(seed, difficulty)
    return Questions(made.questions, "the encyclopaedia", (_generated, (seed, difficulty)), missing)
