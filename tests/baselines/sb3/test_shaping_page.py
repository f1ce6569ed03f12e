"""The examples of docs/credit/shaping.md run, and print what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "credit" / "shaping.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_frozen_lake(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[0], "first block", "exec"), {})
    said = re.findall(r"^# (\[.*?\])", BLOCKS[0], re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 2


def test_stable_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("stable_baselines3")
    exec(compile(BLOCKS[1], "second block", "exec"), {})
    assert re.fullmatch(r"TaskGraphs\(8 tasks, \d+ states, \d+ edges\)", capsys.readouterr().out.strip())
    # The page promises fifteen lines.
    assert len([line for line in BLOCKS[1].splitlines() if line.strip()]) <= 15
