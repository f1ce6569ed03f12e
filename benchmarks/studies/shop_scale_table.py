"""Tables of what `benchmarks.studies.shop_scale` measured."""

from __future__ import annotations

from rich.table import Table

from benchmarks.studies.shop_scale import ShopScale


def tables(found: ShopScale) -> list[Table]:
    """Return the table of the steps and that of the searches."""
    steps = Table(title=f"{found.products:,} generated products", title_justify="left", show_edge=False)
    for column in ("step", "processor s", "s", "peak MiB", "private MiB", "disk MiB"):
        steps.add_column(column, justify="left" if column == "step" else "right", no_wrap=column == "step")
    for step in found.steps:
        figures = [step.seconds, step.wall]
        memory = [step.peak, step.private, step.disk]
        steps.add_row(step.name, *[f"{value:,.2f}" for value in figures], *[f"{value:,.0f}" for value in memory])
    searches = Table(title="best 50 products, every query new", title_justify="left", show_edge=False)
    for column in ("search for", "searches/s", "median ms", "slowest ms"):
        searches.add_column(column, justify="left" if column == "search for" else "right")
    for row in found.searches:
        searches.add_row(row.kind, f"{row.rate:,.0f}", f"{row.median:.2f}", f"{row.slowest:.1f}")
    return [steps, searches]
