"""The navigation is the index of the documentation: docs/README.md, whose tables name every page once.

A heading with a table is a group. A row is a page, or, where it names several that no row begins with, a group of them
called as its first cell says. A page that is in no row is left to MkDocs, whose strict build names it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from website.reference import PACKAGES
from website.repository_links import rewritten

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)]*)?\)")


def navigation(index: str, pages: frozenset[str]) -> list[dict[str, list[Any]]]:
    """Groups of pages, as MkDocs' `nav` has them: a title with pages, `{title: page}` and `{title: [page, ...]}`.

    Args:
        index: Markdown with a table below each heading; a row's first cell is a link or a title.
        pages: which targets are pages of the site, relative to it; others are passed over.

    >>> index = '''
    ... ## Credit
    ... | page | answers |
    ... |---|---|
    ... | [Branches](b.md) | forks |
    ... | Credit of groups | [grpo](grpo.md), [rloo](rloo.md) |
    ... '''
    >>> navigation(index, frozenset({"b.md", "grpo.md", "rloo.md"}))
    [{'Credit': [{'Branches': 'b.md'}, {'Credit of groups': ['grpo.md', 'rloo.md']}]}]
    """
    index = rewritten(index, "docs/README.md", "README.md")
    rows = [
        (heading, *(cell.strip() for cell in line.strip().strip("|").split("|", 1)))
        for heading, block in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", index, re.MULTILINE)
        for line in block.splitlines()
        if line.startswith("| ")
    ]
    taken = {target for _, first, _ in rows for _, target in _LINK.findall(first)}
    groups: dict[str, list[Any]] = {}
    for heading, first, rest in rows:
        begins = [(title, target) for title, target in _LINK.findall(first) if target in pages]
        others = [target for _, target in _LINK.findall(rest) if target in pages and target not in taken]
        taken.update(others)
        title = _LINK.sub(r"\1", first)
        if others:
            groups.setdefault(heading, []).append({title: [*(target for _, target in begins), *dict.fromkeys(others)]})
        else:
            groups.setdefault(heading, []).extend({title: target} for title, target in begins)
    return [{heading: entries} for heading, entries in groups.items()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Set the navigation once every page is known, those that other hooks made included."""
    index = Path(config.docs_dir, "README.md").read_text(encoding="utf-8")
    pages = frozenset(file.src_uri for file in files.documentation_pages())
    groups = navigation(index, pages)
    next(iter(groups[0].values())).insert(0, "README.md")
    examples = sorted(page for page in pages if page.startswith("examples/"))
    reference = [
        {package: sorted(page for page in pages if page.startswith(f"reference/{package}/"))} for package in PACKAGES
    ]
    config.nav = [*groups, {"Examples": examples}, {"Reference": [*reference, "changelog.md"]}]
    return files


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Links of 404.html begin in the site's folder: without `SITE_URL` nobody knows what stands before it."""
    if template_name != "404.html" or config.site_url:
        return output_content
    return re.sub(r"""((?:href|src)=["']?)/(?!/)""", r"\1./", output_content)
