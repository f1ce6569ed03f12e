"""A simulated search engine: it knows the question, and brings documents that are useful or noisy.

ZeroSearch (Sun et al. 2025, arXiv 2505.04588) trains a policy to search without an engine: for every search a language
model that knows question and answer writes useful documents, or noisy ones with a probability that rises over training
(`NoiseCurriculum`). A `Simulator` takes searches and returns what a retriever returns: `RuleSimulator` needs no model,
`ModelSimulator` asks one. Its prompts have the parts of ZeroSearch's prompted engine in words of our own; noisy
documents are written from the query alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from agentgym.checks import real, suggest, whole
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.outside.text import clean, one_line
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure, checked_answers, search_all
from agentgym.searchqa.scoring import normalise
from agentgym.searchqa.tasks import Questions
from agentgym.tasks import Draws

#: Simulators that are known by name.
SIMULATORS = ("rule",)


class SimulatedSearch(NamedTuple):
    """A search as a simulator sees it.

    Attributes:
        query: plain text, not blank.
        question: of the episode, with its golden answers.
        noisy: whether the documents are to be noisy.
        draw: a number of 63 bits for all that is drawn in answering it; equal searches with equal draws are answered
            alike.
    """

    query: str
    question: Question
    noisy: bool
    draw: int


@runtime_checkable
class Simulator(Protocol):
    """Anything that answers searches whose question it knows."""

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
        """Answer several searches: for each at most `k` hits, best first, or why there are none."""


def search_together(
    searches: Sequence[str | SimulatedSearch], retriever: Retriever, simulator: Simulator | None, k: int
) -> list[Found]:
    """Answer searches of several episodes with one call each: queries by the retriever, others by the simulator."""
    queries = [search for search in searches if isinstance(search, str)]
    others = [search for search in searches if not isinstance(search, str)]
    searched = iter(search_all(retriever, queries, k) if queries else ())
    simulated = iter(simulate_all(simulator, others, k) if others and simulator is not None else ())
    return [next(searched if isinstance(search, str) else simulated) for search in searches]


def simulate_all(simulator: Simulator, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
    """Answer searches; an `OSError` and what holds no hits are failures, another number of answers is an error."""
    return checked_answers(simulator.simulate, searches, k, f"the simulator {type(simulator).__name__}")


@dataclass(frozen=True)
class NoiseCurriculum:
    """Rising noise over training, the schedule of ZeroSearch.

        p(i) = start + (base^(i / m) - 1) / (base - 1) * (end - start)

    after i of m iterations: slow at first and fast at the end where base is above 1. A call returns reset options of
    `SearchQAEnv`. The defaults are those of the published commands (start, end) and code (base).

    Attributes:
        start: probability of noisy documents in the first iteration, 0 to 1.
        end: the same behind the last one.
        base: above 0; 1 is a straight line.

    Raises:
        ValueError: one of them is out of range.

    >>> NoiseCurriculum()(100, 200)  # 0.25 + (4^0.5 - 1) / 3 * 0.25
    {'noise': 0.3333333333333333}
    """

    start: float = 0.25
    end: float = 0.5
    base: float = 4.0

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            real(name, getattr(self, name), 0.0, 1.0, expected="a probability from 0 to 1")
        if real("base", self.base, 0.0, expected="a number above 0") == 0.0:
            raise ValueError(f"base must be a number above 0, got {self.base!r}")

    def __call__(self, iteration: int, iterations: int) -> dict[str, float]:
        """Return the reset options of an iteration, from 0; from `iterations` on those of the end."""
        if iteration >= iterations:
            return {"noise": self.end}
        done = iteration / iterations
        share = done if self.base == 1.0 else (self.base**done - 1.0) / (self.base - 1.0)
        return {"noise": self.start + share * (self.end - self.start)}


def draw_of(*parts: object) -> int:
    """Return a number of 63 bits for some values, the same in every process.

    >>> draw_of(1, "Ada") == draw_of(1, "Ada"), draw_of(1, "Ada") == draw_of(2, "Ada")
    (True, False)
    """
    digest = hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def simulated_search(query: str, question: Question, noise: float, luck: int, turn: int) -> SimulatedSearch:
    """Return a search as a simulator sees it: noisy with probability `noise`, by an episode's number and the turn.

    >>> ada = Question("1", "Who wrote it?", ("Ada",), "one_hop", "test")
    >>> [sum([simulated_search("Ada", ada, p, luck, 1).noisy for luck in range(1000)]) for p in (0.0, 0.25, 1.0)]
    [0, 250, 1000]
    """
    draw = draw_of(luck, turn, query)
    return SimulatedSearch(query, question, draw_of(draw) < noise * 2**63, draw)


def check_noise(noise: object, simulator: Simulator | None) -> float | None:
    """Return the reset option `noise` of an environment with this simulator, or raise a ValueError."""
    if noise is None:
        return None
    if simulator is None:
        raise ValueError(f"option noise={noise!r} without a simulator: make the environment with simulator='rule'")
    return real("option 'noise'", noise, 0.0, 1.0, expected="a probability from 0 to 1")


class RuleSimulator:
    """Answers with passages of the corpus by a rule; no engine, no model.

    * Useful: the supporting passages of the question of whose title the query names a word, those first of whose title
      it names the larger share; ties in the order of `Question.supports`. A query that names none gets noisy ones.
    * Noisy: passages that support other questions of the same source, kind and split, and not this one, drawn with the
      search's `draw`: of the same form, and of no use.

    Args:
        questions: all that may be asked; at least one of them with supporting passages that are there.
        retriever: one with `passages`, where their texts are looked up.
    """

    def __init__(self, questions: Questions, retriever: Retriever) -> None:
        self._made_of = questions, retriever
        self._passages = questions.passages(retriever)
        if not self._passages:
            raise ValueError(
                f"simulator='rule' answers with the supporting passages of {questions.name}, and knows none: give "
                "questions with supporting passages and a retriever that has `passages` (the default has), or a "
                "ModelSimulator"
            )
        pools: dict[tuple[str, ...], dict[str, None]] = {}
        for each in questions.all:
            there = [named for named in each.supports if named in self._passages]
            pools.setdefault(_alike(each), {}).update(dict.fromkeys(there))
        self._pools = {key: tuple(pool) for key, pool in pools.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return RuleSimulator, self._made_of

    def check_questions(self, questions: Questions) -> None:
        """Raise a ValueError unless it was made of these questions, or of more."""
        own = self._made_of[0]
        if own is not questions and any(own.by_id.get(each.id) != each for each in questions.all):
            raise ValueError(
                f"the RuleSimulator was made of the questions of {own.name}, and the environment asks others, of "
                f"{questions.name}: pass simulator='rule', which makes one of the environment's own"
            )

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
        """Answer searches; a question whose supporting passages are not known is a failed search."""
        return [self._answer(search, k) for search in searches]

    def _answer(self, search: SimulatedSearch, k: int) -> Found:
        if not any(named in self._passages for named in search.question.supports):
            return SearchFailure(f"no supporting passage of the question {search.question.id!r} is known")
        found = () if search.noisy else self._useful(search)
        passages = [self._passages[named] for named in found or self._noisy(search, k)][:k]
        return tuple([Hit(passage, 1.0 / place) for place, passage in enumerate(passages, 1)])

    def _useful(self, search: SimulatedSearch) -> tuple[str, ...]:
        asked = set(normalise(search.query).split())
        shares = {}
        for named in search.question.supports:
            if named in self._passages:
                title = set(normalise(self._passages[named].title).split())
                shares[named] = len(asked & title) / max(len(title), 1)
        return tuple(sorted([named for named, share in shares.items() if share], key=lambda named: -shares[named]))

    def _noisy(self, search: SimulatedSearch, k: int) -> list[str]:
        pool = self._pools[_alike(search.question)]
        draws, chosen = Draws.seeded(search.draw), dict[str, None]()
        own = set(search.question.supports)
        most = min(k, len(pool) - sum([named in own for named in pool]))
        while len(chosen) < most:
            named = draws.pick(pool)
            if named not in own:
                chosen[named] = None
        return list(chosen)


def _alike(question: Question) -> tuple[str, ...]:
    return question.source, question.kind, question.split


def find_simulator(simulator: str | Simulator | None, questions: Questions, retriever: Retriever) -> Simulator | None:
    """Return a simulator: itself when it is one, or the one of that name; None for none."""
    if simulator == "rule":
        return RuleSimulator(questions, retriever)
    if isinstance(simulator, RuleSimulator):
        simulator.check_questions(questions)
    if simulator is None or (not isinstance(simulator, str) and isinstance(simulator, Simulator)):
        return simulator
    known = suggest(simulator, SIMULATORS) if isinstance(simulator, str) else f"known: {', '.join(SIMULATORS)}"
    raise ValueError(
        f"simulator must be a name or an object with simulate(searches, k), got {simulator!r:.100}; {known}"
    )


_FORM = (
    "Write {k} short documents as a search engine would list them for the query, of about {words} words each. "
    "{quality} Answer with nothing but the documents, one a line, as in\nDoc 1: the text of the first\nDoc 2: the text "
    "of the second\n\nQuery: {query}\n"
)
_USEFUL = (
    'They are useful: somebody who wants to know "{question}" (the answer is {answer}) finds in them what the query '
    "asks for."
)
_NOISY = "They are noisy: they have to do with the words of the query, and hold nothing of what it asks for."
_DOCUMENT = re.compile(r"^[ \t]*Doc[ \t]*(\d{1,3})[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)
#: Characters of an answer that are read, and of a query that becomes a title.
_MOST_READ, _MOST_TITLE = 100_000, 200


class Writer(Protocol):
    """Who is asked: a `ChatEndpoint`, or a policy behind the same method."""

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return what is answered to each request, or why there is no answer."""


