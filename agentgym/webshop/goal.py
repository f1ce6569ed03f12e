"""What a shopper is asked to buy."""

from __future__ import annotations

from dataclasses import dataclass

#: A limit that no price reaches: the request names no price.
NO_LIMIT = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Goal:
    """A request and, hidden behind it, the product that it was made from.

    Attributes:
        asin: the product.
        name: the product's title.
        category: the product's category.
        query: the product's query.
        product_category: the product's path of departments.
        instruction: the request in words, as on every page.
        attributes: attributes that the purchase should have.
        options: wished options: (name, value) pairs of a synthetic goal, bare values of a human one. The original
            keeps a dict and a list; its reward treats them differently.
        price_upper: the price should not be above it.
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
