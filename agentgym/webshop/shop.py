"""Shops and their tasks, opened once per process: official files or generated products."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from agentgym.checks import check_name
from agentgym.outside.files import cache_folder, fingerprint, new_folder
from agentgym.outside.text import DataError
from agentgym.tasks import GENERATED
from agentgym.webshop import store
from agentgym.webshop.catalogue import Catalogue, MemoryCatalogue, Product, draw_prices, known_prices
from agentgym.webshop.generated.generator import NUM_PRODUCTS, generate
from agentgym.webshop.goals import KINDS, GivenGoals, Goals, HumanGoals, SyntheticGoals
from agentgym.webshop.official.files import (
    ProductFiles,
    find_files,
    read_human,
    read_products,
    read_record,
    requests_of,
)
from agentgym.webshop.pages import Pages
from agentgym.webshop.reward import Grader, make_tagger
from agentgym.webshop.search import bm25, bm25_build, lucene
from agentgym.webshop.search.search import Recent, documents
from agentgym.webshop.session import Shop
from agentgym.webshop.tasks import Tasks

#: A larger items file (bytes), or generated shop (products), is written to disk.
LARGE_FILE, LARGE_SHOP = 1 << 26, 20_000
_T = TypeVar("_T")
#: Names of the searches, and of their folders beside a catalogue on disk.
SEARCHES = _INDEX, _LUCENE = "bm25", "lucene"


@cache
def open_catalogue(data: str, num_products: int | None, seed: int, cache_in: str | Path | bool | None) -> Catalogue:
    """Return a catalogue; `data` is a path or `GENERATED`, the others are `env.WebShopEnv`'s."""
    folder = cache_folder(cache_in)
    facts: list[object]
    if data == GENERATED:
        count = NUM_PRODUCTS if num_products is None else num_products
        products = generate(count, seed=seed)
        large, facts = count > LARGE_SHOP, [GENERATED, count, seed]
    else:
        files = find_files(data)
        products = _official(files, num_products)
        large, facts = files.items.stat().st_size > LARGE_FILE, [num_products, files.items, files.requests]
    if not large or folder is None:
        found: Catalogue = MemoryCatalogue(products)
    else:
        place = folder / f"webshop-{fingerprint(*facts, store.VERSION, bm25.FORMAT)}"
        found = _kept(place, store.StoredCatalogue, lambda folder: store.build(folder, products))
    if not len(found):
        raise DataError(f"WebShop data: {data} contains no product")
    return found


def _kept(folder: Path, read: Callable[[Path], _T], write: Callable[[Path], object]) -> _T:
    if folder.is_dir():
        try:
            return read(folder)
        except (ValueError, OSError) as error:
            warnings.warn(f"{error}; it is rebuilt now", stacklevel=2)
            shutil.rmtree(folder, ignore_errors=True)  # another process may do the same
    write(folder)
    return read(folder)


def _official(files: ProductFiles, num_products: int | None) -> Iterator[Product]:
    # a generator: nothing is read if the catalogue is on disk already
    yield from read_products(files.items, requests_of(files.requests), num_products)


@cache
def open_search(catalogue: Catalogue, name: str) -> Recent:
    """Return one of the `SEARCHES` over a catalogue; the index of a catalogue on disk is in its folder."""
    if check_name(name, SEARCHES, "search") == "lucene":
        return Recent(lucene.Lucene(catalogue, _lucene_index(catalogue)))
    if not isinstance(catalogue, store.StoredCatalogue):
        return Recent(bm25.Bm25(bm25_build.build(documents(catalogue))))

    def write(folder: Path) -> None:
        with new_folder(folder) as temporary:
            bm25_build.build(documents(catalogue), temporary)

    return Recent(bm25.Bm25(_kept(catalogue.folder / _INDEX, bm25.load, write)))


def _lucene_index(catalogue: Catalogue) -> Path:
    if isinstance(catalogue, store.StoredCatalogue):
        folder = catalogue.folder / _LUCENE
        if not folder.is_dir():
            with new_folder(folder) as temporary:
                lucene.build(documents(catalogue), temporary)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="agentgym-lucene-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    lucene.build(documents(catalogue), folder)
    return folder


@cache
def open_tasks(
    *,
    data: str,
    goals: str,
    record: str | None,
    split_by: str,
    winnable: bool,
    search: str,
    noun_tagger: Any,
    num_products: int | None,
    price_seed: int,
    product_seed: int,
    cache_in: str | Path | bool | None,
) -> Tasks:
    """Return the tasks of a shop; arguments are those of `env.WebShopEnv`."""
    if check_name(goals, KINDS, "goals") == "human" and data == GENERATED:
        raise ValueError("goals='human' needs the official files: pass their folder as data=")
    catalogue = open_catalogue(data, num_products, product_seed, cache_in)
    rng = random.Random(price_seed)
    known = None if record is None else read_record(record)
    try:
        prices = draw_prices(catalogue, rng) if known is None else known_prices(catalogue, known.prices)
        given = None if known is None or known.goals is None else GivenGoals(catalogue, known.goals, goals)
    except ValueError as error:
        raise ValueError(f"{record}: {error}") from error
    found: Goals
    if given is not None:
        found = given
    elif goals == "human":
        found = HumanGoals(catalogue, prices, rng, read_human(find_files(data).human))
    else:
        found = SyntheticGoals(catalogue, prices, rng)
    if not len(found):
        raise DataError(f"WebShop data: no goal for any product of {data} (goals={goals!r})")
    grader = Grader(catalogue, prices, make_tagger(noun_tagger))
    shop = Shop(catalogue, open_search(catalogue, search), grader, Pages(catalogue))
    reopen = functools.partial(
        open_tasks, data=data, goals=goals, record=record, split_by=split_by, winnable=winnable, search=search,
        noun_tagger=noun_tagger, num_products=num_products, price_seed=price_seed, product_seed=product_seed,
        cache_in=cache_in,
    )  # fmt: skip
    return Tasks(shop, found, split_by, winnable, reopen)
