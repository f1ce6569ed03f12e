"""The goals of a catalogue, in the original's order."""

import random
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.catalogue import Catalogue, Options, Product

_LIMITS = tuple([10.0 * i for i in range(1, 100)])
_CANDIDATES = 4
#: The two kinds of goals: made from products, and written by people.
KINDS = ("synthetic", "human")
#: Seed of the order of goals.
ORDER_SEED = 233
#: Maximum number of goals: about three gigabytes.
MOST_GOALS = 100_000_000
#: Maximum number of cached `_Offer`s.
_OFFERS = 4096
#: No limit: the request names no price.
NO_LIMIT = 1_000_000.0


class Goal(NamedTuple):
    """A request and, hidden from the agent, the product that it was made from.

    `asin`, `name` (the title), `category`, `query`, `product_category` are the product's; the purchase should have the
    `attributes` and `options` and cost at most `price_upper`. Options are (name, value) pairs of a synthetic goal, bare
    values of a human one, as in the original, whose reward treats them differently.
    """

    asin: str
    name: str
    category: str
    query: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...] | tuple[str, ...]
    price_upper: float


@dataclass(frozen=True, slots=True)
class HumanRequest:
    """A request that a person wrote for a product."""

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


class Wish(NamedTuple):
    """A product with some of its options as (name, value) pairs, sorted by name, for which a request can be made."""

    product: int
    options: tuple[tuple[str, str], ...]


class Goals(ABC):
    """Goals of a kind, "synthetic" or "human", in the original's order; `products` has each goal's product."""

    kind: str
    products: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.products)

    @abstractmethod
    def __getitem__(self, index: int, /) -> Goal:
        """Return a goal by its index."""

    def for_wish(self, wish: Wish) -> Goal | None:
        """Return a goal for this wish; None if no goal asks for the product.

        A TypeError if the words are from people or a record, a ValueError if the product does not have the options.
        """
        raise TypeError(f"{self.kind} goals from people or a record exist only for their own requests")

    def indices(self, wish: Wish) -> list[int]:
        """Return the indices of the goals with exactly this product and these options, ascending."""
        found = np.flatnonzero(self.products == wish.product).tolist()
        return [index for index in found if self[index].options == wish.options]


def draw_limit(price: float, rng: random.Random) -> float:
    """Return the larger of two of the next four multiples of ten above the price; without two below 1,000, no limit."""
    first = bisect_right(_LIMITS, price)
    candidates = _LIMITS[first : first + _CANDIDATES]
    return max(rng.sample(candidates, 2)) if len(candidates) >= 2 else NO_LIMIT


def _hidden(product: Product) -> tuple[str, str, str, str, str]:
    return product.asin, product.title, product.category, product.query, product.product_category


def _end(limit: float) -> str:
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


class _Offer(NamedTuple):
    hidden: tuple[str, str, str, str, str]
    request: str
    end: str
    attributes: tuple[str, ...]
    options: Options
    limit: float


def _offer(catalogue: Catalogue, limits: Mapping[int, float], position: int) -> _Offer:
    product, limit = catalogue[position], limits[position]
    assert product.instruction is not None
    options = tuple(sorted(product.options, reverse=True))  # the last name's values change fastest
    wished = product.instruction_attributes
    return _Offer(_hidden(product), product.instruction, _end(limit), wished, options, limit)


def _instructed(offer: _Offer, options: tuple[tuple[str, str], ...]) -> Goal:
    wishes = ", and ".join([f"{name}: {value}" for name, value in options])
    request = f"{offer.request} with {wishes}" if wishes else offer.request
    return Goal(*offer.hidden, request + offer.end, offer.attributes, options, offer.limit)


def _order(count: int) -> NDArray[np.int64]:
    order = array("q", range(count))
    random.Random(ORDER_SEED).shuffle(order)
    return np.array(order, np.int64)


class SyntheticGoals(Goals):
    """One goal for every combination of options of every product with a request; at most `MOST_GOALS` (a ValueError).

    Goals are numbers (product, choice, limit) until they are used. `rng` draws limits in order of products.
    """

    kind = "synthetic"

    def __init__(self, catalogue: Catalogue, prices: NDArray[np.float64], rng: random.Random) -> None:
        choices = catalogue.choices()
        asked = np.flatnonzero(choices >= 0)
        self._limits = {int(i): draw_limit(float(prices[i]), rng) for i in asked}
        counts = choices[asked]
        if counts.sum(dtype=np.float64) > MOST_GOALS:
            raise ValueError(f"the products have more than {MOST_GOALS:,} combinations of options: use fewer products")
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        order = _order(int(counts.sum()))
        self.products = np.repeat(asked.astype(np.int32), counts)[order]
        self._choices = (np.arange(len(order)) - starts)[order]
        self._offer = lru_cache(_OFFERS)(partial(_offer, catalogue, self._limits))

    def __getitem__(self, index: int) -> Goal:
        rest, chosen = int(self._choices[index]), []
        offer = self._offer(int(self.products[index]))
        for name, values in offer.options:
            rest, number = divmod(rest, len(values))
            chosen.append((name, values[number]))
        chosen.reverse()
        return _instructed(offer, tuple(chosen))

    def for_wish(self, wish: Wish) -> Goal | None:
        if wish.product not in self._limits:
            return None
        offer = self._offer(wish.product)
        there = dict(offer.options)
        for name, value in wish.options:
            if value not in there.get(name, ()):
                raise ValueError(
                    f"product {offer.hidden[0]} has no option {name!r:.200} with the value {value!r:.200}; it has "
                    f"{there!r:.500}"
                )
        return _instructed(offer, wish.options)


class HumanGoals(Goals):
    """One goal for every human request that names an attribute and a product of the catalogue.

    `rng` draws one limit each, in order of the products.
    """

    kind = "human"

    def __init__(
        self,
        catalogue: Catalogue,
        prices: NDArray[np.float64],
        rng: random.Random,
        requests: Mapping[str, Sequence[HumanRequest]],
    ) -> None:
        self._catalogue = catalogue
        known = sorted([(i, asin) for asin in requests if (i := catalogue.find(asin)) is not None])
        rows = [(i, request) for i, asin in known for request in requests[asin] if request.attributes]
        limits = [draw_limit(float(prices[i]), rng) for i, _ in rows]
        order = _order(len(rows))
        self._requests = [(rows[i][1], limits[i]) for i in order]
        self.products = np.array([rows[i][0] for i in order], np.int32)

    def __getitem__(self, index: int) -> Goal:
        request, limit = self._requests[index]
        product = self._catalogue[int(self.products[index])]
        instruction = request.instruction.strip(".") + _end(limit)
        return Goal(*_hidden(product), instruction, request.attributes, request.options, limit)


class GivenGoals(Goals):
    """Goals from a list, in their order; the catalogue must contain every goal's product."""

    def __init__(self, catalogue: Catalogue, goals: Sequence[Goal], kind: str) -> None:
        self.kind = kind
        self._goals = tuple(goals)
        positions = [catalogue.find(goal.asin) for goal in self._goals]
        if None in positions:
            i = positions.index(None)
            raise ValueError(
                f"goal {i} is about {self._goals[i].asin}, which the catalogue ({len(catalogue)} products) lacks"
            )
        self.products = np.array(positions, np.int32)

    def __getitem__(self, index: int) -> Goal:
        return self._goals[index]
