"""A sale: a side scores 8 at its target, one point more or fewer per twentieth of the list price; 0 without a deal."""

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
#: Maximum distance of a buyer's opening from the target, in list prices.
_BOLD = 0.3
#: Maximum number of digits of a price; unbounded numbers would make backtracking quadratic.
_NUMBER = r"\d{1,3}(?:,\d{3}){1,8}+(?:\.\d{1,20}+)?+|\d{1,24}+(?:\.\d{1,20}+)?+"
_DIGIT = re.compile(r"\d")
#: A digit at the start of a word, where `_BARE` may match.
_BEGINS = re.compile(r"\d(?<!\w\d)")
#: Each match of `_DOLLARS` holds one of these, see `phrases.may_hold`.
_DOLLAR_HINTS = ("$", "dollar", "bucks", "usd")
_DOLLARS = re.compile(rf"\$\s?({_NUMBER})|({_NUMBER})\s?(?:\$|(?:dollars?|bucks|usd)\b)", re.IGNORECASE)
#: Numbers without a dollar sign: "70.", "for 70", "make it 70 and it is yours", but not "for 3 years".
_BARE = re.compile(
    rf"(?:^\W*|[,:]\s|\b(?:for|at|pay|offer|about|do|take|accept|say|is|it|want|to|than)\s)({_NUMBER})"
    r"(?=\s*(?:$|[.,!?](?!\d)|(?:and|then|or|for|it|is|works|instead|at|if|tops|max)\b))",
    re.IGNORECASE,
)
#: Words before an amount that is no offer.
_COMPARED = re.compile(
    r"\b(?:not|than|instead of|from|down from|list(?:ed|ing)?(?: price)?(?: (?:at|of|for|is|was))?|your|was)\s*$",
    re.IGNORECASE,
)
#: Characters before an amount that are searched for them.
_BEFORE = 80
_OWN_BOUND = re.compile(r"\b(?:lower|less|higher|more|further)\s+than\s*$", re.IGNORECASE)


@cached
def hear(text: str) -> Heard:
    """Return the content of an utterance: the last amount that it does not refuse is the offer.

    Amounts have a dollar sign or the word dollars; without any, numbers in the position of a price count.

    >>> hear("$40 is too low, but I could go down to $55.")
    Heard(terms=55.0, accepts=False, refuses=True, asks=False, things=())
    >>> hear("It is listed at $90. Would you take 70 dollars?").terms, hear("Deal, 70 it is.").accepts
    (70.0, True)
    """
    said = read_new(text)  # `hear` is cached itself
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
    """Return a price in words, such as "$55" or "$58.60"."""
    return f"${price:.0f}" if price == int(price) else f"${price:.2f}"


@dataclass(frozen=True)
class BargainSide(DealSide):
    """The buyer or the seller: its own target, and the list price that both know."""

    role: int
    trade: str
    list_price: float
    target: float

    def hear(self, role: int, text: str) -> Heard:
        return hear(text)

    @cached_property
    def top(self) -> float:  # type: ignore[override]
        """Worth of the opening: the list price for a seller, well below the target for a buyer."""
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
        return _FORMS[self.trade][form % 3].format(dollars(terms))


_FORMS = {
    BUYER: ("I can pay {}.", "How about {}?", "I would take it for {}."),
    SELLER: ("I can let it go for {}.", "How about {}?", "I would sell it for {}."),
}


def _step(list_price: float) -> float:
    """Return the price unit, about a hundredth of the list price."""
    return next((step for least, step in ((2000, 50.0), (400, 5.0), (40, 1.0)) if list_price >= least), 0.5)


@dataclass(frozen=True)
class Bargain(Game):
    """A sale at a public list price; `targets` and `trades` ("buyer", "seller") are by role, targets private."""

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
        return hear(text)

    @cached_property
    def sides(self) -> tuple[BargainSide, BargainSide]:
        first, second = (BargainSide(role, self.trades[role], self.list_price, self.targets[role]) for role in (0, 1))
        return first, second

    def goals(self, terms: float) -> tuple[int, int]:
        first, second = (whole(side.worth(terms)) for side in self.sides)
        return first, second

    @property
    def solvable(self) -> bool:
        """Tries the targets and prices between them."""
        low, high = sorted(self.targets)
        prices = (low, (low + high) / 2, high)
        return any(min(self.goals(price)) > 6 for price in prices)

    def tell(self, terms: Any) -> str:
        return dollars(terms)
