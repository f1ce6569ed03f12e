"""Print what `benchmarks.throughput` measured."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.throughput import Throughput
from benchmarks.timing import Measurement

_TITLES = {
    "steps": "environment steps, Sokoban",
    "levels": "new levels, Sokoban",
    "households": "environment steps, ALFWorld",
    "credit": "credit",
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
    for words in found.skipped:
        console.print(words, style="yellow", markup=False)


def amount(measurement: Measurement) -> str:
    """Value and unit, rounded to what repeats.

    >>> amount(Measurement("k", "steps", "w", True, 123456.7, "steps/s"))
    '123,000 steps/s'
    """
    if measurement.unit == "ms":
        return f"{measurement.value:.3g} ms"
    digits = len(str(int(measurement.value)))
    return f"{round(measurement.value, 3 - digits):,.0f} {measurement.unit}"
