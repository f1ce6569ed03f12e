"""The examples: each runs as a user would run it, and says something."""

from pathlib import Path

import pytest

from tests.processes import LEARNING, printed

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: What an example needs beyond the core.
NEEDS = {
    "own_environment.py": ("torch", "transformers"),
    "shape_with_sb3.py": ("torch", "stable_baselines3"),
    "train_tiny.py": ("torch", "transformers"),
    "train_with_trl.py": ("torch", "trl"),
}


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_as_printed(script: Path) -> None:
    for module in NEEDS.get(script.name, ()):
        pytest.importorskip(module)
    # A new process, in which nothing of ours is loaded.
    code = f"import runpy; runpy.run_path('examples/{script.name}', run_name='__main__')"
    said = printed(code, "1", LEARNING if "torch" in NEEDS.get(script.name, ()) else ())
    assert len(said.splitlines()) >= 3, said


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_one_short_file_that_readers_find(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"python examples/{script.name}" in text
    for page in ("README.md", "docs/README.md"):
        assert f"examples/{script.name}" in (ROOT / page).read_text(encoding="utf-8")
