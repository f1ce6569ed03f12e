"""Official products, and what the original shop answered for them; tests skip where these are absent."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.goals import Goal
from agentgym.webshop.official.files import read_products, requests_of
from tests import oracles
from tests.oracles import oracle

FOLDER = oracles.FOLDER / "webshop"


@cache
def catalogue() -> MemoryCatalogue:
    """The 1,000 products of the small set."""
    attributes = requests_of(oracle("webshop", "items_ins_v2_1000.json"))
    return MemoryCatalogue(read_products(oracle("webshop", "items_shuffle_1000.json"), attributes))


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Rows of a compressed file."""
    return oracles.rows("webshop", f"{name}.jsonl.xz")


def goal(row: dict[str, Any]) -> Goal:
    """A recorded goal."""
    options = row["goal_options"]
    return Goal(
        asin=row["asin"],
        name=row["name"],
        category=row["category"],
        query=row["query"],
        product_category=row["product_category"],
        instruction=row["instruction_text"],
        attributes=tuple(row["attributes"]),
        options=tuple(options.items()) if isinstance(options, dict) else tuple(options),
        price_upper=row["price_upper"],
    )
