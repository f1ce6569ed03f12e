"""One sells, one buys: a price is agreed on or not.

A side scores 8 at its own target. Every twentieth of the list price costs or brings one point: 10 is a tenth of the
list price better than hoped for, and 0 is forty hundredths worse. Without a deal both score 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from agentgym.sotopia.games.game import DealSide, Game, Heard, cached, heard, whole
from agentgym.sotopia.games.phrases import may_hold, read_new

BUYER, SELLER = "buyer", "seller"
#: Goal score at the own target, and points lost per list price.
AT_TARGET, SLOPE = 8.0, 20.0
#: A buyer opens at most this much of the list price below the target.
_BOLD = 0.3
#: As many digits as a price can have: without a bound, and with ways back, a long number would be read again and again.
_NUMBER = r"\d{1,3}(?:,\d{3}){1,8}+(?:\.\d{1,20}+)?+|\d{1,24}+(?:\.\d{1,20}+)?+"
_DIGIT = re.compile(r"\d")
#: Where nothing of a word stands before a digit: only there does `_BARE` find a number.
_BEGINS = re.compile(r"\d(?<!\w\d)")
#: One of these is inside wherever `_DOLLARS` finds something, see `phrases.may_hold`.
_DOLLAR_HINTS = ("$", "dollar", "bucks", "usd")
_DOLLARS = re.compile(rf"\$\s?({_NUMBER})|({_NUMBER})\s?(?:\$|(?:dollars?|bucks|usd)\b)", re.IGNORECASE)
#: Numbers without a dollar sign: "70.", "for 70", "make it 70 and it is yours", but not "for 3 years".
_BARE = re.compile(
    rf"(?:^\W*|[,:]\s|\b(?:for|at|pay|offer|about|do|take|accept|say|is|it|want|to|than)\s)({_NUMBER})"
    r"(?=\s*(?:$|[.,!?](?!\d)|(?:and|then|or|for|it|is|works|instead|at|if|tops|max)\b))",
    re.IGNORECASE,
)
#: What the amounts after these words are not: an offer.
_COMPARED = re.compile(
    r"\b(?:not|than|instead of|from|down from|list(?:ed|ing)?(?: price)?(?: (?:at|of|for|is|was))?|your|was)\s*$",
    re.IGNORECASE,
)
#: So many characters before an amount are looked at for them.
_BEFORE = 80
_OWN_BOUND = re.compile(r"\b(?:lower|less|higher|more|further)\s+than\s*$", re.IGNORECASE)


@cached
def hear(text: str) -> Heard:
    """Return what an utterance says: the last amount that it does not turn down is the offer.

    Amounts with a dollar sign or the word dollars; where there are none, numbers that stand like a price.

    >>> hear("$40 is too low, but I could go down to $55.")
    Heard(terms=55.0, accepts=False, refuses=True, asks=False, things=())
    >>> hear("It is listed at $90. Would you take 70 dollars?").terms, hear("Deal, 70 it is.").accepts
    (70.0, True)
    """
    said = read_new(text)  # this function has a cache itself
    amounts: list[float] = []
    if _DIGIT.search(text) is not None:
        if may_hold(text.lower(), _DOLLAR_HINTS):
            amounts = [amount for part in said.open for amount in _amounts(_DOLLARS, part)]
        if not amounts and _BEGINS.search(text) is not None:
            amounts = [amount for part in said.open for amount in _amounts(_BARE, part)]
    return heard(amounts[-1] if amounts else None, said.agrees, said.no, said.asks)


def _amounts(pattern: re.Pattern[str], part: str) -> list[float]:
    found = []
    for match in pattern.finditer(part):
        start = match.start(match.lastindex or 0)
        before = part[max(0, start - _BEFORE) : start].rstrip("$ ")
        if _COMPARED.search(before) and not _OWN_BOUND.search(before):
            continue
        number = round(float(match[match.lastindex or 0].replace(",", "")), 2)
        if number < 1e9:
            found.append(number)
    return found


def dollars(price: float) -> str:
    """Return a price in words.

    >>> dollars(55.0), dollars(58.6)
    ('$55', '$58.60')
    """
    return f"${price:.0f}" if price == int(price) else f"${price:.2f}"


@dataclass(frozen=True)
class BargainSide(DealSide):
    """The buyer or the seller: its own target, and the list price that both know."""

    role: int
    trade: str
    list_price: float
    target: float

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, see `hear`."""
        return hear(text)

    @cached_property
    def top(self) -> float:  # type: ignore[override]
        """The worth of the opening: the list price for a seller, well below the target for a buyer."""
        if self.trade == SELLER:
            return max(self.worth(self.list_price), AT_TARGET)
        return self.worth(max(self.target - _BOLD * self.list_price, 0.4 * self.target))

    def worth(self, terms: float) -> float:
        """Return the goal score before it is rounded and cut at 0 and 10."""
        better = self.target - terms if self.trade == BUYER else terms - self.target
        return AT_TARGET + SLOPE * better / self.list_price

    def propose(self, level: float, wishes: Sequence[float], said: Sequence[float]) -> float:
        """Return the round price of this worth, or a little better."""
        step = _step(self.list_price)
        away = (level - AT_TARGET) * self.list_price / SLOPE
        if self.trade == BUYER:
            return max(step, math.floor((self.target - away) / step + 1e-6) * step)
        return min(max(self.list_price, self.target), math.ceil((self.target + away) / step - 1e-6) * step)

    def phrase(self, terms: float, form: int) -> str:
        """Return a sentence that proposes a price."""
        return _FORMS[self.trade][form % 3].format(dollars(terms))


_FORMS = {
    BUYER: ("I can pay {}.", "How about {}?", "I would take it for {}."),
    SELLER: ("I can let it go for {}.", "How about {}?", "I would sell it for {}."),
}


def _step(list_price: float) -> float:
    """Prices are multiples of this: about a hundredth of the list price."""
    return next((step for least, step in ((2000, 50.0), (400, 5.0), (40, 1.0)) if list_price >= least), 0.5)


@dataclass(frozen=True)
class Bargain(Game):
    """A sale.

    Args:
        list_price: what the seller asks for in public.
        targets: what roles 0 and 1 hope for, each known to itself.
        trades: "buyer" and "seller", by role.
    """

    family: ClassVar[str] = "bargain"
    material: ClassVar[bool] = True
    list_price: float
    targets: tuple[float, float]
    trades: tuple[str, str]

    def __post_init__(self) -> None:
        prices = (self.list_price, *self.targets)
        if not all(0 < price < math.inf for price in prices) or sorted(self.trades) != [BUYER, SELLER]:
            raise ValueError(f"a bargain needs positive prices, a buyer and a seller, got {self}")

    def hear(self, role: int, text: str) -> Heard:
        """Return what an utterance says, see `hear`."""
        return hear(text)

    @cached_property
    def sides(self) -> tuple[BargainSide, BargainSide]:
        """What roles 0 and 1 know."""
        first, second = (BargainSide(role, self.trades[role], self.list_price, self.targets[role]) for role in (0, 1))
        return first, second

    def goals(self, terms: float) -> tuple[int, int]:
        """Return the goal scores of a price."""
        first, second = (whole(side.worth(terms)) for side in self.sides)
        return first, second

    @property
    def solvable(self) -> bool:
        """Prices between the targets, and the targets, are tried."""
        low, high = sorted(self.targets)
        prices = (low, (low + high) / 2, high)
        return any(min(self.goals(price)) > 6 for price in prices)

    def tell(self, terms: Any) -> str:
        """Return a price in words."""
        return dollars(terms)
