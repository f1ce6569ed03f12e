"""Two divide a few kinds of things, each of which is worth something else to either.

A side scores 10 for the most points that it can have while the other still has half of all its points, and in
proportion for fewer. Without an agreement both score 0.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from agentgym.sotopia.games.game import BEST, DealSide, Game, Heard, Outcome, Standing, whole
from agentgym.sotopia.games.pile import Pile, Share


@dataclass(frozen=True)
class DivideSide(DealSide):
    """One role: what each kind is worth to it; terms are always what role 0 gets."""

    family: ClassVar[str] = "divide"
    aim: ClassVar[float] = 6.0
    novelty: ClassVar[float] = 0.4
    role: int
    pile: Pile
    values: tuple[int, ...]

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, its terms as what role 0 would get."""
        return self.pile.hear(role, text)

    def own(self, terms: Share) -> Share:
        """Return what this role gets."""
        return terms if self.role == 0 else self.pile.rest(terms)

    def worth(self, terms: Share) -> float:
        """Return the points as a share of all points, 0..10."""
        return BEST * _points(self.values, self.own(terms)) / _points(self.values, self.pile.counts)

    @cached_property
    def _ranked(self) -> tuple[list[float], list[tuple[Share, Share]]]:
        """The worths of all divisions, ascending, and the divisions in this order, with what the other gets."""
        total = _points(self.values, self.pile.counts)
        ranked = sorted([(BEST * _points(self.values, share) / total, share) for share in self.pile.shares()])
        pairs = [(share, self.pile.rest(share)) for _, share in ranked]
        if self.role == 1:
            return [worth for worth, _ in ranked], [(rest, rest) for _, rest in pairs]
        return [worth for worth, _ in ranked], pairs

    def propose(self, level: float, wishes: Sequence[Share], said: Sequence[Share]) -> Share:
        """Return the division worth enough that gives most of what the other asked for, new ones first."""
        levels, divisions = self._ranked
        start = min(bisect_left(levels, level - 1e-9), len(levels) - 1)
        end = max(start + 1, bisect_left(levels, level + 2.0))
        weights = [1 / count for count in self.pile.counts]
        for wish in wishes:
            theirs = wish if self.role == 1 else self.pile.rest(wish)
            weights = [
                each + share / count**2 for each, share, count in zip(weights, theirs, self.pile.counts, strict=True)
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
        """Return a sentence that proposes a division."""
        own = self.own(terms)
        words, theirs = self.pile.tell(own), self.pile.tell(self.pile.rest(own))
        return _FORMS[form % 3].format(words, theirs)


_FORMS = (
    "I take {0}, you take {1}.",
    "What about this: I get {0} and you get {1}.",
    "You get {1} and I keep {0}.",
)


@dataclass(frozen=True)
class Divide(Game):
    """Things to divide.

    Args:
        pile: the things.
        values: points of one thing of each kind, for roles 0 and 1, each known to itself.
    """

    family: ClassVar[str] = "divide"
    material: ClassVar[bool] = True
    pile: Pile
    values: tuple[tuple[int, ...], tuple[int, ...]]

    def __post_init__(self) -> None:
        """Check that all is worth something."""
        for values in self.values:
            if len(values) != len(self.pile.counts) or min(values) < 0 or _points(values, self.pile.counts) == 0:
                raise ValueError(f"a division needs a value of at least 0 for each kind and role, got {self.values}")

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, its terms as what role 0 would get."""
        return self.pile.hear(role, text)

    @cached_property
    def sides(self) -> tuple[DivideSide, DivideSide]:
        """What roles 0 and 1 know."""
        return (
            DivideSide(0, self.pile, self.values[0]),
            DivideSide(1, self.pile, self.values[1]),
        )

    def points(self, role: int, terms: Share) -> int:
        """Return the points of a role."""
        return _points(self.values[role], terms if role == 0 else self.pile.rest(terms))

    def goals(self, terms: Share) -> tuple[int, int]:
        """Return the goal scores of a division."""
        first, second = self._fair_best
        return whole(BEST * self.points(0, terms) / first), whole(BEST * self.points(1, terms) / second)

    @cached_property
    def _all_points(self) -> list[tuple[int, int]]:
        """The points of both roles, for every division."""
        first, second = self.values
        total = _points(second, self.pile.counts)
        return [(_points(first, share), total - _points(second, share)) for share in self.pile.shares()]

    @cached_property
    def _fair_best(self) -> tuple[int, int]:
        """The most points of either role while the other has at least half of all its points."""
        first, second = (_points(values, self.pile.counts) / 2 for values in self.values)
        return (
            max(1, *[mine for mine, other in self._all_points if other >= second]),
            max(1, *[mine for other, mine in self._all_points if other >= first]),
        )

    def settle(self, standing: Standing) -> Outcome:
        """Return the outcome."""
        agreed = standing.agreed
        return Outcome(None, (0, 0)) if agreed is None else Outcome(agreed, self.goals(agreed))

    @property
    def solvable(self) -> bool:
        """Some division gives both more than 6."""
        first, second = self._fair_best
        return any(
            whole(BEST * mine / first) > 6 and whole(BEST * other / second) > 6 for mine, other in self._all_points
        )

    def tell(self, terms: Any) -> str:
        """Return a division in words."""
        return f"{self.pile.tell(terms)} to one, {self.pile.tell(self.pile.rest(terms))} to the other"


def _points(values: Share, share: Share) -> int:
    return sum(map(operator.mul, values, share))
