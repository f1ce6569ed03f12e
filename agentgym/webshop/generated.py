"""The generated shop as a catalogue of any size, which keeps nothing but its numbers."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.departments import KINDS
from agentgym.webshop.generator import BLOCK, MOST, article_number, index_of, kinds_of_block, make_product
from agentgym.webshop.product import Product

#: Products of the shop that is there without data.
NUM_PRODUCTS = 2_000


class GeneratedCatalogue:
    """Products made when they are asked for; the same arguments give the same shop on any machine.

    A shop of more products begins with those of a smaller one.

    Args:
        num_products: how many.
        seed: another one gives another shop.
        asked: share of the products that somebody asks for, in 0..1.

    Raises:
        ValueError: a number is out of range.

    >>> shop = GeneratedCatalogue(1_000_000)
    >>> shop.find(shop[765_432].asin), shop.of_category("garden")[:2]
    (765432, array([3, 5]))
    """

    def __init__(self, num_products: Any = NUM_PRODUCTS, *, seed: Any = 0, asked: Any = 1.0) -> None:
        for name, value, least, most in (("num_products", num_products, 1, MOST), ("seed", seed, 0, 2**63)):
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not least <= value <= most:
                raise ValueError(f"{name} must be an integer in {least}..{most}, got {value!r}")
        if isinstance(asked, bool) or not isinstance(asked, numbers.Real) or not 0 <= asked <= 1:
            raise ValueError(f"asked must be a share in 0..1, got {asked!r}")
        self._count, self._seed, self._asked = int(num_products), int(seed), float(asked)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int, /) -> Product:
        if not 0 <= position < self._count:
            raise IndexError(f"position {position} is not in a shop of {self._count} products")
        return make_product(self._seed, int(position), self._asked)

    def __iter__(self) -> Iterator[Product]:
        for position in range(self._count):
            yield make_product(self._seed, position, self._asked)

    def find(self, asin: str) -> int | None:
        """Return the position of an asin, None when there is none."""
        position = index_of(self._seed, asin)
        # The number is worked out backwards: only the product that really has this asin counts.
        if position is None or position >= self._count or article_number(self._seed, position) != asin:
            return None
        return position

    def of_category(self, category: str) -> Sequence[int]:
        """Return the positions of all products of a category, ascending."""
        return self._of([kind for kind, row in enumerate(KINDS) if row.category == category])

    def of_query(self, query: str) -> Sequence[int]:
        """Return the positions of all products of a query, ascending."""
        return self._of([kind for kind, row in enumerate(KINDS) if row.name == query])

    def _of(self, kinds: Sequence[int]) -> Any:
        return np.flatnonzero(np.isin(self._kinds, kinds))

    @cached_property
    def _kinds(self) -> NDArray[np.int8]:
        """Kind of every product, int8 (products,)."""
        blocks = range(-(-self._count // BLOCK))
        columns = [kinds_of_block(self._seed, block).astype(np.int8) for block in blocks]
        return np.concatenate(columns)[: self._count]
