"""Tables of Markdown pages: those of results are read back, those of options are made of the code."""

import re
from typing import NamedTuple

import wrappers.credit
from wrappers.credit.options import declaration, option_table

#: The line of a page that names a method; the site has the table of its options below it.
_OPTIONS = re.compile(r"^Options: `help\((\w+)\)`\.$", re.MULTILINE)


def described(markdown: str) -> list[str]:
    """Methods whose options a page has."""
    return _OPTIONS.findall(markdown)


def with_options(markdown: str) -> str:
    r"""Add the tables of options to a page.

    >>> print(with_options("Options: `help(gigpo)`.\n")[:110])
    Options: `help(gigpo)`.
    <BLANKLINE>
    | option | default (`paper`) | meaning |
    |---|---|---|
    | `gamma` | `0.95` | Discount
    """
    return _OPTIONS.sub(
        lambda line: f"{line[0]}\n\n{option_table(*declaration(getattr(wrappers.credit, line[1])))}", markdown
    )


class Table(NamedTuple):
    """One table.

    Attributes:
        title: the last line of text before it, without stars and a colon at its end.
        head: names of its columns.
        rows: cells of its rows, as they are written.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(markdown: str) -> list[Table]:
    r"""All tables of a page.

    >>> tables("**Sokoban**\n\n| credit | 7 % |\n|---|---|\n| grpo | .07 |\n")
    [Table(title='Sokoban', head=('credit', '7 %'), rows=(('grpo', '.07'),))]
    """
    found, title, lines = [], "", list[str]()
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(line)
            continue
        if len(lines) > 2 and re.match(r"\|[ :|-]+\|$", lines[1]):
            head, _, *rows = [tuple(cell.strip() for cell in row.strip("| ").split(" | ")) for row in lines]
            found.append(Table(title, head, tuple(rows)))
        lines = []
        title = line.strip().strip("*").rstrip(":") or title
    return found
