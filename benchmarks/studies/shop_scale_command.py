"""`shop-scale`: what a WebShop of a million products costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def shop_scale(
    products: Annotated[int, typer.Option(min=1, help="Products to generate.")] = 1_000_000,
    queries: Annotated[int, typer.Option(min=1, help="Searches of each kind.")] = 500,
    out: Annotated[
        Path, typer.Option(help="New folder of the shop (about 0.6 GB for a million products) and the figures.")
    ] = Path("runs/shop-scale"),
) -> None:
    """Generate a large WebShop, index it on the disk, open it and search: time, memory, disk, searches per second."""
    from benchmarks.json_files import write_json
    from benchmarks.studies.shop_scale import RESULTS, measure
    from benchmarks.studies.shop_scale_table import tables

    console = Console()
    try:
        out.mkdir(parents=True, exist_ok=True)
        found = measure(products, out, queries, lambda words: console.print(words, style="dim", markup=False))
        write_json(found, out / RESULTS)
    except KeyboardInterrupt:
        Console(stderr=True).print(f"stopped; remove {out} before the next run", style="yellow", markup=False)
        raise typer.Exit(130) from None
    except OSError as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    for table in tables(found):
        console.print(table)
    console.print(f"figures: {out / RESULTS}", markup=False, highlight=False, soft_wrap=True)
