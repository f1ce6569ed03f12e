"""`throughput`: speeds of environments, levels, searches, branches, credit and clusters, beside peers of the same run.

    python -m benchmarks.run speed throughput
    python -m benchmarks.run speed throughput --only sokoban,alfworld

Every figure is processor time of one thread (`time.process_time`), so that other jobs on the machine disturb little.
Speeds of environments are medians of first visits (`visits`), everything else the best of several repetitions. Beside
a speed stands what a fixed loop took in between, and the speed where that loop takes 0.9 s (`timing`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from agentgym.checks import suggest
from benchmarks.console import explained, say, table, telling
from benchmarks.json_files import write_json
from benchmarks.machine import Machine, describe_machine
from benchmarks.throughput import gym_sokoban
from benchmarks.throughput.alfworld import measure_households, package_stepper
from benchmarks.throughput.branches import FORMS, measure_branches
from benchmarks.throughput.clusters import measure_clusters
from benchmarks.throughput.credit import LARGER, QUICK_SIZES, SHAPE, SIZES, SizeTimes, measure_credit, measure_sizes
from benchmarks.throughput.searchqa import measure_questions, measure_searches
from benchmarks.throughput.sokoban import measure_levels, measure_steps
from benchmarks.throughput.sotopia import measure_dialogues
from benchmarks.throughput.timing import REFERENCE_SECONDS, Measurement
from benchmarks.throughput.virtualhome import measure_homes
from benchmarks.throughput.webshop import measure_shops

_TITLES = {
    "steps": "environment steps, Sokoban",
    "levels": "new levels, Sokoban",
    "households": "environment steps, ALFWorld",
    "homes": "steps, VirtualHome",
    "shops": "environment steps and searches, WebShop",
    "questions": "environment steps, Search-QA",
    "searches": "searches, Search-QA",
    "dialogues": "dialogues, SOTOPIA",
    "branches": "branches behind all wrappers",
    "credit": "credit",
    "clusters": "clusters of similar states",
}
#: Methods on a state graph.
_GRAPHS = ("rewardflow", "graphgpo")


@dataclass(frozen=True)
class Ratio:
    """How many times faster ours is than a peer or a limit (below 1: slower)."""

    section: str
    what: str
    value: float


@dataclass(frozen=True)
class Throughput:
    """Everything one run measured; written as `throughput.json`."""

    machine: Machine
    quick: bool
    measurements: list[Measurement]
    ratios: list[Ratio]
    skipped: list[str]
    sizes: list[SizeTimes] = field(default_factory=list)


def ratios(found: Sequence[Measurement], sizes: Sequence[SizeTimes] = ()) -> list[Ratio]:
    """Compare ours with every peer and limit that was measured."""
    value = {measurement.key: measurement.value for measurement in found}
    peers_of_steps = {
        "gym_sokoban_rgb_array": "gym-sokoban as it is (rgb_array)",
        "gym_sokoban_tiny_rgb_array": "gym-sokoban, tiny_rgb_array",
        "gym_sokoban_none": "gym-sokoban without rendering",
        "stock_128": "gymnasium SyncVectorEnv",
        "bare": "limit of a bare Python loop",
    }
    pairs = [
        ("steps", "steps_vector_128", f"steps_{peer}", f"make_vec, 128 envs, first visits / {words}")
        for peer, words in peers_of_steps.items()
    ]
    pairs += [
        ("levels", f"levels_{boxes}", f"levels_gym_sokoban_{boxes}", f"generator / gym-sokoban, boxes: {boxes}")
        for boxes in (1, 2, 3)
    ]
    pairs.append(
        (
            "households",
            "households_vector_128",
            "households_package",
            "make_vec, 128 envs, first visits / alfworld package",
        )
    )
    pairs.append(("dialogues", "dialogues_new", "dialogues_package", "128 envs, all new / sotopia package"))
    pairs.append(("searches", "searches_single", "searches_sqlite", "lexical / SQLite FTS5, one query at a time"))
    result = [
        Ratio(section, what, value[ours] / value[other])
        for section, ours, other, what in pairs
        if ours in value and other in value
    ]
    # Milliseconds: less is better, so these ratios are turned round.
    value |= {f"texts_{times.shape}": times.whole["gigpo"] for times in sizes}
    pairs = [("credit", "credit_sweeps", f"credit_{name}", f"{name} / sweeps over a dict graph") for name in _GRAPHS]
    for key, shape in (("credit_dicts", SHAPE), ("credit_dicts_larger", LARGER)):
        size = " x ".join(map(str, shape))
        pairs.append(("credit", key, f"texts_{size}", f"gigpo from texts / scanning rows, {size} steps"))
    pairs += [
        ("clusters", "clusters_pairwise", "clusters_leader", "leaders / cosine by cosine"),
        ("clusters", "clusters_difflib", "clusters_leader", "leaders, vectors given / difflib on texts"),
    ]
    for world, form in FORMS:
        key = f"branches_{world}_{form}"
        pairs.append(("branches", f"{key}_again", f"{key}_one", f"{world}, {form}: a branch / played again"))
    result += [
        Ratio(section, what, value[other] / value[ours])
        for section, other, ours, what in pairs
        if ours in value and other in value
    ]
    return result


Part = Callable[[bool], list[Measurement]]
#: What can be measured alone; what is said meanwhile, and what measures it.
PARTS: dict[str, tuple[tuple[str, Part], ...]] = {
    "sokoban": (("steps", measure_steps), ("levels", measure_levels)),
    "alfworld": (("households", measure_households),),
    "virtualhome": (("homes", measure_homes),),
    "webshop": (("shops", measure_shops),),
    "searchqa": (("questions", measure_questions), ("searches", measure_searches)),
    "sotopia": (("dialogues", measure_dialogues),),
    "branches": (("branches", measure_branches),),
    "credit": (("credit", measure_credit),),
    "clusters": (("clusters", measure_clusters),),
}


def measure(
    quick: bool, progress: Callable[[str], None] = lambda words: None, only: Collection[str] = tuple(PARTS)
) -> Throughput:
    """Measure.

    Args:
        quick: fewer and shorter repetitions.
        progress: called with what is being measured.
        only: names of `PARTS`.
    """
    found: list[Measurement] = []
    for name, parts in PARTS.items():
        for words, part in parts if name in only else ():
            progress(words)
            found += part(quick)
    sizes: list[SizeTimes] = []
    if "credit" in only:
        progress("credit over the size of a batch")
        sizes = measure_sizes(quick, QUICK_SIZES if quick else SIZES)
    skipped = []
    if "sokoban" in only and gym_sokoban.classes() is None:
        skipped.append("gym-sokoban is not installed: pip install gym gym-sokoban==0.0.6 and run again to compare")
    if "alfworld" in only:
        package = package_stepper()
        if isinstance(package, str):
            skipped.append(package)
    return Throughput(describe_machine(), quick, found, ratios(found, sizes), skipped, sizes)


def print_throughput(found: Throughput, console: Console) -> None:
    """Print the machine, one table per section, the ratios, and what was left out."""
    machine = found.machine
    say(
        console,
        f"{machine.hardware}\n{machine.software}\nprocessor time of one thread; loop: seconds of ten million additions "
        f"in between; scaled: where they take {REFERENCE_SECONDS:g} s",
    )
    for section, title in _TITLES.items():
        rows = [
            [Text(cell, "bold" if each.ours else "dim") for cell in (each.what, amount(each), *_by_loop(each))]
            for each in found.measurements
            if each.section == section
        ]
        if not rows:
            continue
        console.print(table([title, "measured", "loop", "scaled"], rows, show_edge=False))
        for ratio in found.ratios:
            if ratio.section == section:
                say(console, f"  x {ratio.value:<8.3g} {ratio.what}")
        console.print()
    for title, lines in size_rows(found.sizes).items():
        heads = [f"{title}, all and per step", *(times.shape.replace(" ", "") for times in found.sizes)]
        console.print(table(heads, lines, show_edge=False))
        console.print()
    for words in found.skipped:
        say(console, words, "yellow")


def _by_loop(measurement: Measurement) -> tuple[str, str]:
    """The loop's seconds and the scaled value, empty where no loop ran."""
    seconds, scaled = measurement.loop_seconds, measurement.scaled
    return ("", "") if seconds is None or scaled is None else (f"{seconds:.2f} s", _rounded(scaled))


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


