"""A simulated search engine that knows the question, after ZeroSearch (Sun et al. 2025, arXiv 2505.04588)."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from agentgym.checks import Range, check_value, real, whole
from agentgym.outside.chat.wire import ChatAnswer, ChatFailure, ChatRequest
from agentgym.outside.text import clean, one_line
from agentgym.searchqa.protocol import TEXTS
from agentgym.searchqa.question import Question
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure, checked_answers, search_all
from agentgym.searchqa.scoring import normalise
from agentgym.searchqa.tasks import Questions
from agentgym.tasks import Draws


class SimulatedSearch(NamedTuple):
    """A search for a simulator.

    Attributes:
        query: plain text, not blank.
        question: of the episode, with golden answers.
        noisy: whether the documents are to be noisy.
        draw: 63 random bits; equal searches with equal draws get equal answers.
    """

    query: str
    question: Question
    noisy: bool
    draw: int


@runtime_checkable
class Simulator(Protocol):
    """Answers searches of known questions."""

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
        """Return at most `k` hits per search, best first, or why it failed."""


def search_together(
    searches: Sequence[str | SimulatedSearch], retriever: Retriever, simulator: Simulator | None, k: int
) -> list[Found]:
    """Answer searches of several episodes: queries by one retriever call, others by one simulator call."""
    queries = [search for search in searches if isinstance(search, str)]
    others = [search for search in searches if not isinstance(search, str)]
    searched = iter(search_all(retriever, queries, k) if queries else ())
    simulated = iter(simulate_all(simulator, others, k) if others and simulator is not None else ())
    return [next(searched if isinstance(search, str) else simulated) for search in searches]


def simulate_all(simulator: Simulator, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
    """Answer searches; an `OSError` and malformed hits are failures, a wrong number of answers an error."""
    return checked_answers(simulator.simulate, searches, k, f"the simulator {type(simulator).__name__}")


@dataclass(frozen=True)
class NoiseCurriculum:
    """Rising noise over training, the schedule of ZeroSearch (ValueError for parameters out of range).

        p(i) = start + (base^(i / m) - 1) / (base - 1) * (end - start)

    after i of m iterations, linear for `base=1`. A call returns reset options of `SearchQAEnv`. Defaults are published.
    """

    start: float = 0.25
    end: float = 0.5
    base: float = 4.0

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            real(name, getattr(self, name), 0.0, 1.0, expected="a probability from 0 to 1")
        check_value("base", self.base, float, Range(above=0))

    def __call__(self, iteration: int, iterations: int) -> dict[str, float]:
        """Return the reset options of an iteration from 0; after the last those of the end."""
        if iteration >= iterations:
            return {"noise": self.end}
        done = iteration / iterations
        share = done if self.base == 1.0 else (self.base**done - 1.0) / (self.base - 1.0)
        return {"noise": self.start + share * (self.end - self.start)}


def draw_of(*parts: object) -> int:
    """Return 63 bits that depend on the values, the same in every process."""
    digest = hashlib.blake2b(repr(parts).encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def simulated_search(query: str, question: Question, noise: float, luck: int, turn: int) -> SimulatedSearch:
    """Return a search that is noisy with probability `noise`, by the episode's number `luck` and the turn.

    >>> ada = Question("1", "Who wrote it?", ("Ada",), "one_hop", "test")
    >>> [sum([simulated_search("Ada", ada, p, luck, 1).noisy for luck in range(1000)]) for p in (0.0, 0.25, 1.0)]
    [0, 250, 1000]
    """
    draw = draw_of(luck, turn, query)
    return SimulatedSearch(query, question, draw_of(draw) < noise * 2**63, draw)


def check_noise(noise: object, simulator: Simulator | None) -> float | None:
    """Return the reset option `noise`, or raise a ValueError."""
    if noise is None:
        return None
    if simulator is None:
        raise ValueError(f"option noise={noise!r} without a simulator: make the environment with simulator='rule'")
    return real("option 'noise'", noise, 0.0, 1.0, expected="a probability from 0 to 1")


class RuleSimulator:
    """Answers with passages of the corpus by a rule; `retriever` looks up their texts.

    * Useful: supporting passages by the share of their title's words in the query; noisy ones if it has none.
    * Noisy: passages that support only other questions of the same source, kind and split, drawn with `draw`.
    """

    def __init__(self, questions: Questions, retriever: Retriever) -> None:
        self._made_of = questions, retriever
        self._passages = questions.passages(retriever)
        if not self._passages:
            raise ValueError(
                f"simulator='rule' needs the supporting passages of {questions.name}, and none are known: give "
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
        """Raise a ValueError unless it was made of these questions."""
        own = self._made_of[0]
        if own is not questions and any(own.by_id.get(each.id) != each for each in questions.all):
            raise ValueError(
                f"the RuleSimulator was made of the questions of {own.name}, and the environment asks others, of "
                f"{questions.name}: pass simulator='rule', which makes one of the environment's own"
            )

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
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
    """Return a simulator: an object, or that of the name "rule"; None for none."""
    if simulator == "rule":
        return RuleSimulator(questions, retriever)
    if isinstance(simulator, RuleSimulator):
        simulator.check_questions(questions)
    if simulator is None or (not isinstance(simulator, str) and isinstance(simulator, Simulator)):
        return simulator
    raise ValueError(f"simulator must be 'rule' or an object with simulate(searches, k), got {simulator!r:.100}")


_DOCUMENT = re.compile(r"^[ \t]*Doc[ \t]*(\d{1,3})[ \t]*:[ \t]*(\S.*)$", re.MULTILINE)
#: Characters used of an answer, and of a query as a title.
_MOST_READ, _MOST_TITLE = 100_000, 200


class Writer(Protocol):
    """A `ChatEndpoint`, or a policy with the same method."""

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | ChatFailure]:
        """Return the answer or failure of each request."""


class ModelSimulator:
    """Asks a model for the documents of all searches of a step at once; seeds follow from the searches' draws.

    A search without an answer or a document fails. A document's title is the quoted query, its id a digest of both.

    Args:
        writer: the model; ZeroSearch uses temperature 0.8 and at most 600 tokens, as `at` does.
        documents: number requested; None for as many as are shown. (ZeroSearch: five of both.)
        words: approximate length of each.
    """

    def __init__(self, writer: Writer, *, documents: int | None = None, words: int = 30) -> None:
        self.writer = writer
        self.documents = None if documents is None else whole("documents", documents, 1)
        self.words = whole("words", words, 1)

    @classmethod
    def at(cls, name: str, **options: Any) -> Self:
        """Make the simulator of a name `MODEL@URL`; `options` are those of `ChatEndpoint`."""
        from agentgym.outside.chat.endpoint import ChatEndpoint  # loads HTTP and SSL

        return cls(ChatEndpoint.at(name, **({"temperature": 0.8, "max_tokens": 600} | options)))

    def simulate(self, searches: Sequence[SimulatedSearch], k: int) -> list[Found]:
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
        useful = TEXTS["useful"].format(question=one_line(question.text), answer=one_line(question.golds[0]))
        quality = TEXTS["noisy"] if search.noisy else useful
        text = TEXTS["documents"].format(k=documents, words=self.words, quality=quality, query=one_line(search.query))
        return [{"role": "user", "content": text}]

    def __repr__(self) -> str:
        return f"ModelSimulator({self.writer!r}, documents={self.documents!r}, words={self.words})"


def read_documents(query: str, text: str, k: int) -> Found:
    """Return at most `k` documents of a model's answer (lines `Doc 1: ...` after any `</think>`), or a failure."""
    written = clean(text, _MOST_READ).rpartition("</think>")[2]
    texts = list(dict.fromkeys([match[2].strip() for match in _DOCUMENT.finditer(written)]))[:k]
    if not texts:
        return SearchFailure(f"the model wrote no document (a line such as `Doc 1: ...`): {written[:200]!r}")
    title = f'"{one_line(query)[:_MOST_TITLE]}"'
    return tuple([Hit(_passage(title, each), 1.0 / place) for place, each in enumerate(texts, 1)])


def _passage(title: str, text: str) -> Passage:
    contents = f"{title}\n{text}"
    return Passage(f"written-{hashlib.blake2b(contents.encode(errors='replace'), digest_size=8).hexdigest()}", contents)
