"""Scores of answers and rewards of searches, by the published scripts (SQuAD, HotpotQA, Search-R1, StepSearch)."""

import hashlib
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from agentgym.checks import real
from agentgym.searchqa.protocol import blocks

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_TAG = re.compile(r"(</?(?:think|search|information|answer)>)")
#: Maximum number of characters of a text whose normal form is cached.
_SHORT = 300
#: Answers that F1 counts only whole, as HotpotQA's script does.
CLOSED = frozenset({"yes", "no", "noanswer"})

#: Tags of a well-formed transcript: state -> tag -> next state. Text occurs inside blocks only.
_GRAMMAR: dict[str, dict[str, str]] = {
    "start": {"<think>": "in think"},
    "in think": {"</think>": "thought"},
    "thought": {"<search>": "in search", "<answer>": "in answer"},
    "in search": {"</search>": "searched"},
    "searched": {"<information>": "in information"},
    "in information": {"</information>": "start"},
    "in answer": {"</answer>": "end"},
    "end": {},
}


def normalise(text: str) -> str:
    """Lower-case, delete ASCII punctuation (hyphens too), drop articles, collapse white space.

    >>> normalise(" The  T-shirt, of an “Élan”!"), normalise("an-apple"), normalise("A")
    ('tshirt of “élan”', 'anapple', '')
    """
    return _remembered(text) if len(text) <= _SHORT else _normalised(text)