def amount(measurement: Measurement) -> str:
    """Value and unit, rounded to what repeats.

    >>> amount(Measurement("k", "steps", "w", True, 123456.7, "steps/s"))
    '123,000 steps/s'
    """
    if measurement.unit in ("ms", "s", "MB"):
        return f"{measurement.value:.3g} {measurement.unit}"
    return f"{_rounded(measurement.value)} {measurement.unit}"


def _rounded(value: float) -> str:
    return f"{round(value, 3 - len(str(int(value)))):,.0f}"


def parse_parts(text: str) -> list[str]:
    """Read names of `PARTS`, separated by commas.

    Raises:
        typer.BadParameter: on a name that is not known.

    >>> parse_parts("sokoban,credit")
    ['sokoban', 'credit']
    """
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise typer.BadParameter(f"unknown part {name!r}; {suggest(name, PARTS)}", param_hint="--only")
    return names


def throughput(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, about two minutes.")] = False,
    only: Annotated[str | None, typer.Option(help=f"Parts to measure, of {', '.join(PARTS)}; all by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure environment steps, levels, searches, branches, credit and clusters, beside peers, as ratios."""
    console = Console()
    parts = list(PARTS) if only is None else parse_parts(only)
    with explained("stopped; nothing is kept"):
        if out is not None:
            # Before minutes of measuring, not after them.
            out.parent.mkdir(parents=True, exist_ok=True)
        with telling(console, "measuring") as tell:
            found = measure(quick, lambda words: tell(f"measuring {words}"), parts)
        print_throughput(found, console)
        if out is not None:
            write_json(found, out)
            say(console, f"figures: {out}")
