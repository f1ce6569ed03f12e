"""How an answer is scored: exact match, sub-match and F1 after the usual normalisation, and the format reward.

All rules are those of the published evaluation scripts (SQuAD, HotpotQA, Search-R1). A golden answer that normalises
to nothing ("A", "The") would match an empty answer, so it never counts.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    """Return the content of the last `<answer>` block of a text, without white space around it.

    Args:
        text: what a model wrote. Never a text that holds retrieved passages: an answer in one of them would count.
        at_least: how many blocks there must be; Search-R1 takes 2, because its text begins with a prompt that shows
            an example.

    Returns:
        The answer, or None where there are fewer blocks.

    >>> extract_answer("<answer> Beijing </answer>"), extract_answer("<answer> Beijing </answer>", at_least=2)
    ('Beijing', None)
    """
    found = [content for _, content in blocks(text, "answer")]
    return found[-1].strip() if len(found) >= max(at_least, 1) else None


def is_well_formed(transcript: str) -> bool:
    """Say whether a transcript is think, search, information, think, ..., think, answer, and nothing between blocks.

    Args:
        transcript: replies and observations of an episode in order, without the prompt.

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
        """Return the reward of an episode.

        Args:
            transcript: see `is_well_formed`.
            answer: the answer given, None for none.
            golds: golden answers.

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
