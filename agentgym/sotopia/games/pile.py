"""Things to divide, and how claims to them are read."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from agentgym.sotopia.games.caches import UtteranceCache
from agentgym.sotopia.games.game import Heard
from agentgym.sotopia.games.phrases import read

#: How many of each kind a role gets: here always what role 0 gets.
Share = tuple[int, ...]
#: All ways to divide a pile are listed.
MOST_SHARES = 100_000

_WORDS = {
    "no": 0, "zero": 0, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
_MANY = r"\d+|all|both|the|" + "|".join(_WORDS)
_MODAL = "(?: (?:can|could|will|would|should|may|like to|just|only|also))*"
_VERB = "(?:takes?|gets?|keep|have|want|need|receive|am taking|are taking|'m taking|'re taking)"
#: "I take ...", "you can have ...", "I give you ...", "for me: ..." open a claim, up to the next one.
_CLAIM = re.compile(
    rf"\b(?P<giver>(?:I|we|me)\b[^,]{{0,20}}?\b(?:give|offer|leave|let) you(?: (?:have|take|keep))?)\b|"
    rf"\b(?P<who>I|you)(?:['\u2019](?:ll|d))?{_MODAL}\s?{_VERB}\b|"
    rf"\bfor (?P<whom>me|you(?:rself)?|myself)\b|\b(?P<mine>mine|yours)\b",
    re.IGNORECASE,
)
_REST = re.compile(r"\b(?:the rest|everything else|what is left|the others?)\b", re.IGNORECASE)
_NOTHING = re.compile(r"\bnothing\b", re.IGNORECASE)
_EVERYTHING = re.compile(r"\b(?:everything|it all|all of (?:it|them))\b(?! else)", re.IGNORECASE)


@dataclass(frozen=True)
class Pile:
    """The things to divide.

    Args:
        kinds: singular and plural of each kind.
        counts: how many there are of each.
    """

    kinds: tuple[tuple[str, str], ...]
    counts: Share

    def __post_init__(self) -> None:
        """Check that there is something to divide."""
        if len(self.kinds) != len(self.counts) or min(self.counts, default=0) < 1:
            raise ValueError(f"a pile needs at least one of each of its kinds, got {self}")
        if prod(count + 1 for count in self.counts) > MOST_SHARES:
            raise ValueError(f"there are more than {MOST_SHARES:,} ways to divide {self}")

    def shares(self) -> list[Share]:
        """Return all ways to divide, in a fixed order."""
        return list(itertools.product(*[range(count + 1) for count in self.counts]))

    def rest(self, share: Share) -> Share:
        """Return what the other gets."""
        return tuple(map(operator.sub, self.counts, share))

    def tell(self, share: Share) -> str:
        """Return a share in words.

        >>> Pile((("book", "books"), ("ball", "balls")), (3, 1)).tell((2, 1))
        '2 books and 1 ball'
        """
        parts = [
            f"{number} {kind[number != 1]}" for number, kind in zip(share, self.kinds, strict=True) if number
        ]  # fmt: skip
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts or ["nothing"])

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance of a role says; its terms are what role 0 would get, see `claimed`."""
        known = self._heard.get((role, text))
        if known is None:
            said = read(text)
            share = claimed(self, said.open)
            if share is not None and role == 1:
                share = self.rest(share)
            known = Heard(share, said.agrees, said.no, said.asks)
            self._heard.keep((role, text), known, text)
        return known

    @cached_property
    def _heard(self) -> UtteranceCache[tuple[int, str], Heard]:
        return UtteranceCache()


def claimed(pile: Pile, parts: Sequence[str]) -> Share | None:
    """Return what the speaker of these clauses would get; None where they propose nothing, or nothing clear.

    A claim says who takes, gets or keeps how many of what, or gives them to you; what no claim mentions goes to the
    other, and claims for both must agree.

    >>> pile = Pile((("book", "books"), ("hat", "hats"), ("ball", "balls")), (3, 2, 1))
    >>> claimed(pile, ["I would take two books and the ball, you get the rest."])
    (2, 0, 1)
    >>> claimed(pile, ["You can have all the hats."]), claimed(pile, ["I like books more than hats."])
    ((3, 0, 1), None)
    """
    mine: list[int | None] = [None] * len(pile.counts)
    yours: list[int | None] = [None] * len(pile.counts)
    found = False
    for part in parts:
        marks = list(_CLAIM.finditer(part))
        at = 0  # what stands before is said for
        for mark, following in itertools.zip_longest(marks, marks[1:]):
            who = (mark["who"] or mark["whom"] or mark["mine"] or "you").lower()
            into = yours if who.startswith("you") else mine
            behind = mark["mine"] or (mark["whom"] and _claim(pile, part[at : mark.start()], list(into)))
            if behind:  # "two hats for me", "the books are mine"
                said, at = part[at : mark.start()], mark.end()
            else:
                at = following.start() if following else len(part)
                said = part[mark.end() : at]
            found |= _claim(pile, said, into)
    return _settle(pile.counts, mine, yours) if found else None


def _claim(pile: Pile, said: str, into: list[int | None]) -> bool:
    """Write down what is claimed; say whether it was anything."""
    found = False
    for i, kind in enumerate(pile.kinds):
        for match in _pattern(kind).finditer(said):
            word = match[1].lower()
            if word.isdigit():
                into[i] = int(word) if len(word) < 10 else MOST_SHARES  # more than there are
            else:
                into[i] = _WORDS.get(word, pile.counts[i])
            found = True
    if _EVERYTHING.search(said):
        into[:] = pile.counts
    elif _NOTHING.search(said):
        into[:] = [0] * len(pile.counts)
    elif not found:
        return _REST.search(said) is not None
    return True


@lru_cache(maxsize=1024)
def _pattern(kind: tuple[str, str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, kind[::-1]))
    return re.compile(rf"(?<!\w)({_MANY})\s+(?:of the |the |of )?(?:{names})(?!\w)", re.IGNORECASE)


def _settle(counts: Share, mine: Sequence[int | None], yours: Sequence[int | None]) -> Share | None:
    """Return the speaker's share, or None where the claims are for too many or leave something out."""
    share = []
    for count, own, other in zip(counts, mine, yours, strict=True):
        if own is None and other is None:
            own = 0 if any(each is not None for each in mine) else count
        elif own is None:
            own = count - (other or 0)
        if not 0 <= own <= count or (other is not None and own + other != count):
            return None
        share.append(own)
    return tuple(share)
