"""Price tags, and the price of each product that the tag may leave open."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.catalogue.product import Catalogue, Product

#: What a product without a price tag costs.
UNPRICED = 100.0
_NOT_AN_AMOUNT = re.compile(r"[^\d.]")
#: Most characters of an amount: longer ones are damage.
_LONGEST = 300


def read_tag(pricing: str | None) -> tuple[tuple[float, ...], str]:
    """Return the amounts of a raw price tag (the first two) and the tag that the shop shows.

    Raises:
        ValueError: when there is no amount behind a $, or it is no number.

    >>> read_tag("$1,012.50"), read_tag("$5 - $7.99"), read_tag("")
    (((1012.5,), '$1012.5'), ((5.0, 7.99), '$5.0 to $7.99'), ((100.0,), '$100.0'))
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
