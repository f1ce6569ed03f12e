"""How agreement, refusal and questions are read, in every game."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: Words of agreement. One counts unless its clause is a question, a condition, or denied.
_ACCEPT = re.compile(
    r"\b(?:deal|agreed?|accept(?:ed)?|sold|sounds (?:good|great|fine|fair)|works (?:\w+ ){0,2}for me|that works|"
    r"i(?:'ll| will) take (?:it|that)|done|settled|let's do (?:it|that)|fine (?:by|with) me)\b",
    re.IGNORECASE,
)
_YES = re.compile(r"^\W*(?:yes|yeah|yep|sure|right)\b", re.IGNORECASE)
_NO = re.compile(r"^\W*(?:no|nope|nah|sorry)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"n't\b|n’t\b|\bcannot\b|\bnot\b|\bnever\b|\bunable\b|\brefuse\b|\breject\b|\bdecline\b|\bno (?:deal|way|thanks)\b|"
    r"\b(?:impossible|busy|bad)\b|\bnone\b|\bnobody\b|\btoo (?:low|high|much|little|expensive|cheap|early|late|few|many)\b",
    re.IGNORECASE,
)
#: "I cannot go higher than 40" names terms.
_BOUND = re.compile(r"\b(?:lower|less|below|under|higher|more|above|over|further|beyond)\b", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|unless|would|could|might|when)\b", re.IGNORECASE)
_BREAK = re.compile(r"(?<=[.!?;])\s+|\n+|,? but | however,? |; |, so ", re.IGNORECASE)


def clauses(text: str) -> list[str]:
    """Return the parts of an utterance that are read by themselves.

    >>> clauses("No, $40.50 is too low, but I could do $60. Deal?")
    ['No, $40.50 is too low', 'I could do $60.', 'Deal?']
    """
    return [part for part in _BREAK.split(text) if part]


def denied(clause: str) -> bool:
    """Say whether a clause turns down what it mentions.

    >>> denied("I can't do $40"), denied("I cannot go lower than $40")
    (True, False)
    """
    return _DENIED.search(clause) is not None and _BOUND.search(clause) is None


def agrees(parts: list[str]) -> bool:
    """Say whether one of these clauses agrees.

    >>> agrees(["Deal!"]), agrees(["no deal"]), agrees(["I could agree if you paid more"]), agrees(["Deal?"])
    (True, False, False, False)
    """
    return any(_ACCEPT.search(part) is not None and _is_plain(part) for part in parts)


def says_yes(parts: list[str]) -> bool:
    """Say whether one of these clauses begins with yes, or agrees."""
    return any(_YES.match(part) is not None for part in parts) or agrees(parts)


def says_no(parts: list[str]) -> bool:
    """Say whether one of these clauses begins with no, or turns something down."""
    return any(_NO.match(part) is not None or denied(part) for part in parts)


def _is_plain(part: str) -> bool:
    return not (part.rstrip().endswith("?") or _CONDITION.search(part) or _DENIED.search(part) or _NO.match(part))


def words(values: Iterable[str]) -> Iterator[str]:
    """Yield patterns that match these values as whole words, longest first."""
    for value in sorted(values, key=lambda each: (-len(each), each)):
        yield rf"(?<!\w){re.escape(value)}(?!\w)"