def _normalised(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


#: Short texts only, which bounds the cache.
_remembered = lru_cache(maxsize=65536)(_normalised)


def countable(golds: Iterable[str]) -> tuple[str, ...]:
    """Return the golden answers that normalise to something, unchanged and in order."""
    return tuple([gold for gold in golds if normalise(gold)])


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether the normalised answer equals a normalised golden answer."""
    given = normalise(answer)
    return bool(given) and any(normalise(gold) == given for gold in golds)


def sub_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether a normalised golden answer is a substring of the normalised answer."""
    given = normalise(answer)
    return any(normalise(gold) in given for gold in countable(golds))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 over golden answers, 0..1, of shared words (with repeats).

    If one side is "yes", "no" or "noanswer" and the other differs, F1 is 0.
    """
    given = normalise(answer)
    return max((_f1(given, normalise(gold)) for gold in golds), default=0.0)


def _f1(given: str, gold: str) -> float:
    if given != gold and (given in CLOSED or gold in CLOSED):
        return 0.0
    words, wanted = given.split(), gold.split()
    if set(words).isdisjoint(wanted):
        return 0.0
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted))


def is_well_formed(transcript: str) -> bool:
    """Return whether a transcript is think, search, information, think, ..., think, answer, without other text."""
    state = "start"
    for part in _TAG.split(transcript):
        if _TAG.fullmatch(part):
            following = _GRAMMAR[state].get(part)
            if following is None:
                return False
            state = following
        elif part.strip() and not state.startswith("in "):
            return False
    return state == "end"


@dataclass(frozen=True)
class FormatReward:
    """Search-R1 v0.3's reward for answer and form, with the published defaults.

    `correct` is for a right answer in good form, minus `structure` in bad form; `structure` for good form alone, plus
    `retrieval` if a golden answer was retrieved; `final` for neither.
    """

    correct: float = 1.0
    structure: float = 0.2
    final: float = 0.1
    retrieval: float = 0.0

    def __call__(self, transcript: str, answer: str | None, golds: Sequence[str]) -> float:
        """Return the reward of a transcript (see `is_well_formed`), answer (None for none) and golden answers."""
        well_formed = is_well_formed(transcript)
        if answer is not None and exact_match(answer, golds):
            return self.correct if well_formed else self.correct - self.structure
        if well_formed:
            there = any(sub_match(content, golds) for _, content in blocks(transcript, "information"))
            return self.structure + (self.retrieval if there else 0.0)
        return 0.0 if answer is None else self.final


#: Words as in scikit-learn's TfidfVectorizer: at least two letters or digits.
_TERM = re.compile(r"\b\w\w+\b")


class Evidence(NamedTuple):
    """What affects the reward of an episode's next search; immutable.

    Attributes:
        matches: m_i, the best match of each supporting passage so far, 0 to 1.
        seen: digests of the passages found so far.
        queries: earlier queries.
    """

    matches: tuple[float, ...] = ()
    seen: frozenset[bytes] = frozenset()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepReward:
    """The reward of StepSearch (Wang et al. 2025, 2505.15107, and the authors' code).

    Search t of an episode with n supporting passages finds k passages d_1 .. d_k and is rewarded with

        r_t = G_t - P_t
        c_i = max_j cos(tfidf(d_j), tfidf(support_i)),     G_t = 1/n sum_i max(c_i - m_i, 0),     m_i <- max(m_i, c_i)
        P_t = share of the k passages that a search of this episode has found before

    and the answer, at the end, with F1 + 0.618 x the match of the queries with the keys of the question. The weights
    `gain` (of G_t), `redundancy` (of P_t), `key` and the final reward `no_answer` have published defaults.
    """

    gain: float = 1.0
    redundancy: float = 1.0
    key: float = 0.618
    no_answer: float = -1.0

    def __post_init__(self) -> None:
        for name in ("gain", "redundancy", "key", "no_answer"):
            real(name, getattr(self, name), expected="a finite number")

    def search(
        self, evidence: Evidence, query: str, found: Sequence[str], supports: Sequence[str]
    ) -> tuple[float, Evidence]:
        """Return the reward of a search, and the evidence after it.

        `found` and `supports` are passages' texts without titles; without supports there is neither gain nor penalty.
        """
        matched = evidence.matches or (0.0,) * len(supports)
        now = matches(found, supports)
        gained = sum([max(each - before, 0.0) for each, before in zip(now, matched, strict=True)])
        digests = [hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest() for text in found]
        repeated = sum([digest in evidence.seen for digest in digests])
        known = tuple([max(pair) for pair in zip(now, matched, strict=True)])
        after = Evidence(known, evidence.seen.union(digests), (*evidence.queries, query))
        if not supports:
            return 0.0, after
        penalty = repeated / len(found) if found else 0.0
        return self.gain * gained / len(supports) - self.redundancy * penalty, after

    def end(self, evidence: Evidence, answer: str | None, golds: Sequence[str], keys: Sequence[Sequence[str]]) -> float:
        """Return the final reward; `keys` are groups of alternatives, one per part of the question."""
        if answer is None:
            return self.no_answer
        return f1(answer, golds) + self.key * key_match(evidence.queries, keys)


def matches(found: Sequence[str], supports: Sequence[str]) -> list[float]:
    """Return for each supporting text its similarity to the most similar found text, 0 to 1 (c_i).

    The cosine of TF-IDF vectors of normalised texts, with idf = 1 + ln((1 + D) / (1 + df)) over the D texts of one
    found text and all supporting texts, as in the authors' code (scikit-learn's TfidfVectorizer).
    """
    best = np.zeros(len(supports))
    if supports:
        for text in found:
            best = np.maximum(best, _cosines(text, tuple(supports)))
    return [min(each, 1.0) for each in best.tolist()]  # rounding may exceed 1


@lru_cache(maxsize=4096)
def _cosines(text: str, supports: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    counts = [Counter(_TERM.findall(normalise(each))) for each in (text, *supports)]
    within = Counter([word for each in counts for word in each])
    idf = {word: 1.0 + np.log((1 + len(counts)) / (1 + number)) for word, number in within.items()}
    weights = [{word: number * idf[word] for word, number in each.items()} for each in counts]
    lengths = [np.sqrt(sum([value * value for value in each.values()])) or 1.0 for each in weights]
    asked = weights[0]
    dots = [sum([value * asked.get(word, 0.0) for word, value in each.items()]) for each in weights[1:]]
    return np.array([dot / (lengths[0] * length) for dot, length in zip(dots, lengths[1:], strict=True)])


def key_match(queries: Sequence[str], keys: Sequence[Sequence[str]]) -> float:
    """Return how well queries match the keys of a question, 0 to 1.

    Each query goes to the first group with the best word F1 above 0; the last F1 of a group counts (authors' code).
    """
    groups = [0.0] * len(keys)
    for query in queries:
        scores = [f1(query, group) for group in keys]
        if scores and max(scores) > 0.0:
            groups[scores.index(max(scores))] = max(scores)
    return sum(groups) / len(groups) if groups else 0.0
