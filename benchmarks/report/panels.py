"""Pictures of estimates over named places, one panel beside the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report import assemble
from benchmarks.statistics import Interval

#: The line of the policy that all others began with: grey and dashed.
START = "clone"
#: Panels beside each other.
_WIDE = 3
#: Characters that have room below a panel.
_ROOM = 40
#: Okabe and Ito's palette without yellow, and a marker for each, so that lines differ in more than colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"


@dataclass(frozen=True)
class Panel:
    """One panel: lines of estimates over named places."""

    title: str
    xlabel: str
    ylabel: str
    lines: dict[str, dict[str, Interval]]


def draw(panels: Sequence[Panel]) -> Any:
    """Return a matplotlib figure of all panels; estimates have their intervals."""
    count = len(panels)
    columns = min(_WIDE, count)
    high = -(-count // columns)
    figure, grid = assemble.new_figure(high, columns, (1.2 + 3.4 * columns, 0.7 + 2.9 * high), 90)
    names = list(dict.fromkeys(line for panel in panels for line in panel.lines))
    for place, axes in enumerate(grid.flat):
        if place < count:
            _draw_lines(axes, panels[place], names)
        else:
            axes.set_visible(False)
    shown = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in grid.flat]
    handles = {label: handle for pairs in shown for handle, label in pairs}
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=min(2 * columns, len(handles)), fontsize=8
    )
    return figure


def _draw_lines(axes: Any, panel: Panel, names: list[str]) -> None:
    places = list(dict.fromkeys(place for line in panel.lines.values() for place in line))
    for place, (line, drawn) in enumerate(panel.lines.items()):
        number = names.index(line)
        shift = 0.05 * (place - (len(panel.lines) - 1) / 2)
        found = [(places.index(place), interval) for place, interval in drawn.items()]
        means = [interval.mean for _, interval in found]
        reach = [[i.mean - i.low for _, i in found], [i.high - i.mean for _, i in found]]
        axes.errorbar(
            [x + shift for x, _ in found], means, reach, label=assemble.label(line), lw=1.3, elinewidth=0.8, ms=4,
            color="#888888" if line == START else _COLOURS[number % len(_COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)], ls="--" if line == START else "-",
        )  # fmt: skip
    axes.set_xticks(range(len(places)), places, fontsize=8, rotation=30 if len("".join(places)) > _ROOM else 0)
    axes.set_xlabel(panel.xlabel, fontsize=8)
    axes.set_title(assemble.label(panel.title), fontsize=10)
    axes.set_ylabel(panel.ylabel, fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
