"""The examples: each runs as a user would run it, and says something."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").iterdir())
#: What an example needs beyond the core.
NEEDS = {
    "own_environment.py": ("torch", "transformers"),
    "shape_with_sb3.py": ("stable_baselines3",),
    "train_tiny.py": ("torch", "transformers"),
    "train_with_trl.py": ("trl",),
}


def test_there_are_eight_scripts_and_nothing_else() -> None:
    assert [path.name for path in EXAMPLES if path.name != "__pycache__"] == [
        "branch_from_a_snapshot.py", "credit_in_your_trainer.py", "environment.py", "own_environment.py",
        "shape_with_sb3.py", "train_tiny.py", "train_with_trl.py", "tree_search.py",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("script", [path for path in EXAMPLES if path.suffix == ".py"], ids=lambda path: path.name)
def test_an_example_runs_as_printed(script: Path) -> None:
    for module in NEEDS.get(script.name, ()):
        pytest.importorskip(module)
    # PYTHONPATH stands for `pip install -e .`: these packages, wherever else an older copy is installed.
    done = subprocess.run(
        [sys.executable, f"examples/{script.name}"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) >= 3, done.stdout


@pytest.mark.parametrize("script", [path for path in EXAMPLES if path.suffix == ".py"], ids=lambda path: path.name)
def test_an_example_is_one_short_file_that_readers_find(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"python examples/{script.name}" in text
    for page in ("README.md", "docs/README.md"):
        assert f"examples/{script.name}" in (ROOT / page).read_text(encoding="utf-8")
