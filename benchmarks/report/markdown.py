"""Markdown of results: tables, filled paragraphs, and pages that hold what a benchmark wrote between two marks."""

import textwrap
from collections.abc import Mapping, Sequence

from benchmarks.json_files import ResultsError


def filled(text: str) -> str:
    """Return a paragraph in lines of 120 characters; no word and no link is broken."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def filled_item(text: str) -> str:
    """Return an item of a list, filled as a paragraph."""
    return textwrap.fill(f"* {text}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; a cell's own bars are slashes.

    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x/y |
    """
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def checklist(reported: Mapping[str, str]) -> str:
    """Return how results were measured, one line each, see docs/results/reporting.md."""
    lines = [filled_item(f"**{name}**: {words}.") for name, words in reported.items()]
    return "\n".join(["How it was measured ([what the lines mean](reporting.md)):\n", *lines])


def replaced(page: str, name: str, text: str) -> str:
    r"""Return a page with another text between the marks of a name.

    >>> replaced("a\n<!-- x -->\nold\n<!-- end of x -->\n", "x", "new\n")
    'a\n<!-- x -->\n\nnew\n\n<!-- end of x -->\n'
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ResultsError(f"the page needs the lines {begin.strip()} and {end.strip()}, once each and in this order")
    return f"{page[: page.index(begin)]}{begin}\n{text}\n{page[page.index(end) :]}"
