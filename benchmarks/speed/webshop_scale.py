"""`speed shop-scale`: time, memory and disk of a WebShop of a million generated products, and its searches per second.

Real products have more words each and many more different words. The shop stays in the folder of the results.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.speed.record import Measurement, Part, SpeedConfig, costs_of, disk_of, speed_study

_SHOP, _INDEX = "catalogue", "bm25"
_K = 50


def _store(folder: Path, products: int) -> None:
    from agentgym.webshop.generated.generator import generate
    from agentgym.webshop.store import build

    build(folder / _SHOP, generate(products))


def _index(folder: Path, _: int) -> None:
    from agentgym.webshop.search.bm25_build import build
    from agentgym.webshop.search.search import documents
    from agentgym.webshop.store import StoredCatalogue

    build(documents(StoredCatalogue(folder / _SHOP)), folder / _INDEX)


def _opened(folder: Path) -> tuple[Any, Any]:
    from agentgym.webshop.search.bm25 import Bm25, load
    from agentgym.webshop.store import StoredCatalogue

    return StoredCatalogue(folder / _SHOP), Bm25(load(folder / _INDEX))


def _open(folder: Path, _: int) -> None:
    shop, search = _opened(folder)
    for position in search.top("blue cotton shirt", _K)[:10]:
        assert shop[position].title


def _search(folder: Path, count: int) -> dict[str, list[float]]:
    shop, search = _opened(folder)
    rng = np.random.default_rng(0)
    products = [shop[int(position)] for position in rng.integers(len(shop), size=count)]
    kinds = {
        "the whole request": [product.instruction or product.title for product in products],
        "the whole title": [product.title for product in products],
        "three words of the title": [" ".join(product.title.split()[-3:]) for product in products],
        "the kind of product": [product.query for product in products],
    }
    found: dict[str, list[float]] = {}
    for kind, queries in kinds.items():
        found[kind] = []
        for query in queries:
            begin = time.process_time()
            search.top(query.lower(), _K)
            found[kind].append(time.process_time() - begin)
    return found


#: Words, work, and the folder that it writes, by the name of a part.
_STEPS: dict[str, tuple[str, Callable[[Path, int], Any], str]] = {
    "generate": ("generate products into a folder", _store, _SHOP),
    "index": ("index them in a folder", _index, _INDEX),
    "open": ("open both, first search", _open, ""),
    "search": ("all searches below", _search, ""),
}


def measure(config: SpeedConfig, part: str, folder: Path) -> Part:
    """Do one step in a new process; the folder that it writes is written anew."""
    words, work, written = _STEPS[part]
    if written:
        shutil.rmtree(folder / written, ignore_errors=True)
    count = config.options["queries" if part == "search" else "products"]
    figures, seconds = costs_of(work, folder, count)
    if written:
        figures["disk"] = disk_of(folder / written)
    title, units = f"{config.options['products']:,} generated products", {"processor": "s", "clock": "s"}
    found = [
        Measurement(f"{part}_{name}", title, words, True, value, units.get(name, "MB"), column=name)
        for name, value in figures.items()
    ]
    for kind, times in (seconds or {}).items():
        for name, value, unit in (
            ("searches", 1 / float(np.mean(times)), "searches/s"), ("median", 1e3 * float(np.median(times)), "ms"),
            ("slowest", 1e3 * max(times), "ms"),
        ):  # fmt: skip
            key = f"{name}_{kind.replace(' ', '_')}"
            found.append(Measurement(key, "best 50 products, every query new", kind, True, value, unit, column=name))
    return Part(found)


def configure(
    products: Annotated[int | None, typer.Option(min=1, help="Default: a million, with --quick 1,000.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Searches of each kind.")] = 500,
    quick: Annotated[bool, typer.Option("--quick", help="A small shop; for CI.")] = False,
) -> SpeedConfig:
    """Generate a large WebShop, index it on the disk, open it and search: time, memory, disk, searches per second."""
    return SpeedConfig(list(_STEPS), {"products": products or (1000 if quick else 1_000_000), "queries": queries})


STUDY = speed_study("shop-scale", "A large WebShop", configure, measure)
