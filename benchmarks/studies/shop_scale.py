"""`shop-scale`: what a WebShop of a million products costs: time, memory, disk of each step, searches per second.

Every step runs in a process of its own, so that its peak memory is its own. The products are generated; real ones have
more words each and many more different words.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.console import explained, say, table
from benchmarks.json_files import write_json
from benchmarks.machine import Machine, describe_machine
from benchmarks.processes import in_fresh_process

RESULTS = "shop_scale.json"
_SHOP, _INDEX = "catalogue", "bm25"
_K = 50


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        name: what was done.
        seconds: processor seconds.
        wall: seconds that passed.
        peak: largest resident memory of its process in MiB, files mapped into memory included.
        private: what of the memory at the end is no mapped file, in MiB; 0 where the kernel does not tell.
        disk: MiB that it wrote.
    """

    name: str
    seconds: float
    wall: float
    peak: float
    private: float
    disk: float


@dataclass(frozen=True)
class Searches:
    """Searches of one kind, each a new query.

    Attributes:
        kind: what was searched for.
        example: one of the queries.
        rate: searches per second of processor time.
        median: milliseconds.
        slowest: milliseconds.
    """

    kind: str
    example: str
    rate: float
    median: float
    slowest: float


@dataclass(frozen=True)
class ShopScale:
    """Everything one run measured."""

    machine: Machine
    products: int
    steps: list[Step]
    searches: list[Searches]


def measure(products: int, folder: Path, queries: int, tell: Callable[[str], None] = lambda words: None) -> ShopScale:
    """Generate a shop, put it and its index on the disk, open both, and search.

    Args:
        products: how many.
        folder: a new or empty folder; what is written stays there.
        queries: of each kind.
        tell: called with what is being done.

    Raises:
        FileExistsError: when the folder holds a shop already.
    """
    if (folder / _SHOP).exists() or (folder / _INDEX).exists():
        raise FileExistsError(
            f"{folder} holds a shop already: give another folder, or remove {_SHOP} and {_INDEX} in it"
        )
    steps = []
    for name, work, written in (
        ("generate products into a folder", _store, _SHOP),
        ("index them in a folder", _index, _INDEX),
    ):
        tell(name)
        figures, _ = _apart(work, folder, products)
        disk = sum(path.stat().st_size for path in (folder / written).rglob("*")) / 2**20
        steps.append(Step(name, *figures, disk))
    tell("opening and searching")
    figures, _ = _apart(_open, folder, 0)
    steps.append(Step("open both, first search", *figures, 0.0))
    figures, found = _apart(_search, folder, queries)
    steps.append(Step("all searches below", *figures, 0.0))
    return ShopScale(describe_machine(), products, steps, found)


def _apart(work: Callable[[Path, int], Any], folder: Path, count: int) -> tuple[tuple[float, float, float, float], Any]:
    """Run a step in a new process; returns its processor seconds, seconds, peak and private memory, and its answer."""
    return in_fresh_process(_timed, work, folder, count)


def _timed(work: Callable[[Path, int], Any], folder: Path, count: int) -> tuple[tuple[float, float, float, float], Any]:
    begin, wall = time.process_time(), time.perf_counter()
    found = work(folder, count)
    spent = time.process_time() - begin, time.perf_counter() - wall
    return (*spent, *_memory()), found


def _memory() -> tuple[float, float]:
    """Return peak and private memory of this process in MiB."""
    try:
        rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peak, private = (float(rows[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon"))
    except (OSError, KeyError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0.0
    return peak, private


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


def _search(folder: Path, count: int) -> list[Searches]:
    shop, search = _opened(folder)
    rng = np.random.default_rng(0)
    products = [shop[int(position)] for position in rng.integers(len(shop), size=count)]
    kinds = {
        "the whole request": [product.instruction or product.title for product in products],
        "the whole title": [product.title for product in products],
        "three words of the title": [" ".join(product.title.split()[-3:]) for product in products],
        "the kind of product": [product.query for product in products],
    }
    return [_timed_searches(search, kind, [query.lower() for query in queries]) for kind, queries in kinds.items()]


def _timed_searches(search: Any, kind: str, queries: list[str]) -> Searches:
    times = []
    for query in queries:
        begin = time.process_time()
        search.top(query, _K)
        times.append(time.process_time() - begin)
    return Searches(kind, queries[0], 1 / float(np.mean(times)), 1e3 * float(np.median(times)), 1e3 * max(times))


def tables(found: ShopScale) -> list[Table]:
    """Return the table of the steps and that of the searches."""
    return [
        table(
            ["step", "processor s", "s", "peak MiB", "private MiB", "disk MiB"],
            [
                (
                    step.name, f"{step.seconds:,.2f}", f"{step.wall:,.2f}",
                    f"{step.peak:,.0f}", f"{step.private:,.0f}", f"{step.disk:,.0f}",
                )
                for step in found.steps
            ],
            title=f"{found.products:,} generated products", show_edge=False,
        ),
        table(
            ["search for", "searches/s", "median ms", "slowest ms"],
            [(row.kind, f"{row.rate:,.0f}", f"{row.median:.2f}", f"{row.slowest:.1f}") for row in found.searches],
            title="best 50 products, every query new", show_edge=False,
        ),
    ]  # fmt: skip


def shop_scale(
    products: Annotated[int, typer.Option(min=1, help="Products to generate.")] = 1_000_000,
    queries: Annotated[int, typer.Option(min=1, help="Searches of each kind.")] = 500,
    out: Annotated[
        Path, typer.Option(help="New folder of the shop (about 0.6 GB for a million products) and the figures.")
    ] = Path("runs/shop-scale"),
) -> None:
    """Generate a large WebShop, index it on the disk, open it and search: time, memory, disk, searches per second."""
    console = Console()
    with explained(f"stopped; remove {out} before the next run"):
        out.mkdir(parents=True, exist_ok=True)
        found = measure(products, out, queries, lambda words: say(console, words, "dim"))
        write_json(found, out / RESULTS)
    for each in tables(found):
        console.print(each)
    say(console, f"figures: {out / RESULTS}")
