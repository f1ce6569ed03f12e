"""Dividing things: 10 for the most points that leave the other half of all its own, and in proportion."""

import itertools
import operator
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, DealSide, Game, Heard, UtteranceCache, heard, whole
from agentgym.sotopia.games.phrases import may_hold, read

#: Number of each kind that a role gets, here always role 0.
Share = tuple[int, ...]
#: Maximum number of ways to divide a pool, since all are listed.
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
class Pool:
    """The things to divide: singular, plural and count of each kind."""

    kinds: tuple[tuple[str, str], ...]
    counts: Share

    def __post_init__(self) -> None:
        if len(self.kinds) != len(self.counts) or min(self.counts, default=0) < 1:
            raise ValueError(f"a pool needs at least one of each of its kinds, got {self}")
        if prod(count + 1 for count in self.counts) > MOST_SHARES:
            raise ValueError(f"there are more than {MOST_SHARES:,} ways to divide {self}")

    def shares(self) -> list[Share]:
        """Return all ways to divide, in a fixed order."""
        return list(itertools.product(*[range(count + 1) for count in self.counts]))

    def points(self, values: Share) -> list[int]:
        """Return the points of each of the `shares` for these values of one thing of each kind."""
        kinds = zip(values, self.counts, strict=True)
        return list(map(sum, itertools.product(*[[value * i for i in range(count + 1)] for value, count in kinds])))

    def rest(self, share: Share) -> Share:
        """Return what the other gets."""
        return tuple(map(operator.sub, self.counts, share))

    def tell(self, share: Share) -> str:
        """Return a share in words, such as "2 books and 1 ball"."""
        parts = [f"{number} {kind[number != 1]}" for number, kind in zip(share, self.kinds, strict=True) if number]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts or ["nothing"])

    def hear(self, role: int, text: str) -> Heard:
        """Return the content of a role's utterance; its terms are what role 0 would get, see `claimed`."""
        known = self._heard[role].get(text)
        if known is None:
            said = read(text)
            share = claimed(self, said.open)
            if share is not None and role == 1:
                share = self.rest(share)
            known = heard(share, said.agrees, said.no, said.asks)
            self._heard[role].keep(text, known)
        return known

    @cached_property
    def _heard(self) -> tuple[UtteranceCache[Heard], UtteranceCache[Heard]]:
        return UtteranceCache(), UtteranceCache()

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Every claim holds one of these, see `phrases.may_hold`."""
        names = "".join(map("".join, self.kinds))
        return (*[name.lower() for kind in self.kinds for name in kind], *_SUMMARIES) if names.isascii() else ("",)


#: Hints for `_REST`, `_NOTHING` and `_EVERYTHING`.
_SUMMARIES = ("rest", "left", "other", "nothing", "everything", "all")


def claimed(pool: Pool, parts: Sequence[str]) -> Share | None:
    """Return what the speaker of these clauses would get; None without a clear proposal.

    A claim names a side and the numbers of things that it takes, gets or keeps; the other gets the rest, and claims
    for both must agree.

    >>> pool = Pool((("book", "books"), ("hat", "hats"), ("ball", "balls")), (3, 2, 1))
    >>> claimed(pool, ["I would take two books and the ball, you get the rest."])
    (2, 0, 1)
    >>> claimed(pool, ["You can have all the hats."]), claimed(pool, ["I like books more than hats."])
    ((3, 0, 1), None)
    """
    if not any(may_hold(part.lower(), pool.hints) for part in parts):
        return None
    mine: list[int | None] = [None] * len(pool.counts)
    yours: list[int | None] = [None] * len(pool.counts)
    found = False
    for part in parts:
        marks = list(_CLAIM.finditer(part))
        at = 0  # end of the last claim
        for mark, following in itertools.zip_longest(marks, marks[1:]):
            who = (mark["who"] or mark["whom"] or mark["mine"] or "you").lower()
            into = yours if who.startswith("you") else mine
            behind = mark["mine"] or (mark["whom"] and _claim(pool, part[at : mark.start()], list(into)))
            if behind:  # "two hats for me", "the books are mine"
                said, at = part[at : mark.start()], mark.end()
            else:
                at = following.start() if following else len(part)
                said = part[mark.end() : at]
            found |= _claim(pool, said, into)
    return _settle(pool.counts, mine, yours) if found else None


def _claim(pool: Pool, said: str, into: list[int | None]) -> bool:
    """Write claimed counts into `into`; return whether there are any."""
    found = False
    for i, kind in enumerate(pool.kinds):
        for match in _pattern(kind).finditer(said):
            word = match[1].lower()
            if word.isdigit():
                into[i] = int(word) if len(word) < 10 else MOST_SHARES  # more than there are
            else:
                into[i] = _WORDS.get(word, pool.counts[i])
            found = True
    if _EVERYTHING.search(said):
        into[:] = pool.counts
    elif _NOTHING.search(said):
        into[:] = [0] * len(pool.counts)
    elif not found:
        return _REST.search(said) is not None
    return True


@lru_cache(maxsize=1024)
def _pattern(kind: tuple[str, str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, kind[::-1]))
    return re.compile(rf"(?<!\w)({_MANY})\s+(?:of the |the |of )?(?:{names})(?!\w)", re.IGNORECASE)


def _settle(counts: Share, mine: Sequence[int | None], yours: Sequence[int | None]) -> Share | None:
    """Return the speaker's share; None if the claims exceed the counts or are incomplete."""
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


