"""Price tags, and the price of each product that the tag may leave open."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

from agentgym.webshop.product import Product

#: What a product without a price tag costs.
UNPRICED = 100.0
_NOT_AN_AMOUNT = re.compile(r"[^\d.]")


def read_tag(pricing: str | None) -> tuple[tuple[float, ...], str]:
    """Return the amounts of a raw price tag (the first two) and the tag that the shop shows.

    Raises:
        ValueError: when there is no amount behind a $, or it is no number.

    >>> read_tag("$1,012.50"), read_tag("$5 - $7.99"), read_tag("")
    (((1012.5,), '$1012.5'), ((5.0, 7.99), '$5.0 to $7.99'), ((100.0,), '$100.0'))
    """
    if not pricing:
        return (UNPRICED,), f"${UNPRICED}"
    try:
        amounts = tuple([float(Decimal(_NOT_AN_AMOUNT.sub("", part))) for part in pricing.split("$")[1:]])
    except InvalidOperation:
        amounts = ()
    if not amounts:
        raise ValueError(f"expected amounts like '$12.99' or '$5.00 - $7.99', got {pricing!r}")
    if len(amounts) == 1:
        return amounts, f"${amounts[0]}"
    return amounts[:2], f"${amounts[0]} to ${amounts[1]}"


def draw_price(product: Product, rng: random.Random) -> float:
    """Return what a product costs: its amount, or a uniform draw when the tag is a range (one draw of `rng`)."""
    amounts = product.prices
    if len(amounts) > 1:
        return rng.uniform(amounts[0], amounts[1])
    return amounts[0] if amounts else UNPRICED


def draw_prices(products: Iterable[Product], rng: random.Random) -> list[float]:
    """Return the price of every product, drawn in order, as the original does when it starts."""
    return [draw_price(product, rng) for product in products]
