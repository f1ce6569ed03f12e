"""A shop of a few products whose pages, goals and scores can be worked out by hand."""

import random
from dataclasses import replace

import numpy as np

from agentgym.webshop.catalogue import MemoryCatalogue, Options, Product
from agentgym.webshop.goals import Goal, SyntheticGoals
from agentgym.webshop.pages import Pages
from agentgym.webshop.reward import Grader, make_tagger
from agentgym.webshop.search import bm25_build
from agentgym.webshop.search.bm25 import Bm25
from agentgym.webshop.search.search import Recent, documents
from agentgym.webshop.session import Session, Shop
from agentgym.webshop.tasks import Tasks


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
    catalogue = MemoryCatalogue(products)
    prices = np.array([each.prices[0] if each.prices else 100.0 for each in products])
    search = Recent(Bm25(bm25_build.build(documents(catalogue))))
    return Shop(catalogue, search, Grader(catalogue, prices, make_tagger("words")), Pages(catalogue))


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
