"""Small corpora and the recorded one, naive BM25, four passages with questions, and a server of ours."""

import json
import lzma
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.searchqa.question import Question
from agentgym.searchqa.retrieval.serve import RetrievalServer
from agentgym.searchqa.retriever import Found, Hit, Passage, Retriever, SearchFailure
from tests.agentgym.outside.chat.chat_server import serving
from tests.oracles import oracle

#: Words that are their own stems and no stop words.
WORDS = ("ka", "lo", "mi", "nu", "ro", "su", "ta", "vo")


@cache
def rows(name: str) -> list[dict[str, Any]]:
    with lzma.open(oracle("searchqa", name), "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def random_passages(count: int, seed: int, words: Sequence[str] = WORDS) -> tuple[Passage, ...]:
    """Passages of a few words each, so that many scores are equal."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        title, text = (" ".join(rng.choice(words, size=int(n))) for n in (rng.integers(1, 3), rng.integers(0, 6)))
        made.append(Passage(f"p{i}", f"{title}\n{text}"))
    return tuple(made)


def write_corpus(path: Path, passages: Sequence[Passage]) -> Path:
    path.write_text("".join(json.dumps(passage._asdict()) + "\n" for passage in passages), encoding="utf-8")
    return path


def naive_scores(passages: Sequence[Passage], query: str) -> list[float]:
    """BM25 of Robertson & Zaragoza (2009), idf = ln(1 + (N - n + 1/2) / (n + 1/2)); words of the title count thrice."""
    texts = [(p.title + " ") * 3 + p.text for p in passages]
    counts = [Counter(text.split()) for text in texts]
    lengths = [sum(count.values()) for count in counts]
    mean = sum(lengths) / len(lengths)
    scores = []
    for count, length in zip(counts, lengths, strict=True):
        score = 0.0
        for word in set(query.split()):
            n = sum(word in other for other in counts)
            idf = math.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
            tf = count[word]
            score += idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / mean))
        scores.append(score)
    return scores


ADA = Passage("ada", '"Ada Bell"\nAda Bell was born in Port Ulm.')
ULM = Passage("ulm", '"Port Ulm"\nPort Ulm is a town in the Kingdom of Zell.')
IVA = Passage("iva", '"Iva Moll"\nIva Moll taught Ada Bell.')
ZELL = Passage("zell", '"Kingdom of Zell"\nThe crown is its currency.')
PASSAGES = (ADA, ULM, IVA, ZELL)

WHERE = Question("where", "Where was Ada Bell born", ("Port Ulm", "Old Ulm"), "one_hop", "train", ("ada",))
_ASKED = "In which country was Ada Bell born?"
COUNTRY = Question("country", _ASKED, ("Kingdom of Zell",), "two_hop", "train", ("ada", "ulm"))
LOOSE = Question("loose", "Is there a sea?", ("no",), "nq", "test")
QUESTIONS = (WHERE, COUNTRY, LOOSE)


class Titles:
    """Finds the passages whose title holds a word of the query, in the order of the corpus; counts its calls."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = tuple(passages)
        self.calls: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int) -> list[Found]:
        self.calls.append(list(queries))
        return [self._find(query, k) for query in queries]

    def _find(self, query: str, k: int) -> Found:
        if query == "broken":
            return SearchFailure("the engine is broken")
        words = set(query.lower().split())
        fitting = [each for each in self.passages if words & set(each.title.lower().strip('"').split())]
        return tuple([Hit(passage, 1.0 / (i + 1)) for i, passage in enumerate(fitting[:k])])


class Gives:
    """Answers all searches with one value, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def search(self, queries: Sequence[Any], k: int) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    simulate = search


def ids(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [hit.passage.id for hit in found]


def searching(retriever: Retriever, **options: Any) -> AbstractContextManager[RetrievalServer]:
    return serving(RetrievalServer(retriever, **options))
