"""A shop of a few products whose pages, goals and scores can be worked out by hand; products as official files; and the
official products, with what the original shop answered for them: tests skip where these are absent."""

import json
import lzma
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.webshop.catalogue import MemoryCatalogue, Options, Product
from agentgym.webshop.goals import Goal, SyntheticGoals
from agentgym.webshop.official.files import read_products, requests_of
from agentgym.webshop.pages import Pages
from agentgym.webshop.reward import Grader, make_tagger
from agentgym.webshop.search import bm25_build
from agentgym.webshop.search.bm25 import Bm25
from agentgym.webshop.search.search import Recent, documents
from agentgym.webshop.session import Session, Shop
from agentgym.webshop.tasks import Tasks
from tests.oracles import FOLDER as DATA
from tests.oracles import oracle


def product(asin: str, title: str, options: Options = (), **fields: object) -> Product:
    """A product with a request."""
    given = Product(
        asin=asin, title=title, description="It is good.", bullets=("wool inside",), prices=(12.0,), price_text="$12.0",
        options=options, attributes=("warm",), category="fashion", query="socks",
        product_category="Clothing › Socks › Warm Socks", instruction="find me warm socks",
        instruction_attributes=("warm",),
    )  # fmt: skip
    return replace(given, **fields)  # type: ignore[arg-type]


def shop_of(*products: Product) -> Shop:
    sold = MemoryCatalogue(products)
    prices = np.array([each.prices[0] if each.prices else 100.0 for each in products])
    search = Recent(Bm25(bm25_build.build(documents(sold))))
    return Shop(sold, search, Grader(sold, prices, make_tagger("words")), Pages(sold))


def tasks_of(*products: Product, split_by: str = "goal", winnable: bool = False) -> Tasks:
    shop = shop_of(*products)
    prices = np.array([each.prices[0] for each in products])
    return Tasks(shop, SyntheticGoals(shop.catalogue, prices, random.Random(0)), split_by, winnable)


def goal_of(wanted: Product, **changes: object) -> Goal:
    """The request for a product, whatever its options."""
    names = ("asin", "category", "query", "product_category")
    facts = {
        "name": wanted.title, "instruction": wanted.instruction or "", "attributes": wanted.instruction_attributes,
        "options": (), "price_upper": 20.0,
    }  # fmt: skip
    return Goal(**({name: getattr(wanted, name) for name in names} | facts | changes))  # type: ignore[arg-type]


def visit(shop: Shop, brackets: bool = False) -> Session:
    """A visit whose goal is the first product."""
    return Session(shop, goal_of(shop.catalogue[0]), "7", brackets=brackets)


def raw_record(product: Product) -> dict[str, Any]:
    """Return a product's record of the items file, with everything that the shop shows."""
    options = {name: [{"value": value} for value in values] for name, values in product.options}
    return {
        "asin": product.asin, "name": product.title, "full_description": product.description,
        "small_description": list(product.bullets), "pricing": product.price_text, "images": [""],
        "product_category": product.product_category, "category": product.category, "query": product.query,
        "customization_options": options or "",
    }  # fmt: skip


def raw_request(product: Product) -> dict[str, Any]:
    """Return a product's entry in the file of attributes and requests."""
    entry: dict[str, Any] = {"attributes": list(product.attributes)}
    if product.instruction is not None:
        entry |= {"instruction": product.instruction, "instruction_attributes": list(product.instruction_attributes)}
    return entry


def write_files(products: Iterable[Product], folder: Path, human: Mapping[str, Any] | None = None) -> None:
    """Write the three files of a product set; `human` is asin -> list of records."""
    folder.mkdir(parents=True, exist_ok=True)
    products = list(products)
    contents = {
        "items_shuffle.json": list(map(raw_record, products)),
        "items_ins_v2.json": {product.asin: raw_request(product) for product in products},
        "items_human_ins.json": dict(human or {}),
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


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


def recorded_goal(row: dict[str, Any]) -> Goal:
    options = row["goal_options"]
    names = ("asin", "name", "category", "query", "product_category", "price_upper")
    return Goal(
        **{name: row[name] for name in names},
        instruction=row["instruction_text"],
        attributes=tuple(row["attributes"]),
        options=tuple(options.items()) if isinstance(options, dict) else tuple(options),
    )


#: A product with every part.
PRODUCT = product(
    "B000000001", "Blue Cotton Shirt for Men", (("size", ("small", "large")), ("color", ("red", "sky blue"))),
    description="It dries quickly.", bullets=("Machine wash", "Long sleeve"), prices=(20.0,), price_text="$20.0",
    attributes=("easy care", "quick drying"), query="shirts", product_category="Clothing › Men › Shirts",
    instruction_attributes=("easy care",),
)  # fmt: skip
