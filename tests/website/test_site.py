"""The documentation site: it builds strictly, nothing is left out, and nothing of it lies elsewhere."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from website.navigation import navigation
from website.reference import PACKAGES, modules
from website.repository_links import site_page

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs/notebooks").glob("*.py")]
PAGES = frozenset(page.relative_to(ROOT / "docs").with_suffix(".md").as_posix() for page in SOURCES)


def _listed(entries: object) -> list[str]:
    """All pages of a navigation, in order."""
    if isinstance(entries, str):
        return [entries]
    found = entries.values() if isinstance(entries, dict) else entries
    assert not isinstance(found, (str, bytes))
    return [page for entry in found for page in _listed(entry)]  # type: ignore[attr-defined]


def test_every_page_has_one_place_and_a_row_without_a_page_is_a_group() -> None:
    listed = _listed(navigation((ROOT / "docs/README.md").read_text(encoding="utf-8"), PAGES))
    assert sorted(PAGES - set(listed)) == ["README.md"]  # the beginning; another page needs a row in its tables
    assert sorted(page for page in set(listed) if listed.count(page) > 1) == []
    rows = ["| [One](1.md) | see [two](2.md), [four](4.md#y) |", "| [Two](2.md) | |", "| More | [three](3.md) |"]
    index = "\n".join(["## A", "| page | answers |", "|---|---|", *rows])
    pages = frozenset({"1.md", "2.md", "3.md", "4.md"})
    assert navigation(index, pages) == [{"A": [{"One": ["1.md", "4.md"]}, {"Two": "2.md"}, {"More": ["3.md"]}]}]


def test_links_to_modules_lead_into_the_reference() -> None:
    made = {
        f"reference/{package}/{name.removeprefix(package + '.')}.md"
        for package in PACKAGES
        for name in modules(package)
    }
    for page in SOURCES:
        for target in re.findall(r"\]\(((?!\w+:)[^)#]+\.py)", page.read_text(encoding="utf-8")):
            path = os.path.relpath(page.parent / target, ROOT)
            if path.split(os.sep)[0] not in ("examples", "docs"):
                assert site_page(path) in made, f"{page}: {target} is not in the reference"


def _loaded_from_elsewhere(site: Path) -> set[tuple[str, str]]:
    """Scripts, styles, pictures and fonts that a browser would fetch from other hosts, with the pages that ask."""
    tag = re.compile(r"<(script|img|iframe|source|link)\b([^>]*)>")
    address = re.compile(r"""(?:src|href)=["']?((?:https?:)?//[^"'> ]+)""")
    found = {
        (page.name, host)
        for page in site.rglob("*.html")
        for kind, rest in tag.findall(page.read_text(encoding="utf-8"))
        for host in address.findall(rest)
        if not (kind == "link" and "canonical" in rest)
    }
    sheets = {sheet.name for sheet in site.rglob("*.css") if re.search(r"url\(['\"]?(?:https?:)?//", sheet.read_text())}
    return found | {(sheet, "url") for sheet in sheets}


def _words(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


@pytest.mark.long
def test_the_site_builds_strictly_with_results_and_outputs_and_is_read_without_a_network(tmp_path: Path) -> None:
    """One test, because one build of all pages serves all of it."""
    for library in ("mkdocs", "mkdocstrings", "jupytext", "nbconvert"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "mkdocs", "build", "-f", "website/mkdocs.yml", "-d", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "AGENTGYM_REPORTS": str(tmp_path / "none")}  # no browser
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet, check=False, timeout=1800)
    assert built.returncode == 0, built.stderr[-4000:]

    assert _loaded_from_elsewhere(tmp_path) == set()
    unread = re.compile(r"<p>\s*(\||```|&gt;&gt;&gt;)")  # a table, a fence or a doctest that became a paragraph
    assert [page for page in tmp_path.rglob("*.html") if unread.search(page.read_text(encoding="utf-8"))] == []

    league = (ROOT / "docs/results/league-tables.md").read_text(encoding="utf-8")
    row = next(line for line in league.splitlines() if line.startswith("| graphgpo step |"))
    method = (tmp_path / "credit/graphgpo.html").read_text(encoding="utf-8")
    assert f"<td>{row.split(' | ')[3]}</td>" in method  # Sokoban's player that wins 49 %
    assert "images/learning/sokoban-graphgpo.svg" in method
    assert (tmp_path / "images/learning/sokoban-graphgpo.svg").stat().st_size > 2_000

    assert "<td><code>0.8</code></td>" in method  # of its table of options
    reference = (tmp_path / "reference/wrappers.credit/graphgpo.html").read_text(encoding="utf-8")
    assert 'id="wrappers.credit.graphgpo.graphgpo"' in reference
    lost = re.findall(r"""(?:href|src)=["']?([^"'> #?]+)""", (tmp_path / "404.html").read_text(encoding="utf-8"))
    assert [link for link in lost if "://" not in link and not (tmp_path / link).exists()] == []
    assert "> north" in _words(tmp_path / "environments/corridor.html")
    assert (tmp_path / "images/environments/corridor.svg").stat().st_size > 5_000
    assert "def play(" in _words(tmp_path / "examples/credit_in_your_trainer.html")

    # d's last step went where the winner was: -0.5 in GRPO's eyes, which compares (1, 0, 0, 0): (0 - 1/4) / (1/2 + eps)
    assert "d's last step: {'grpo': -0.5," in _words(tmp_path / "notebooks/credit.html")
    assert len(list((tmp_path / "notebooks").glob("train*.png"))) == 1
