"""Official products, and what the original shop answered for them; tests skip where these are absent."""

import json
import lzma
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.goals import Goal
from agentgym.webshop.official.files import read_products, requests_of
from tests.oracles import FOLDER as DATA
from tests.oracles import oracle

FOLDER = DATA / "webshop"
#: Path of a file of the folder.
find = partial(oracle, "webshop")


@cache
def catalogue() -> MemoryCatalogue:
    """The 1,000 products of the small set."""
    attributes = requests_of(find("items_ins_v2_1000.json"))
    return MemoryCatalogue(read_products(find("items_shuffle_1000.json"), attributes))


def rows(name: str) -> Iterator[dict[str, Any]]:
    with lzma.open(find(f"{name}.jsonl.xz"), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def goal(row: dict[str, Any]) -> Goal:
    options = row["goal_options"]
    names = ("asin", "name", "category", "query", "product_category", "price_upper")
    return Goal(
        **{name: row[name] for name in names},
        instruction=row["instruction_text"],
        attributes=tuple(row["attributes"]),
        options=tuple(options.items()) if isinstance(options, dict) else tuple(options),
    )
