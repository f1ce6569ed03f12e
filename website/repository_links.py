"""Links from a page to what is no page: scripts and the changelog become pages, modules lead to the reference."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(\]\()((?!\w+:)[^)#\s]+)(#[^)\s]*)?(\))")
#: Markdown beside docs/ that the site has, and what it is called there.
_PAGES = {"CHANGELOG.md": "changelog.md"}


def site_page(path: str) -> str | None:
    """The page of a file of the repository, None where it has none; both relative to their roots.

    >>> site_page("docs/credit/grpo.md"), site_page("examples/environment.py"), site_page("wrappers/credit/grpo.py")
    ('credit/grpo.md', 'examples/environment.md', 'reference/wrappers.credit/grpo.md')
    """
    place = PurePosixPath(path)
    if place.parts[0] == "docs":
        inside = PurePosixPath(*place.parts[1:])
        return str(inside.with_suffix(".md") if inside.parts[:1] == ("notebooks",) else inside)
    if path == "examples":
        return "examples/index.md"
    if place.parts[0] == "examples":
        return str(place.with_suffix(".md"))
    if place.suffix == ".py" and len(place.parts) > 1:
        return f"reference/{'.'.join(place.parts[:-1])}/{place.stem}.md"
    return _PAGES.get(path)


def rewritten(markdown: str, source: str, page: str) -> str:
    """Markdown of a file of the repository as Markdown of a page of the site: relative links lead to pages.

    >>> rewritten("[e](../examples/environment.py), [g](credit/grpo.md#x)", "docs/wrappers.md", "wrappers.md")
    '[e](examples/environment.md), [g](credit/grpo.md#x)'
    """

    def moved(match: re.Match[str]) -> str:
        opening, target, anchor, closing = match.groups(default="")
        found = site_page(os.path.normpath(PurePosixPath(source).parent / target))
        if found is None:
            return match[0]  # MkDocs names it
        return f"{opening}{os.path.relpath(found, PurePosixPath(page).parent)}{anchor}{closing}"

    return _LINK.sub(moved, markdown)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every example, one that lists them, and those of `_PAGES`."""
    from mkdocs.structure.files import File

    listed = []
    for script in sorted((_ROOT / "examples").glob("*.py")):
        source = script.read_text(encoding="utf-8")
        title = script.stem.replace("_", " ").capitalize()
        text = f"# {title}\n\n`python examples/{script.name}`\n\n```python\n{source}```\n"
        files.append(File.generated(config, f"examples/{script.stem}.md", content=text))
        says = ast.get_docstring(ast.parse(source)) or ""
        listed.append(f"* [{title}]({script.stem}.md): {says.partition(chr(10))[0]}")
    index = "# Examples\n\nSingle files that run in seconds on a CPU and print what they do.\n\n" + "\n".join(listed)
    files.append(File.generated(config, "examples/index.md", content=index + "\n"))
    for name, page in _PAGES.items():
        text = rewritten((_ROOT / name).read_text(encoding="utf-8"), name, page)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of the pages of docs/ that leave the folder to where their targets are."""
    return (
        rewritten(markdown, f"docs/{page.file.src_uri}", page.file.src_uri) if not page.file.generated_by else markdown
    )
