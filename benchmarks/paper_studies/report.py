"""Picture and Markdown of a study, made from what it found; and a page that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym.outside.files import write_file
from benchmarks.head_to_head.table import PARTS
from benchmarks.machine import Machine
from benchmarks.paper_studies.description import Study
from benchmarks.paper_studies.results import Found
from benchmarks.paper_studies.table import tables
from benchmarks.paper_studies.trained import costs, outcomes, parts
from benchmarks.report import assemble
from benchmarks.report.markdown import filled, markdown_table, replaced
from benchmarks.statistics import Interval
from benchmarks.training.stack import CLONE, SAMPLED
from benchmarks.truth.papers import Panel
from benchmarks.truth.papers import panels as against_panels

#: Panels beside each other.
_WIDE = 3
#: Characters that have room below a panel.
_ROOM = 40
#: Okabe and Ito's palette without yellow, and a marker for each, so that lines differ in more than colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
#: Parts of an iteration, from the palette.
_PARTS = {"environment": "#56B4E9", "generation": "#0072B2", "credit": "#D55E00", "update": "#E69F00"}


def write_report(study: Study, found: Found, out: Path, page: Path | None = None) -> list[Path]:
    """Write `<out>/<name>.md` and `<out>/<name>.png`, and return what was written.

    Args:
        study: its description.
        found: what it found.
        out: folder, created when missing.
        page: a Markdown page; what stands between its lines `<!-- <name> -->` and `<!-- end of <name> -->` is replaced,
            and the picture goes to the folder images beside the page's own folder.

    Raises:
        ResultsError: the page has no such lines.
    """
    out.mkdir(parents=True, exist_ok=True)
    picture = out / f"{study.name}.png" if page is None else page.parent.parent / "images" / picture_name(study)
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw(study, found, picture)
    if page is None:
        path = out / f"{study.name}.md"
        write_file(path, section(study, found, picture.name).encode())
        return [path, picture]
    text = section(study, found, f"../images/{picture.name}")
    write_file(page, replaced(page.read_text(encoding="utf-8"), study.name, text).encode())
    return [picture, page]


def picture_name(study: Study) -> str:
    """Return the name of a study's picture in the folder of pictures."""
    return f"study_{study.name.replace('-', '_')}.png"


def section(study: Study, found: Found, picture: str) -> str:
    """Return the part of a page that the numbers make: tables with what they are, and the picture."""
    pieces = []
    for table in tables(study, found):
        pieces += [markdown_table(table.heads, table.texts), filled(table.caption)]
    pieces.append(f"![{study.question}]({picture})")
    pieces.append(filled(f"Measured on {'; '.join(dict.fromkeys(map(_machine, _machines(found))))}."))
    return "\n\n".join(pieces) + "\n"


def _machines(found: Found) -> Iterable[Machine]:
    if found.against is not None:
        yield found.against.machine
    for trainings in found.trained:
        yield trainings.machine


def _machine(machine: Machine) -> str:
    return f"{machine.hardware}, {machine.software}"


def draw(study: Study, found: Found, path: Path) -> None:
    """Write the picture: a panel per environment (or what the study has panels for), estimates with their intervals."""
    panels, bars = list(_panels(study, found)), [*_shares(study, found)]
    count = len(panels) + len(bars)
    columns = min(_WIDE, count)
    high = -(-count // columns)
    figure, grid = assemble.new_figure(high, columns, (1.2 + 3.4 * columns, 0.7 + 2.9 * high), 90)
    names = list(dict.fromkeys(line for panel in panels for line in panel.lines))
    for place, axes in enumerate(grid.flat):
        if place < len(panels):
            _draw_lines(axes, panels[place], names)
        elif place < count:
            _draw_bars(axes, *bars[place - len(panels)])
        else:
            axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=min(2 * columns, len(handles)), fontsize=8
    )
    assemble.write_picture(figure, path)


def _panels(study: Study, found: Found) -> Iterable[Panel]:
    if found.against is not None:
        yield from against_panels(found.against)
    for trained, trainings in parts(study, found.trained):
        if trained.shares:
            continue
        lines: dict[str, dict[str, Interval]] = {}
        places = list(dict.fromkeys(arm.along for arm in trained.arms))
        for each in outcomes(trained, trainings, SAMPLED):
            # The clone has no place of its own where all runs play the same tasks: it stands everywhere.
            for place in [each.along] if each.along else places:
                lines.setdefault(each.line, {})[place] = _percent(each.success)
        yield Panel(f"{trainings.config.name}: trained, sampled play", trained.along, "success [%]", lines)


def _percent(interval: Interval) -> Interval:
    return Interval(100 * interval.mean, 100 * interval.low, 100 * interval.high)


def _draw_lines(axes: Any, panel: Panel, names: list[str]) -> None:
    places = list(dict.fromkeys(place for line in panel.lines.values() for place in line))
    for place, (line, points) in enumerate(panel.lines.items()):
        number = names.index(line)
        shift = 0.05 * (place - (len(panel.lines) - 1) / 2)
        found = [(places.index(place), interval) for place, interval in points.items()]
        means = [interval.mean for _, interval in found]
        reach = [[i.mean - i.low for _, i in found], [i.high - i.mean for _, i in found]]
        axes.errorbar(
            [x + shift for x, _ in found], means, reach, label=assemble.label(line), lw=1.3, elinewidth=0.8, ms=4,
            color="#888888" if line == CLONE else _COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)], ls="--" if line == CLONE else "-",
        )  # fmt: skip
    axes.set_xticks(range(len(places)), places, fontsize=8, rotation=30 if len("".join(places)) > _ROOM else 0)
    axes.set_xlabel(panel.xlabel, fontsize=8)
    axes.set_title(assemble.label(panel.title), fontsize=10)
    axes.set_ylabel(panel.ylabel, fontsize=8)
    axes.tick_params(axis="y", labelsize=8)


def _shares(study: Study, found: Found) -> Iterable[tuple[str, Mapping[str, Mapping[str, float]]]]:
    for trained, trainings in parts(study, found.trained):
        if trained.shares:
            yield trainings.config.name, {method: cost.shares for method, cost in costs(trained, trainings).items()}


def _draw_bars(axes: Any, title: str, methods: Mapping[str, Mapping[str, float]]) -> None:
    left = dict.fromkeys(methods, 0.0)
    for part in (part for part in PARTS if part in _PARTS):
        widths = [100 * shares[part] for shares in methods.values()]
        axes.barh(list(methods), widths, left=list(left.values()), color=_PARTS[part], label=part, height=0.6)
        left = {method: left[method] + width for method, width in zip(methods, widths, strict=True)}
    axes.invert_yaxis()
    axes.set_xlabel("share of training [%]", fontsize=8)
    axes.set_title(assemble.label(title), fontsize=10)
    axes.tick_params(labelsize=8)
