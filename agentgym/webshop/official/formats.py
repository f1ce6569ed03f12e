"""Products written down as the official files hold them, for other programs that read these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from agentgym.webshop.catalogue.product import Product

ITEMS, REQUESTS, HUMAN = "items_shuffle.json", "items_ins_v2.json", "items_human_ins.json"


def raw_record(product: Product) -> dict[str, Any]:
    """Return a product's record of the items file; nothing that the shop shows gets lost.

    >>> from agentgym.webshop.generated.generator import make_product
    >>> raw_record(make_product(0, 0))["pricing"]
    '$29.99'
    """
    return {
        "asin": product.asin,
        "name": product.title,
        "full_description": product.description,
        "small_description": list(product.bullets),
        "pricing": product.price_text,
        "images": [""],
        "product_category": product.product_category,
        "category": product.category,
        "query": product.query,
        "customization_options": {name: [{"value": value} for value in values] for name, values in product.options}
        or "",
    }


def raw_request(product: Product) -> dict[str, Any]:
    """Return a product's entry in the file of attributes and requests."""
    entry: dict[str, Any] = {"attributes": list(product.attributes)}
    if product.instruction is not None:
        entry |= {"instruction": product.instruction, "instruction_attributes": list(product.instruction_attributes)}
    return entry


def write_files(products: Iterable[Product], folder: Path, human: Mapping[str, Any] | None = None) -> None:
    """Write the three files of a product set, one product at a time.

    Args:
        products: in the order of the items file.
        folder: where; made when missing.
        human: requests that people wrote, asin -> list of records.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        open(folder / ITEMS, "w", encoding="utf-8") as items,
        open(folder / REQUESTS, "w", encoding="utf-8") as requests,
    ):
        items.write("[")
        requests.write("{")
        for i, product in enumerate(products):
            _entry(items, i, raw_record(product))
            _entry(requests, i, raw_request(product), product.asin)
        items.write("]\n")
        requests.write("}\n")
    (folder / HUMAN).write_text(json.dumps(dict(human or {})), encoding="utf-8")


def _entry(file: TextIO, number: int, value: Any, key: str | None = None) -> None:
    file.write((",\n" if number else "\n") + (f"{json.dumps(key)}: " if key is not None else "") + json.dumps(value))
