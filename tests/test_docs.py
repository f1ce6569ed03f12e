"""README and docs: their Python blocks run from top to bottom, and their links lead somewhere."""

import re
from pathlib import Path

import numpy as np
import pytest

from agentgym.trajectory import StepTable

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(page: Path) -> list[str]:
    """The page's Python blocks, with empty lines before them so that errors show the page's line numbers."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text[: match.start(1)].count("\n") + match[1] for match in BLOCK.finditer(text)]


RUNNABLE = [page for page in PAGES if _blocks(page)]


def _given(page: Path) -> dict[str, object]:
    """What a page speaks of without making it: the pages of the credit methods are about a table of one's own."""
    if page.parent.name != "credit":
        return {}
    rows = {"state": ["s", "u", "s"], "action": ["right", "up", "left"], "next_state": ["u", "goal", "pit"]}
    table = StepTable.from_arrays(
        group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], reward=[0, 1, 0], won=[1, 1, 0], **rows
    )
    return {"table": table, "divergence": np.zeros(3), "tokens": np.array([4, 7, 5])}


@pytest.mark.parametrize("page", RUNNABLE, ids=_name)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "stable_baselines3" in page.read_text(encoding="utf-8"):
        pytest.importorskip("stable_baselines3")
    if "agentgym.chat" in page.read_text(encoding="utf-8"):
        pytest.importorskip("aiohttp")
    monkeypatch.chdir(tmp_path)
    names = _given(page)
    for block in _blocks(page):
        exec(compile(block, _name(page), "exec"), names)


def test_the_readme_ends_with_one_advantage_per_step() -> None:
    names: dict = {}
    for block in _blocks(ROOT / "README.md")[:2]:
        exec(block, names)
    assert names["advantages"].shape == (len(names["envs"].table()),)
    assert names["envs"].table().n_groups == 1
    assert names["envs"].table().n_trajectories == 8


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []
