"""A product of the shop, and its price tag."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

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
