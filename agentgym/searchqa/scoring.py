"""How an answer is scored (exact match, sub-match, F1, the format reward), and rewards for single searches.

All rules are those of the published evaluation scripts (SQuAD, HotpotQA, Search-R1). A golden answer that normalises
to nothing ("A", "The") would match an empty answer, so it never counts.

Search t of an episode whose n supporting passages are known brings k passages d_1 .. d_k and is rewarded with evidence
gained, less what was found before (StepSearch, Wang et al. 2025, 2505.15107; the authors' code):

    r_t = G_t - P_t
    c_i = max_j cos(tfidf(d_j), tfidf(support_i)),     G_t = 1/n sum_i max(c_i - m_i, 0),     m_i <- max(m_i, c_i)
    P_t = share of the k passages that a search of this episode has brought before

and the answer, at the end, with F1 + 0.618 x the match of the queries with the keys of the question.
"""

from __future__ import annotations

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
#: Characters of a text whose normal form is remembered.
_SHORT = 300
#: Answers that F1 counts only whole, as HotpotQA's script does.
CLOSED = frozenset({"yes", "no", "noanswer"})

#: The tags of a well-formed transcript: state -> tag -> next state. Text may stand inside blocks only.
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
    """Lower-case, delete ASCII punctuation, replace articles by a space, collapse white space.

    Only ASCII punctuation goes: curly quotation marks, en-dashes and accents stay. A hyphen is deleted, not turned
    into a space.

    >>> normalise(" The  T-shirt, of an “Élan”!"), normalise("an-apple"), normalise("A")
    ('tshirt of “élan”', 'anapple', '')
    """
    return _remembered(text) if len(text) <= _SHORT else _normalised(text)


