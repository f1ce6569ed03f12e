"""Agreement, refusal and questions in utterances of all games."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from agentgym.sotopia.games.game import cached

#: Words of agreement; they do not count in a question, a condition or a denial.
_ACCEPT = re.compile(
    r"\b(?:deal|agreed?|accept(?:ed)?|sold|sounds (?:good|great|fine|fair)|works (?:\w+ ){0,2}for me|that works|"
    r"i(?:'ll| will) take (?:it|that)|done|settled|let's do (?:it|that)|fine (?:by|with) me)\b",
    re.IGNORECASE,
)
#: The whole utterance: "Yes." agrees, but "Yes. It is nearly new." may answer a question.
_PLAIN_YES = re.compile(
    r"\W*(?:yes|yeah|yep|sure|ok|okay|of course|gladly)"
    r"(?:,? (?:please|of course|sure|fine|gladly|thanks|thank you))?\W*",
    re.IGNORECASE,
)
#: Beginnings of clauses: "yes" (with a group) or "no".
_YES_OR_NO = re.compile(
    r"\W*(?:(yes|yeah|yep|sure)\b|(?:no|nope|nah|sorry)\b(?! (?:problem|worries|doubt)))", re.IGNORECASE
)
_DENIED = re.compile(
    r"n't\b|n\u2019t\b|\b(?:cannot|not|never|none|nobody|unable|refuse|reject|decline|impossible|busy|bad|"
    r"no (?:deal|way|thanks)|too (?:low|high|much|little|expensive|cheap|early|late|few|many))\b",
    re.IGNORECASE,
)
#: "I cannot go higher than 40" proposes terms.
_BOUND = re.compile(r"\b(?:lower|less|below|under|higher|more|above|over|further|beyond)\b", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|unless|would|could|might|when)\b", re.IGNORECASE)
#: Between clauses: white space after a sentence, line breaks, ", but ", " however, ", "; ", ", so ". The first
#: character is a separate set, because a search for one set of characters is several times as fast.
_BREAK = re.compile(
    r"[\s,;](?:(?<=[.!?;]\s)\s*|(?<= )(?:but |however,? )|(?<=,) (?:but |so )|(?<=;) |(?<=\n)\n*)", re.IGNORECASE
)

#: An ASCII text in lower case without any of these has no agreement and no denial.
_ACCEPT_HINTS = ("deal", "agree", "accept", "sold", "sounds", "works", "take", "done", "settled", "let's", "fine")
_DENIED_HINTS = (
    "n't", "not", "never", "none", "nobody", "unable", "refuse", "reject", "decline", "impossible", "busy", "bad",
    "no ", "too ",
)  # fmt: skip


def may_hold(text: str, hints: Iterable[str]) -> bool:
    """Return whether a lower-case text may match a pattern whose every ASCII match holds a hint.

    Much faster than the pattern. Always True outside ASCII, where case has more forms.
    """
    if not text.isascii():
        return True
    for hint in hints:  # noqa: SIM110  # called for every utterance
        if hint in text:
            return True
    return False


class Said(NamedTuple):
    """Content of an utterance common to all games.

    `open`: clauses that refuse nothing; `denied`: the others; `agrees`: a clause agrees; `yes`: a clause agrees or
    begins with yes; `no`: a clause refuses or begins with no; `asks`: the utterance ends as a question.
    """

    open: tuple[str, ...]
    denied: tuple[str, ...]
    agrees: bool
    yes: bool
    no: bool
    asks: bool


def read_new(text: str) -> Said:
    """Return the content of an utterance; `read` is cached.

    >>> read_new("No, $40 is too low, but I could do $60. Deal?")
    Said(open=('I could do $60.', 'Deal?'), denied=('No, $40 is too low',), agrees=False, yes=False, no=True, asks=True)
    >>> read_new("I could agree if you pay more.").agrees
    False
    """
    parts = tuple([part for part in _BREAK.split(text) if part])
    denied: tuple[str, ...] = ()
    left, low = parts, text.lower()
    if may_hold(low, _DENIED_HINTS) and _DENIED.search(text) is not None:
        denied = tuple([part for part in parts if _denies(part)])
        turned_down = frozenset(denied)
        left = tuple([part for part in parts if part not in turned_down])
    agrees = (
        may_hold(low, _ACCEPT_HINTS)
        and _ACCEPT.search(text) is not None
        and any(_ACCEPT.search(part) and _is_plain(part) for part in parts)
    )
    agrees = agrees or (_PLAIN_YES.fullmatch(text) is not None and "?" not in text)
    yes, no = agrees, bool(denied)
    for part in parts:
        begins = _YES_OR_NO.match(part)
        if begins is not None:
            yes, no = (True, no) if begins[1] else (yes, True)
    return Said(left, denied, agrees, yes, no, text.rstrip().endswith("?"))


#: For games whose words differ between tasks: equal offers are frequent.
read = cached(read_new)


def _denies(part: str) -> bool:
    """Return whether a clause refuses what it mentions: "Isn't it?" does not, nor does "I cannot go below 40"."""
    return not (_DENIED.search(part) is None or part.rstrip().endswith("?") or _BOUND.search(part))


def _is_plain(part: str) -> bool:
    """Return whether a clause is neither question nor condition nor refusal."""
    return not (part.rstrip().endswith("?") or _CONDITION.search(part) or _DENIED.search(part) or _says_no(part))


def _says_no(part: str) -> bool:
    begins = _YES_OR_NO.match(part)
    return begins is not None and begins[1] is None
