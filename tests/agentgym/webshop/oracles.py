"""Official products, and what the original shop answered for them; tests skip where these are absent."""

import json
import lzma
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentgym.webshop.catalogue import MemoryCatalogue
from agentgym.webshop.goals import Goal
from agentgym.webshop.official.files import read_products, requests_of

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "webshop"


def find(name: str) -> Path:
    """Path of a file of the folder."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no WebShop oracles: {path} does not exist (set AGENTGYM_ORACLES to the folder of webshop/)")
    return path


@cache
def catalogue() -> MemoryCatalogue:
    """The 1,000 products of the small set."""
    attributes = requests_of(find("items_ins_v2_1000.json"))
    return MemoryCatalogue(read_products(find("items_shuffle_1000.json"), attributes))


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Rows of a compressed file."""
    with lzma.open(find(f"{name}.jsonl.xz"), "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


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