def _normalised(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


#: Only short texts, so that what is remembered is bounded in bytes.
_remembered = lru_cache(maxsize=65536)(_normalised)


def countable(golds: Iterable[str]) -> tuple[str, ...]:
    """Return the golden answers that normalise to something, unchanged and in order.

    >>> countable(["The", "The Who", "?"])
    ('The Who',)
    """
    return tuple([gold for gold in golds if normalise(gold)])


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Say whether the normalised answer equals a normalised golden answer.

    >>> exact_match("the Beatles!", ["Beatles", "The Fab Four"]), exact_match("", ["The"])
    (True, False)
    """
    given = normalise(answer)
    return bool(given) and any(normalise(gold) == given for gold in golds)


def sub_match(answer: str, golds: Iterable[str]) -> bool:
    """Say whether a normalised golden answer is a part of the normalised answer, character by character.

    >>> sub_match("It was Ada Lovelace.", ["Ada Lovelace"]), sub_match("Ada", ["Ada Lovelace"])
    (True, False)
    """
    given = normalise(answer)
    return any(normalise(gold) in given for gold in countable(golds))


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 over golden answers, 0..1, of the words (with repeats) that answer and gold share.

    Where one side is "yes", "no" or "noanswer" and the other is not the same, the F1 is 0.

    >>> round(f1("Ada Lovelace", ["Countess Ada Lovelace", "Byron"]), 2), f1("yes it is", ["yes"])
    (0.8, 0.0)
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


def extract_answer(text: str, *, at_least: int = 1) -> str | None:
    """Return the content of the last `<answer>` block of a text; None where there are fewer blocks than `at_least`.

    The text is what a model wrote, without retrieved passages: an answer in one of them would count. Search-R1 takes
    `at_least` 2, because its text begins with a prompt that shows an example.

    >>> extract_answer("<answer> Beijing </answer>"), extract_answer("<answer> Beijing </answer>", at_least=2)
    ('Beijing', None)
    """
    found = [content for _, content in blocks(text, "answer")]
    return found[-1].strip() if len(found) >= max(at_least, 1) else None


def is_well_formed(transcript: str) -> bool:
    """Say whether a transcript is think, search, information, think, ..., think, answer, and nothing between blocks.

    The transcript is the replies and observations of an episode in order, without the prompt.

    >>> is_well_formed("<think>?</think><search>x</search><information>y</information>"
    ...                "<think>!</think><answer>z</answer>")
    True
    >>> is_well_formed("<answer>z</answer>"), is_well_formed("<think>?</think> so <answer>z</answer>")
    (False, False)
    """
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
    """The reward for a right answer in the right form, Search-R1 v0.3; the published values are the defaults.

    Attributes:
        correct: for a right answer in a well-formed transcript.
        structure: taken off where the answer is right and the form is not; given where only the form is right.
        final: for a wrong answer in a malformed transcript.
        retrieval: given besides `structure` where a golden answer stands in what was retrieved.
    """

    correct: float = 1.0
    structure: float = 0.2
    final: float = 0.1
    retrieval: float = 0.0

    def __call__(self, transcript: str, answer: str | None, golds: Sequence[str]) -> float:
        """Return the reward of an episode by its transcript (see `is_well_formed`), answer (None for none) and golds.

        >>> right = "<think>easy</think><answer>Rome</answer>"
        >>> reward = FormatReward()
        >>> reward(right, "Rome", ["Rome"]), reward("Rome?", "Rome", ["Rome"]), reward("Oslo", "Oslo", ["Rome"])
        (1.0, 0.8, 0.1)
        >>> reward(right, "Rome", ["Oslo"]), reward("", None, ["Rome"])
        (0.2, 0.0)
        """
        well_formed = is_well_formed(transcript)
        if answer is not None and exact_match(answer, golds):
            return self.correct if well_formed else self.correct - self.structure
        if well_formed:
            there = any(sub_match(content, golds) for _, content in blocks(transcript, "information"))
            return self.structure + (self.retrieval if there else 0.0)
        return 0.0 if answer is None else self.final


#: The words that count, as scikit-learn's TfidfVectorizer cuts them: two letters or digits at least.
_TERM = re.compile(r"\b\w\w+\b")


class Evidence(NamedTuple):
    """What an episode has found, as far as its next search is rewarded by it: small, picklable, never changed.

    Attributes:
        matches: m_i, how well each supporting passage was matched so far, 0 to 1.
        seen: digests of the passages brought so far.
        queries: searched for so far.
    """

    matches: tuple[float, ...] = ()
    seen: frozenset[bytes] = frozenset()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepReward:
    """The reward of StepSearch; the defaults are the published ones.

    Attributes:
        gain: weight of G_t; 0 leaves the gain out.
        redundancy: weight of P_t; 0 leaves the penalty out.
        key: weight of the match of queries and keys at the end.
        no_answer: reward at the end of an episode that has no answer.
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
        """Return the reward of a search, and what is known after it.

        Args:
            evidence: what was known before it.
            query: what was searched for.
            found: texts of the passages that it brought, without their titles.
            supports: texts of the supporting passages; without any there is no gain and, as published, no penalty.

        >>> reward, one = StepReward().search(Evidence(), "Ada", ["Ada wrote notes."], ["Ada wrote notes.", "Ulm"])
        >>> reward, StepReward().search(one, "Ada", ["Ada wrote notes."], ["Ada wrote notes.", "Ulm"])[0]
        (0.5, -1.0)
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
        """Return the reward at the end; `keys` are groups of alternatives, one for each part of the question.

        >>> StepReward().end(Evidence(queries=("Ada Bell",)), "Ulm", ["Ulm"], [["Ada Bell"], ["Port Ulm"]])
        1.309
        """
        if answer is None:
            return self.no_answer
        return f1(answer, golds) + self.key * key_match(evidence.queries, keys)


def matches(found: Sequence[str], supports: Sequence[str]) -> list[float]:
    """Return for each supporting text how like it the most similar found text is, 0 to 1 (c_i).

    Cosine of TF-IDF vectors of normalised texts. As in the authors' code, the inverse document frequencies of each
    comparison are those of one found text and all supporting texts: idf = 1 + ln((1 + D) / (1 + df)) over these D
    texts, which is what scikit-learn's TfidfVectorizer does.

    >>> matches(["Ada wrote."], ["Ada wrote!", "Ulm lies north."])
    [1.0, 0.0]
    """
    best = np.zeros(len(supports))
    if supports:
        for text in found:
            best = np.maximum(best, _cosines(text, tuple(supports)))
    return [min(each, 1.0) for each in best.tolist()]  # rounding may take a cosine past 1


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

    Each query goes to the group of keys that has the one with the best word F1, the first of equally good ones, and a
    group counts with the F1 of the last query that went to it, as in the authors' code. A query that shares no word
    with any key goes nowhere.

    >>> key_match(["Ada Bell", "Miss Bell"], [["Ada Bell", "Bell"], ["Port Ulm"]])  # 1, then 2/3 in its place; 2/3 / 2
    0.3333333333333333
    """
    groups = [0.0] * len(keys)
    for query in queries:
        scores = [f1(query, group) for group in keys]
        if scores and max(scores) > 0.0:
            groups[scores.index(max(scores))] = max(scores)
    return sum(groups) / len(groups) if groups else 0.0
