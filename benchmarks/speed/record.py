"""What `speed WHAT` has in common: a study of `benchmarks.study` whose parts return figures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.console import NONE
from benchmarks.processes import Progress
from benchmarks.report.page import Cell, Page, Table
from benchmarks.speed.timing import REFERENCE_SECONDS, Speed
from benchmarks.study import Found, Study

VERSION = 2
#: Units of which less is better.
_COSTS = ("ms", "µs", "s", "MB")


@dataclass(frozen=True)
class Measurement:
    """A figure; one that is not `ours` is a peer's or a limit. Smaller times and memory are better.

    `loop_seconds` are those of ten million additions meanwhile, see `benchmarks.speed.timing`; with a `column` a row of
    the table has several figures.
    """

    key: str
    section: str
    what: str
    ours: bool
    value: float
    unit: str
    loop_seconds: float | None = None
    column: str = ""

    @classmethod
    def of(
        cls, key: str, section: str, what: str, found: Speed | float, unit: str = "steps/s", ours: bool = True
    ) -> Measurement:
        if isinstance(found, Speed):
            return cls(key, section, what, ours, found.value, unit, found.loop_seconds)
        return cls(key, section, what, ours, found, unit)

    @property
    def scaled(self) -> float | None:
        """A speed where ten million additions take `REFERENCE_SECONDS`; None where no loop ran."""
        if self.loop_seconds is None:
            return None
        return Speed(self.value, self.loop_seconds).scaled


@dataclass(frozen=True)
class Comparison:
    """How many times faster the figure `ours` is than `other` (below 1: slower), in words."""

    ours: str
    other: str
    what: str


@dataclass(frozen=True)
class Ratio:
    """A comparison of two measured figures."""

    section: str
    what: str
    value: float


@dataclass(frozen=True)
class Part:
    """A part's figures, and the missing figures, in words."""

    measurements: list[Measurement]
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SpeedConfig:
    """The parts and the options of the command."""

    parts: list[str]
    options: dict[str, Any]


@dataclass(frozen=True)
class Speeds(Found):
    """The whole file."""

    config: SpeedConfig
    measurements: list[Measurement]
    ratios: list[Ratio]
    skipped: list[str]


def ratios(found: Sequence[Measurement], comparisons: Iterable[Comparison]) -> list[Ratio]:
    """Return the comparisons of which both figures were measured."""
    by_key = {each.key: each for each in found}
    result = []
    for each in comparisons:
        if each.ours in by_key and each.other in by_key:
            ours, other = by_key[each.ours], by_key[each.other]
            value = other.value / ours.value if ours.unit in _COSTS else ours.value / other.value
            result.append(Ratio(ours.section, each.what, value))
    return result


def amount(measurement: Measurement) -> str:
    """Return value and unit, rounded to the digits that repeat.

    >>> amount(Measurement("k", "steps", "w", True, 123456.7, "steps/s"))
    '123,000 steps/s'
    """
    if not measurement.unit and measurement.value.is_integer():
        return f"{measurement.value:,.0f}"
    return f"{_rounded(measurement.value)} {measurement.unit}".rstrip()


def _rounded(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{round(value, 3 - len(str(int(value)))):,.0f}"


def tables(measurements: Sequence[Measurement], compared: Sequence[Ratio] = ()) -> list[Table]:
    """Return a table for each section: a figure a row with its loop, or a row of figures; ratios below it."""
    result = []
    for section in dict.fromkeys(each.section for each in measurements):
        mine = [each for each in measurements if each.section == section]
        columns = list(dict.fromkeys(each.column for each in mine if each.column))
        rows: list[Sequence[Cell] | None]
        if columns:
            cells = {(each.what, each.column): amount(each) for each in mine}
            names = dict.fromkeys(each.what for each in mine)
            heads = ["", *columns]
            rows = [[name, *(cells.get((name, column), NONE) for column in columns)] for name in names]
        else:
            heads = ["", "measured", "loop", "scaled"]
            rows = [[each.what, amount(each), *_by_loop(each)] for each in mine]
        said = [f"{each.what}: x {each.value:.3g}" for each in compared if each.section == section]
        result.append(Table(section, heads, rows, "; ".join(said)))
    return result


def _by_loop(measurement: Measurement) -> tuple[str, str]:
    seconds, scaled = measurement.loop_seconds, measurement.scaled
    return ("", "") if seconds is None or scaled is None else (f"{seconds:.2f} s", _rounded(scaled))


def speed_study(
    name: str,
    title: str,
    configure: Callable[..., SpeedConfig],
    measure: Callable[[SpeedConfig, str, Path], Part],
    comparisons: Iterable[Comparison] = (),
) -> Study[SpeedConfig, Part, Speeds]:
    """Return the study of a `speed` command; `measure` gets the configuration, a part and the folder."""

    def run(config: SpeedConfig, part: str, context: Any, progress: Progress) -> Part:
        return measure(config, part, context)

    def summary(config: SpeedConfig, found: list[Part], context: Any) -> Mapping[str, Any]:
        measured = [each for part in found for each in part.measurements]
        skipped = [words for part in found for words in part.skipped]
        return {"measurements": measured, "ratios": ratios(measured, comparisons), "skipped": skipped}

    def page(found: Speeds) -> Page:
        loop = f"loop: seconds of ten million additions in between; scaled: where they take {REFERENCE_SECONDS:g} s"
        timed = any(each.loop_seconds is not None for each in found.measurements)
        lead = f"Processor time of one thread; {loop}." if timed else "Measured in processes of this machine."
        shown = tables(found.measurements, found.ratios)
        if found.skipped:
            shown.append(Table("Not measured", ["what is missing"], [[words] for words in found.skipped]))
        return Page(title, lead, shown, chips=[(key, str(value)) for key, value in found.config.options.items()])

    return Study(
        name=name, file=f"{name}.json", version=VERSION, part="part", record=Part, results=Speeds,
        configure=configure, parts=lambda config: config.parts, run=run, summary=summary, page=page,
        prepare=lambda config, folder, tell: contextlib.nullcontext(folder),
    )  # fmt: skip
