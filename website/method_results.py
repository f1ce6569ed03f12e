"""Results that the site adds: options, league rows and curves on a method's page, tables on the page of the studies.

The numbers come from the pages and files of docs/results when the site is built; they are written nowhere twice.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from benchmarks.report.markdown import filled, markdown_table, replaced
from benchmarks.training.head_to_head_page import draw_method, section
from benchmarks.training.records import Trainings, load_folders
from benchmarks.training.studies import STUDIES, load
from benchmarks.training.studies import table as table_of_study
from website.tables import Table, described, tables, with_options

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

#: Rows that are called neither like the page nor like a preset of its method.
_ALSO = {"gae": {"ppo"}, "potential": {"bellman"}, "attribution": {"graphgpo_filled"}}
_LEAGUE, _HEAD_TO_HEAD = "results/league-tables.md", "results/head-to-head.md"
_TABLES = "results/head-to-head-tables.md"


def names(page: str, text: str = "") -> set[str]:
    """Names in tables of results of the methods that a page describes: its own, and those whose options it lists.

    >>> sorted(names("potential"))[:4]
    ['bellman', 'ecpo', 'g2po', 'g2po_authors']
    >>> sorted(names("branches", "Options: `help(bpo)`."))
    ['bpo', 'branches']
    """
    found = set()
    for method in {page, *described(text)}:
        found |= {method, *_ALSO.get(method, ())}
        if importlib.util.find_spec(f"wrappers.credit.{method}"):
            presets = getattr(importlib.import_module(f"wrappers.credit.{method}"), "PRESETS", {})
            found |= set(presets) - {"paper", "authors"}
    return found


def method_of(row: str) -> str:
    """Name of the method that a row begins with.

    >>> method_of("rewardflow step, authors"), method_of("gated_bepo:lam=0.0:gate=none"), method_of("grpo")
    ('rewardflow', 'gated_bepo', 'grpo')
    """
    return re.split(r"[ ,:]", row, maxsplit=1)[0]


def _middle(table: Table) -> int:
    """Column of the player that wins nearest to half of its episodes."""
    shares = {i: int(found[1]) for i, head in enumerate(table.head) if (found := re.search(r"(\d+) %$", head))}
    return min(shares, key=lambda i: abs(shares[i] - 50))


def league(league_tables: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of one table of all environments, for each the player in the middle."""
    found = tables(league_tables)
    rows: dict[str, list[str]] = {}
    for place, table in enumerate(found):
        for row in table.rows:
            rows.setdefault(row[0], ["-"] * len(found))[place] = row[_middle(table)]
    return ["credit", *(table.title for table in found)], [[name, *cells] for name, cells in rows.items()]


def _of_league(docs: Path, wanted: set[str]) -> str:
    head, rows = league((docs / _LEAGUE).read_text(encoding="utf-8"))
    own = [row for row in rows if method_of(row[0]) in wanted]
    if not own:
        return ""
    beside = [row for row in rows if row[0] in ("grpo", "random") and row not in own]
    shown = markdown_table(head, [*own, *beside])
    return (
        "\nRank correlation of its credit with what steps were worth, in groups of 8 of the player that wins about "
        f"half ([the league](../{_LEAGUE}); 1 is the truth's own, 0 is chance):\n\n{shown}\n"
    )


@cache
def _studies(folder: Path) -> list[Trainings]:
    return load_folders(folder)


def _trained(docs: Path, wanted: set[str]) -> list[tuple[Trainings, str]]:
    studies = _studies(docs / "results" / "head-to-head")
    return [(study, method) for study in studies for method in study.methods if method_of(method) in wanted]


def _picture(study: Trainings, method: str) -> str:
    return f"images/learning/{study.config.name}-{method_of(method)}.svg"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Draw the curve of every method that was trained head to head."""
    from mkdocs.structure.files import File

    for study in _studies(Path(config.docs_dir, "results", "head-to-head")):
        for method in study.methods:
            files.append(File.generated(config, _picture(study, method), content=draw_method(study, method)))
    return files


def with_studies(markdown: str, docs: Path) -> str:
    """The page of the studies with the tables that its records say."""
    for name, study in STUDIES.items():
        found = load(docs / "studies" / "records" / f"{name}.json")
        table, mark = table_of_study(study, found.trained[0]), f"<!-- {name} -->\n"
        shown = f"{markdown_table(table.heads, table.texts)}\n\n{filled(table.caption)}\n"
        markdown = markdown.replace(mark, f"{mark}\n{shown}")
    return markdown


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add options and results to pages of methods, and the table of all environments to the league's."""
    docs, place = Path(config.docs_dir), PurePosixPath(page.file.src_uri)
    if str(place) == _LEAGUE:
        head, rows = league(markdown)
        title = "**All environments, the player that wins about half**; a click on a head sorts"
        whole = f"{title}\n\n{markdown_table(head, rows)}\n"
        first = markdown.index("**")
        return f"{markdown[:first]}{whole}\n{markdown[first:]}"
    if str(place) == _TABLES:
        for study in _studies(docs / "results" / "head-to-head"):
            picture = f"../images/head_to_head_{study.config.name}.png"
            markdown = replaced(markdown, study.config.name, section(study, picture))
        return markdown
    if str(place) == "studies.md":
        return with_studies(markdown, docs)
    if place.parts[0] != "credit":
        return markdown
    wanted = names(place.stem, markdown)
    text = _of_league(docs, wanted)
    for study, method in _trained(docs, wanted):
        title = f"{study.config.name}: {method}"
        text += (
            f"\nTrained with the same number of generated tokens and the same search as the others, {title} "
            f"([head to head](../{_HEAD_TO_HEAD})): mean of the seeds, solid sampled with its 95 % band, dashed "
            f"greedy; grey the other methods, sampled.\n\n"
            f"![Validation success over reply tokens, {title}](../{_picture(study, method)})\n"
        )
    return with_options(f"{markdown}\n## Results\n{text}" if text else markdown)