@dataclass(frozen=True)
class DivideSide(DealSide):
    """One role: the value of each kind; terms are always what role 0 gets."""

    aim: ClassVar[float] = 6.0
    novelty: ClassVar[float] = 0.4
    role: int
    pool: Pool
    values: tuple[int, ...]

    def hear(self, role: int, text: str) -> Heard:
        return self.pool.hear(role, text)

    def own(self, terms: Share) -> Share:
        return terms if self.role == 0 else self.pool.rest(terms)

    def worth(self, terms: Share) -> float:
        """Return the share of all points, 0..10."""
        return BEST * _points(self.values, self.own(terms)) / _points(self.values, self.pool.counts)

    @cached_property
    def _ranked(self) -> tuple[list[float], list[tuple[Share, Share]]]:
        """Return the worths of all divisions, ascending, and the divisions with what the other gets."""
        points, shares = self.pool.points(self.values), self.pool.shares()
        total = points[-1]
        # The other's share is as far from the end as the own one is from the start.
        ranked = sorted(zip([BEST * each / total for each in points], shares, shares[::-1], strict=True))
        levels = [worth for worth, _, _ in ranked]
        if self.role == 1:
            return levels, [(rest, rest) for _, _, rest in ranked]
        return levels, [(share, rest) for _, share, rest in ranked]

    def propose(self, level: float, wishes: Sequence[Share], said: Sequence[Share]) -> Share:
        """Return a division of sufficient worth with most of the other's wishes, new ones first."""
        levels, divisions = self._ranked
        start = min(bisect_left(levels, level - 1e-9), len(levels) - 1)
        end = max(start + 1, bisect_left(levels, level + 2.0))
        weights = [1 / count for count in self.pool.counts]
        for wish in wishes:
            theirs = wish if self.role == 1 else self.pool.rest(wish)
            weights = [
                each + share / count**2 for each, share, count in zip(weights, theirs, self.pool.counts, strict=True)
            ]
        best, chosen = -1.0, divisions[start][0]
        for terms, given in divisions[start:end]:
            liked = sum(map(operator.mul, weights, given))
            if terms in said:
                liked *= 0.9
            if liked > best + 1e-9:
                best, chosen = liked, terms
        return chosen

    def phrase(self, terms: Share, form: int) -> str:
        own = self.own(terms)
        words, theirs = self.pool.tell(own), self.pool.tell(self.pool.rest(own))
        return _FORMS[form % 3].format(words, theirs)


_FORMS = ("I take {0}, you take {1}.", "What about this: I get {0} and you get {1}.", "You get {1} and I keep {0}.")


@dataclass(frozen=True)
class Divide(Game):
    """Dividing a pool; `values`, points of one thing of each kind for roles 0 and 1, are private."""

    family: ClassVar[str] = "divide"
    material: ClassVar[bool] = True
    pool: Pool
    values: tuple[tuple[int, ...], tuple[int, ...]]

    def __post_init__(self) -> None:
        for values in self.values:
            if len(values) != len(self.pool.counts) or min(values) < 0 or _points(values, self.pool.counts) == 0:
                raise ValueError(f"a division needs a value of at least 0 for each kind and role, got {self.values}")

    def hear(self, role: int, text: str) -> Heard:
        return self.pool.hear(role, text)

    @cached_property
    def sides(self) -> tuple[DivideSide, DivideSide]:
        return DivideSide(0, self.pool, self.values[0]), DivideSide(1, self.pool, self.values[1])

    def goals(self, terms: Share) -> tuple[int, int]:
        (first, second), (mine, theirs) = self._fair_best, self.values
        other = self.pool.rest(terms)
        return whole(BEST * _points(mine, terms) / first), whole(BEST * _points(theirs, other) / second)

    @cached_property
    def _all_points(self) -> list[tuple[int, int]]:
        first, second = map(self.pool.points, self.values)
        return list(zip(first, second[::-1], strict=True))

    @cached_property
    def _fair_best(self) -> tuple[int, int]:
        """Return the most points of either role that leave the other at least half of all its points."""
        first, second = (_points(values, self.pool.counts) / 2 for values in self.values)
        return (
            max(1, *[mine for mine, other in self._all_points if other >= second]),
            max(1, *[mine for other, mine in self._all_points if other >= first]),
        )

    @property
    def solvable(self) -> bool:
        first, second = self._fair_best
        return any(
            whole(BEST * mine / first) > 6 and whole(BEST * other / second) > 6 for mine, other in self._all_points
        )

    def tell(self, terms: Any) -> str:
        return f"{self.pool.tell(terms)} to one, {self.pool.tell(self.pool.rest(terms))} to the other"


def _points(values: Share, share: Share) -> int:
    return sum(map(operator.mul, values, share))