class ModelSimulator:
    """Asks a model for the documents of all searches of a step at the same time; see `Simulator`.

    Every request has a seed that follows from the search's draw. What the endpoint does not answer, and an answer
    without a document, is a failed search. A document's title is the query in quotation marks, its id a digest of both.

    Args:
        writer: who is asked. ZeroSearch samples at a temperature of 0.8 and 600 tokens at most, see `at`.
        documents: how many are asked for; None for as many as are shown. (ZeroSearch asks for five and shows five.)
        words: about how many each is to have.
    """

    def __init__(self, writer: Writer, *, documents: int | None = None, words: int = 30) -> None:
        self.writer = writer
        self.documents = None if documents is None else whole("documents", documents, 1)
        self.words = whole("words", words, 1)

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the simulator that a name stands for, `MODEL@URL`; `options` are those of `ChatEndpoint`."""
        from agentgym.outside.chat.endpoint import ChatEndpoint  # with HTTP and SSL

        return cls(ChatEndpoint.at(name, **({"temperature": 0.8, "max_tokens": 600} | options)))

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
        """Answer searches; see `Simulator.simulate`."""
        count = self.documents or k
        answers = self.writer.ask([ChatRequest(self.messages(each, count), each.draw >> 32) for each in searches])
        return [
            SearchFailure(answer.reason)
            if isinstance(answer, ChatFailure)
            else read_documents(each.query, answer.text, k)
            for each, answer in zip(searches, answers, strict=True)
        ]

    def messages(self, search: SimulatedSearch, documents: int) -> list[dict[str, str]]:
        """Return what the model is asked for a search."""
        question = search.question
        useful = _USEFUL.format(question=one_line(question.text), answer=one_line(question.golds[0]))
        quality = _NOISY if search.noisy else useful
        text = _FORM.format(k=documents, words=self.words, quality=quality, query=one_line(search.query))
        return [{"role": "user", "content": text}]

    def __repr__(self) -> str:
        return f"ModelSimulator({self.writer!r}, documents={self.documents!r}, words={self.words})"


def read_documents(query: str, text: str, k: int) -> Found:
    r"""Return the documents in a model's answer (lines `Doc 1: ...` after any `</think>`), at most `k`, or a failure.

    >>> found = read_documents("Ada", "Sure!\nDoc 1: Ada wrote.\nDoc 2: So she did.\nDoc 3: Yes.", 2)
    >>> [hit.passage.contents for hit in found]
    ['"Ada"\nAda wrote.', '"Ada"\nSo she did.']
    """
    written = clean(text, _MOST_READ).rpartition("</think>")[2]
    texts = list(dict.fromkeys([match[2].strip() for match in _DOCUMENT.finditer(written)]))[:k]
    if not texts:
        return SearchFailure(f"the model wrote no document (a line such as `Doc 1: ...`): {written[:200]!r}")
    title = f'"{one_line(query)[:_MOST_TITLE]}"'
    return tuple([Hit(_passage(title, each), 1.0 / place) for place, each in enumerate(texts, 1)])


def _passage(title: str, text: str) -> Passage:
    contents = f"{title}\n{text}"
    return Passage(f"written-{hashlib.blake2b(contents.encode(errors='replace'), digest_size=8).hexdigest()}", contents)
