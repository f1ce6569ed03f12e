"""What every catalogue of products can do, one in memory, and what its products cost."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.catalogue.product import Product, ends


class Catalogue(Protocol):
    """Products in a fixed order; a product's position is its number in all that follows."""

    def __len__(self) -> int:
        """Number of products."""

    def __getitem__(self, position: int, /) -> Product:
        """Return a product by its position (0 to len - 1)."""

    def __iter__(self) -> Iterator[Product]:
        """Yield all products in order, without keeping them."""

    def find(self, asin: str) -> int | None:
        """Return the position of an asin, None when there is none."""

    def having(self, field: str, value: str) -> Sequence[int]:
        """Return the positions of all products of a category or query, ascending; empty for an unknown one.

        Args:
            field: "category" or "query".
            value: which one.
        """

    def __hash__(self) -> int:
        """Two catalogues are the same only if they are one object."""

    def prices(self) -> NDArray[np.float64]:
        """Return every product's price and the other end of its range, nan without one; shape (products, 2)."""

    def choices(self) -> NDArray[np.int64]:
        """Return `Product.choices()` of every product, shape (products,)."""


class MemoryCatalogue:
    """Products in a tuple.

    Args:
        products: in the order of their positions; asins must differ.
    """

    def __init__(self, products: Iterable[Product]) -> None:
        self._products = tuple(products)
        self._positions = {product.asin: i for i, product in enumerate(self._products)}
        if len(self._positions) != len(self._products):
            seen: set[str] = set()
            repeated = next(p.asin for p in self._products if p.asin in seen or seen.add(p.asin))  # type: ignore[func-returns-value]
            raise ValueError(f"the asins of a catalogue must differ, {repeated!r} is there more than once")
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
        """Return the position of an asin, None when there is none."""
        return self._positions.get(asin)

    def having(self, field: str, value: str) -> Sequence[int]:
        """Return the positions of all products of a category or query."""
        return self._having.get((field, value), ())

    def prices(self) -> NDArray[np.float64]:
        """Return every product's price and the other end of its range."""
        return np.array([ends(product) for product in self._products], np.float64).reshape(-1, 2)

    def choices(self) -> NDArray[np.int64]:
        """Return `Product.choices()` of every product."""
        return np.array([product.choices() for product in self._products], np.int64)


def draw_prices(catalogue: Catalogue, rng: random.Random) -> NDArray[np.float64]:
    """Return what every product costs: its price, or a uniform draw from its range.

    The draws are those that the original makes when it starts, in order of the products.
    """
    rows = catalogue.prices().tolist()
    return np.array([low if math.isnan(high) else rng.uniform(low, high) for low, high in rows], np.float64)


def known_prices(catalogue: Catalogue, given: Mapping[str, float]) -> NDArray[np.float64]:
    """Return what every product costs by a table asin -> price.

    Raises:
        ValueError: when a product is not in the table.
    """
    prices = np.empty(len(catalogue), np.float64)
    for i, product in enumerate(catalogue):
        if product.asin not in given:
            raise ValueError(f"the table of prices must hold every product, it lacks {product.asin}")
        prices[i] = given[product.asin]
    return prices
