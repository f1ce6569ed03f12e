"""Products as files in the official form."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym.webshop.catalogue import Product


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
