"""Print what `benchmarks.throughput.study` measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.throughput.credit_sizes import SizeTimes
from benchmarks.throughput.study import Throughput
from benchmarks.throughput.timing import Measurement

_TITLES = {
    "steps": "environment steps, Sokoban",
    "levels": "new levels, Sokoban",
    "households": "environment steps, ALFWorld",
    "shops": "environment steps and searches, WebShop",
    "questions": "environment steps, Search-QA",
    "searches": "searches, Search-QA",
    "dialogues": "dialogues, SOTOPIA",
    "credit": "credit",
    "clusters": "clusters of similar states",
}


def print_throughput(found: Throughput, console: Console) -> None:
    """Print the machine, one table per section, the ratios, and what was left out."""
    machine = found.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    console.print(
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}, Python {machine.python}\n"
        f"{versions}\nprocessor time of one thread, best of several repetitions",
        markup=False, highlight=False,
    )  # fmt: skip
    for section, title in _TITLES.items():
        table = Table(title_justify="left", show_edge=False)
        table.add_column(title)
        table.add_column("", justify="right", no_wrap=True)
        for measurement in found.measurements:
            if measurement.section == section:
                style = "bold" if measurement.ours else "dim"
                table.add_row(measurement.what, amount(measurement), style=style)
        console.print(table)
        for ratio in found.ratios:
            if ratio.section == section:
                console.print(f"  x {ratio.value:<8.3g} {ratio.what}", markup=False, highlight=False)
        console.print()
    for title, rows in size_rows(found.sizes).items():
        console.print(_size_table(title, found.sizes, rows))
        console.print()
    for words in found.skipped:
        console.print(words, style="yellow", markup=False)


def size_rows(sizes: Sequence[SizeTimes]) -> dict[str, list[tuple[str, ...]]]:
    r"""Two tables with a column per size, in milliseconds and in microseconds per step.

    >>> times = SizeTimes(8, 4, 50, 1600, 2.0, 2.4, {"grpo": 0.16}, {"grpo": 2.4})
    >>> size_rows([times])["from a table to advantages"]
    [('grpo', '0.16 ms\n0.10 µs')]
    """
    if not sizes:
        return {}

    def row(name: str, milliseconds: Iterable[float]) -> tuple[str, ...]:
        cells = [f"{ms:.3g} ms\n{ms * 1e3 / times.rows:.2f} µs" for ms, times in zip(milliseconds, sizes, strict=True)]
        return (name, *cells)

    methods = list(sizes[0].alone)
    return {
        "from fresh texts of 600 characters to advantages": [
            row("only the table", (times.interning for times in sizes)),
            row("only the table, no text shared", (times.interning_apart for times in sizes)),
            *(row(name, (times.whole[name] for times in sizes)) for name in methods),
        ],
        "from a table to advantages": [row(name, (times.alone[name] for times in sizes)) for name in methods],
    }


def _size_table(title: str, sizes: Sequence[SizeTimes], rows: list[tuple[str, ...]]) -> Table:
    table = Table(show_edge=False)
    table.add_column(f"{title}, all and per step")
    for times in sizes:
        table.add_column(times.shape.replace(" ", ""), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def amount(measurement: Measurement) -> str:
    """Value and unit, rounded to what repeats.

    >>> amount(Measurement("k", "steps", "w", True, 123456.7, "steps/s"))
    '123,000 steps/s'
    """
    if measurement.unit in ("ms", "s", "MB"):
        return f"{measurement.value:.3g} {measurement.unit}"
    digits = len(str(int(measurement.value)))
    return f"{round(measurement.value, 3 - digits):,.0f} {measurement.unit}"
