"""A catalogue in memory, for up to some ten thousand products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.catalogue.prices import ends
from agentgym.webshop.catalogue.product import Product


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
        categories, queries = defaultdict(list), defaultdict(list)
        for i, product in enumerate(self._products):
            categories[product.category].append(i)
            queries[product.query].append(i)
        self._categories = {name: tuple(positions) for name, positions in categories.items()}
        self._queries = {name: tuple(positions) for name, positions in queries.items()}

    def __len__(self) -> int:
        """Number of products."""
        return len(self._products)

    def __getitem__(self, position: int) -> Product:
        """Return a product by its position."""
        return self._products[position]

    def __iter__(self) -> Iterator[Product]:
        """Yield all products in order."""
        return iter(self._products)

    def find(self, asin: str) -> int | None:
        """Return the position of an asin, None when there is none."""
        return self._positions.get(asin)

    def of_category(self, category: str) -> Sequence[int]:
        """Return the positions of a category's products."""
        return self._categories.get(category, ())

    def of_query(self, query: str) -> Sequence[int]:
        """Return the positions of a query's products."""
        return self._queries.get(query, ())

    def prices(self) -> NDArray[np.float64]:
        """Return every product's price and the other end of its range."""
        return np.array([ends(product) for product in self._products], np.float64).reshape(-1, 2)

    def choices(self) -> NDArray[np.int64]:
        """Return `Product.choices()` of every product."""
        return np.array([product.choices() for product in self._products], np.int64)
