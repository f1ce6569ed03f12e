"""A product of the shop, and what every catalogue of products can do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

#: Option groups in the shop's order: (name, values); names and values in lower case, values may repeat.
Options = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A product as the shop keeps it (see `files` for how raw records become products).

    Attributes:
        asin: identifier, unique in its catalogue.
        title: name, as on its page.
        description: long text; may be empty.
        bullets: the feature list.
        prices: amounts on the price tag: none, one, or the two ends of a range.
        price_text: the price tag.
        options: option groups.
        attributes: what the product is said to be ("easy clean"); hidden from shoppers.
        category: one of a few departments ("fashion").
        query: the search term the product was found with, lower case; hidden.
        product_category: path of shop departments, levels separated by " › ".
        instruction: request that this product fulfils, without options and price; None when nobody asks for it.
        instruction_attributes: the attributes that the request names.
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
        """Number of ways to choose one value of every option group; -1 when nobody asks for the product."""
        return -1 if self.instruction is None else math.prod([len(values) for _, values in self.options])


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

    def of_category(self, category: str) -> Sequence[int]:
        """Return the positions of all products of a category, ascending; empty for an unknown one."""

    def of_query(self, query: str) -> Sequence[int]:
        """Return the positions of all products of a query, ascending; empty for an unknown one."""

    def __hash__(self) -> int:
        """Two catalogues are the same only if they are one object."""

    def prices(self) -> NDArray[np.float64]:
        """Return every product's price and the other end of its range, nan without one; shape (products, 2)."""

    def choices(self) -> NDArray[np.int64]:
        """Return `Product.choices()` of every product, shape (products,)."""
