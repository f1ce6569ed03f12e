"""Products, price tags, and the interface of a catalogue."""

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.text import tables_beside

#: Instructions, repairs and word lists.
TEXTS = tables_beside(__file__, "texts.toml")
#: Option groups in the shop's order: (name, values), in lower case; values may repeat.
Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A product of the shop (see `official.files` for raw records).

    `prices`: amounts on the price tag `price_text` (none, one, or the ends of a range). Hidden from shoppers:
    `attributes` ("easy clean") and `query`, the search term that found the product. `product_category`: departments,
    separated by " › ". `instruction`: request without options and price, None without a goal.
    """

    asin: str
    title: str
    description: str
    bullets: tuple[str, ...]
    prices: tuple[float, ...]
    price_text: str
    options: Options
    attributes: tuple[str, ...]
    category: str
    query: str
    product_category: str
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()

    def choices(self) -> int:
        """Number of combinations of one value per option group; -1 if no goal asks for the product."""
        return -1 if self.instruction is None else math.prod([len(values) for _, values in self.options])


#: Price of a product without a price tag.
UNPRICED = 100.0
_NOT_AN_AMOUNT = re.compile(r"[^\d.]")
#: Maximum length of an amount.
_LONGEST = 300


def read_tag(pricing: str | None) -> tuple[tuple[float, ...], str]:
    """Return the amounts of a raw price tag (the first two) and the shown tag; a ValueError for $ without a number.

    >>> read_tag("$5 - $7.99")
    ((5.0, 7.99), '$5.0 to $7.99')
    """
    if not pricing:
        return (UNPRICED,), f"${UNPRICED}"
    parts = [_NOT_AN_AMOUNT.sub("", part) for part in pricing.split("$")[1:]]
    try:
        amounts = () if any(len(part) > _LONGEST for part in parts) else tuple([float(Decimal(part)) for part in parts])
    except InvalidOperation:
        amounts = ()
    if not amounts:
        raise ValueError(f"expected amounts like '$12.99' or '$5.00 - $7.99', got {pricing!r:.200}")
    if len(amounts) == 1:
        return amounts, f"${amounts[0]}"
    return amounts[:2], f"${amounts[0]} to ${amounts[1]}"


def ends(product: Product) -> tuple[float, float]:
    """Return a product's price and the other end of its range, nan without one."""
    first, *others = product.prices or (UNPRICED,)
    return first, others[0] if others else math.nan


class Catalogue(Protocol):
    """Products in a fixed order, numbered by position."""

    def __len__(self) -> int:
        """Number of products."""

    def __getitem__(self, position: int, /) -> Product:
        """Return a product by its position (0 to len - 1)."""

    def __iter__(self) -> Iterator[Product]:
        """Yield all products in order, without storing them."""

    def find(self, asin: str) -> int | None:
        """Return the position of an asin, None if it is missing."""

    def having(self, field: str, value: str) -> Sequence[int]:
        """Return the positions of all products with a value of "category" or "query", ascending."""

    def __hash__(self) -> int:
        """Identity: two catalogues are equal only if they are one object."""

    def prices(self) -> NDArray[np.float64]:
        """Return price and other end of the range (nan without one) of every product; shape (products, 2)."""

    def choices(self) -> NDArray[np.int64]:
        """Return `Product.choices()` of every product, shape (products,)."""


class MemoryCatalogue:
    """Products in a tuple; asins must differ."""

    def __init__(self, products: Iterable[Product]) -> None:
        self._products = tuple(products)
        self._positions = {product.asin: i for i, product in enumerate(self._products)}
        if len(self._positions) != len(self._products):
            repeated = next(p.asin for i, p in enumerate(self._products) if self._positions[p.asin] != i)
            raise ValueError(f"the asins of a catalogue must differ, {repeated!r} is repeated")
        self._having: dict[tuple[str, str], list[int]] = {}
        for i, product in enumerate(self._products):
            for key in (("category", product.category), ("query", product.query)):
                self._having.setdefault(key, []).append(i)

    def __len__(self) -> int:
        return len(self._products)

    def __getitem__(self, position: int) -> Product:
        return self._products[position]

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products)

    def find(self, asin: str) -> int | None:
        return self._positions.get(asin)

    def having(self, field: str, value: str) -> Sequence[int]:
        return self._having.get((field, value), ())

    def prices(self) -> NDArray[np.float64]:
        return np.array([ends(product) for product in self._products], np.float64).reshape(-1, 2)

    def choices(self) -> NDArray[np.int64]:
        return np.array([product.choices() for product in self._products], np.int64)


def draw_prices(catalogue: Catalogue, rng: random.Random) -> NDArray[np.float64]:
    """Return every product's price, drawn uniformly from a range; draws and order are the original's."""
    rows = catalogue.prices().tolist()
    return np.array([low if math.isnan(high) else rng.uniform(low, high) for low, high in rows], np.float64)


def known_prices(catalogue: Catalogue, given: Mapping[str, float]) -> NDArray[np.float64]:
    """Return every product's price by a table asin -> price; a ValueError for a missing product."""
    prices = np.empty(len(catalogue), np.float64)
    for i, product in enumerate(catalogue):
        if product.asin not in given:
            raise ValueError(f"the table of prices lacks the product {product.asin}")
        prices[i] = given[product.asin]
    return prices
