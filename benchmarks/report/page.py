"""The page of a study as data, and its writers: a terminal, Markdown, and a self-contained page.

A `Page` holds tables and figures. `print_page` prints the tables, `write_page` writes `report.html`, `report.md` and
the pictures.
"""

import base64
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import markupsafe
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from agentgym.outside.files import write_file
from agentgym.outside.text import clean
from benchmarks.console import table as rich_table
from benchmarks.report import assemble
from benchmarks.report.markdown import checklist, filled, filled_item, markdown_table, replaced
from benchmarks.statistics import Interval, points

HTML, MARKDOWN = "report.html", "report.md"
#: A text, or a text and its sign: "up", "down" or "".
Cell = str | tuple[str, str]
#: Columns of a name that is not broken on a narrow terminal.
_NAME = 20
_STYLES = {"up": "green", "down": "red", "": ""}


@dataclass(frozen=True)
class Table:
    """A table, the same in the terminal and on the page; where a row is None there is a rule.

    `explained` says by head what columns are, `colours` are dots beside heads on the page, and a table that is `aside`
    is not in the terminal.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell] | None]
    caption: str = ""
    explained: Mapping[str, str] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    aside: bool = False

    @property
    def texts(self) -> list[list[str]]:
        """The cells of all rows, without signs and rules."""
        return [[_text(cell) for cell in row] for row in self.rows if row is not None]


@dataclass(frozen=True)
class Figure:
    """A picture: the name of its PNG, and what draws it, see `benchmarks.report.assemble.new_figure`."""

    file: str
    title: str
    draw: Callable[[], Any]
    caption: str = ""


@dataclass(frozen=True)
class Panel:
    """A part of the page with controls of its own: files of this folder, and what template and scripts get.

    `charts`: the scripts draw with Bokeh.
    """

    template: str
    scripts: Sequence[str]
    data: Any
    values: Mapping[str, Any] = field(default_factory=dict)
    charts: bool = False


@dataclass(frozen=True)
class Page:
    """What a study shows.

    Attributes:
        title: a name or a question.
        lead: the procedure, in one paragraph.
        chips: name and value of the main settings.
        about: name and value of further ones, and of the machine.
        notice: a warning above all tables.
        refresh: seconds after which the page reloads itself; 0: never.
        reported: what belongs to a published result, see `benchmarks.training.evidence.reported`.
    """

    title: str
    lead: str
    tables: Sequence[Table]
    chips: Sequence[tuple[str, str]] = ()
    about: Sequence[tuple[str, str]] = ()
    figures: Sequence[Figure] = ()
    panel: Panel | None = None
    warnings: Sequence[str] = ()
    notice: str = ""
    refresh: int = 0
    reported: Mapping[str, str] = field(default_factory=dict)


def print_page(page: Page, console: Console) -> None:
    """Print the tables of a page with their captions, and its notice."""
    for each in (each for each in page.tables if not each.aside):
        console.print(terminal_table(each, console))
        if each.caption:
            console.print(each.caption, style="dim", markup=False, highlight=False)
        for head, words in each.explained.items():
            console.print(Text.assemble((f"{head}: ", "bold"), words), style="dim")
    if page.notice:
        console.print(page.notice, style="yellow", markup=False, highlight=False)


def ruled(rows: Iterable[tuple[str, Sequence[Cell]]]) -> list[Sequence[Cell] | None]:
    """Return rows, each given behind the name of its part, with a rule between parts."""
    found, last = list[Sequence[Cell] | None](), ""
    for part, row in rows:
        found += [None] if found and part != last else []
        found.append(row)
        last = part
    return found


def signed(difference: Interval | None) -> Cell:
    """Return a difference of success in points; where its interval excludes zero, with its sign."""
    clear = difference is not None and difference.excludes_zero
    return points(difference), ("up" if difference and difference.mean > 0 else "down") if clear else ""


def terminal_table(shown: Table, console: Console) -> RichTable:
    """Return a table for a terminal; where it does not fit, intervals go below estimates and no space is left."""
    wide = _terminal_table(shown, narrow=False)
    # A measure is never larger than the console that it is taken in.
    needed = console.measure(wide, options=console.options.update_width(10_000)).maximum
    return wide if needed <= console.width else _terminal_table(shown, narrow=True)


def _terminal_table(shown: Table, narrow: bool) -> RichTable:
    def styled(cell: Cell) -> Text:
        text, sign = cell if isinstance(cell, tuple) else (cell, "")
        return Text(text.replace(" [", "\n[") if narrow else text, _STYLES[sign])

    rows = [None if row is None else [styled(cell) for cell in row] for row in shown.rows]
    compact: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0, "pad_edge": False} if narrow else {}
    found = rich_table(shown.heads, rows, title=shown.title, **compact)
    found.columns[0].no_wrap = (
        narrow and max((cell_len(_text(row[0])) for row in shown.rows if row), default=0) <= _NAME
    )
    return found


def markdown(page: Page) -> str:
    """Return a page as Markdown; pictures are beside it."""
    parts = [f"# {page.title}", filled(f"**{page.notice}**") if page.notice else "", filled(page.lead)]
    if page.chips:
        parts.append(filled(", ".join(f"{name}: {value}" for name, value in page.chips) + "."))
    parts += _tables(page)
    if page.warnings:
        parts += ["## Warnings", "\n".join(f"* {line}" for line in page.warnings)]
    for figure in page.figures:
        parts += [f"## {figure.title}", f"![{figure.title}]({figure.file})", filled(figure.caption)]
    parts += ["## How it was made", "\n".join(f"* {name}: {value}" for name, value in page.about)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _tables(page: Page) -> list[str]:
    parts = []
    for each in page.tables:
        parts += [f"## {each.title}", markdown_table(each.heads, each.texts), filled(each.caption)]
        parts.append("\n".join(filled_item(f"{head}: {words}") for head, words in each.explained.items()))
    return parts


def written_tables(tables: Sequence[Table], captions: bool = True) -> str:
    """Return tables, and their captions, as a part of another page."""
    return "\n\n".join(
        part for each in tables
        for part in (markdown_table(each.heads, each.texts), *[filled(each.caption)] * captions)
    )  # fmt: skip


def write_between(page: Page, name: str, place: Path) -> list[Path]:
    """Write tables, pictures and what is reported between the marks of a name on a Markdown page of docs/results.

    Pictures go to the folder images beside that of the page. Returns what was written.
    """
    parts = _tables(page)
    for each in page.figures:
        parts += [f"![{each.title}](../images/{each.file})", filled(each.caption)]
    text = "\n\n".join(part for part in [*parts, checklist(page.reported)] if part) + "\n"
    return put(text, name, place, place.parent.parent / "images", {each.file: each.draw() for each in page.figures})


def put(text: str, name: str, place: Path, images: Path, pictures: Mapping[str, Any]) -> list[Path]:
    """Write a text between the marks of a name on a Markdown page, and figures by file into a folder; return all."""
    images.mkdir(parents=True, exist_ok=True)
    for file, figure in pictures.items():
        assemble.write_picture(figure, images / file)
    write_file(place, replaced(place.read_text(encoding="utf-8"), name, clean(text, len(text))).encode())
    return [place, *(images / file for file in pictures)]


def html(page: Page, pictures: Mapping[str, bytes]) -> str:
    """Return a self-contained page."""
    panel = page.panel
    values = {each.name: getattr(page, each.name) for each in dataclasses.fields(page)} | {
        "tables": [
            {
                "title": each.title, "heads": [(head, each.colours.get(head, "")) for head in each.heads],
                "rows": _rows(each), "caption": each.caption, "explained": list(each.explained.items()),
            }
            for each in page.tables
        ],
        "figures": [
            {
                "title": each.title, "caption": each.caption,
                "picture": markupsafe.Markup(base64.b64encode(pictures[each.file]).decode("ascii")),
            }
            for each in page.figures
        ],
        "panel": panel.template if panel else "",
    }  # fmt: skip
    return assemble.page(
        "study.html.j2",
        styles=["report.css"],
        scripts=panel.scripts if panel else (),
        libraries=assemble.chart_library() if panel and panel.charts else (),
        data=panel.data if panel else {},
        **values,
        **(panel.values if panel else {}),
    )


def write_page(page: Page, folder: Path) -> list[Path]:
    """Write pictures, Markdown and page into a folder and return their paths."""
    for each in page.figures:
        assemble.write_picture(each.draw(), folder / each.file)
    pictures = {each.file: (folder / each.file).read_bytes() for each in page.figures}
    assemble.write_page(clean(markdown(page)), folder / MARKDOWN)
    assemble.write_page(html(page, pictures), folder / HTML)
    return [*(folder / name for name in pictures), folder / MARKDOWN, folder / HTML]


def _rows(shown: Table) -> list[dict[str, Any]]:
    """The rows of a table, each with whether there is a rule above it."""
    found, rule = [], False
    for row in shown.rows:
        if row is not None:
            cells = [cell if isinstance(cell, tuple) else (cell, "") for cell in row]
            found.append({"cells": cells, "rule": rule})
        rule = row is None
    return found


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]
