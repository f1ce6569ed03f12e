"""The shape of the house: which folder may import which, what imports cost, how long and how named files are."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("agentgym", "wrappers", "policies", "baselines", "benchmarks")
NUMERIC = {"numpy", "gymnasium", "scipy"}

#: What each folder may import beside the standard library: own folders, and other packages (None: any).
ARROWS: dict[str, tuple[set[str], set[str] | None]] = {
    "agentgym": (
        {"agentgym"},
        NUMERIC
        | {
            "pettingzoo",
            "tantivy",
            "sentence_transformers",
            "faiss",
            "pyserini",
            "pyarrow",
            "spacy",
            "aiohttp",
            "tenacity",
        },
    ),
    "wrappers": ({"agentgym", "wrappers"}, NUMERIC | {"sentence_transformers"}),
    "policies": ({"agentgym", "policies"}, None),
    "baselines": ({"agentgym", "wrappers", "policies", "baselines"}, None),
    "benchmarks": (set(FOLDERS), None),
}
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
LONG_SUFFIXES = {".py", ".js", ".css", ".j2", ".html"}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


def imported(source: str) -> set[str]:
    """Top-level names of everything a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # A relative import stays in its folder; an absolute one names another.
            names |= {(node.module or "").partition(".")[0]} if not node.level else set()
    return names


def broken_arrows(folder: str, source: str) -> set[str]:
    """The imports of a module in `folder` that no arrow allows."""
    own, others = ARROWS[folder]
    outside = imported(source) - own - sys.stdlib_module_names
    if others is None:
        return outside & {*FOLDERS, "tests"}
    return outside - others


@pytest.mark.parametrize(
    ("folder", "source", "broken"),
    [
        ("agentgym", "import numpy as np, json\nfrom gymnasium import spaces", set()),
        ("agentgym", "def f():\n    import torch.nn", {"torch"}),
        ("agentgym", "from wrappers.reply import parse_reply", {"wrappers"}),
        ("wrappers", "from agentgym.core import TextEnv\nimport policies", {"policies"}),
        ("policies", "import torch, agentgym\nfrom baselines import trainer", {"baselines"}),
        ("baselines", "import benchmarks.run, wrappers, policies, torch", {"benchmarks"}),
        ("benchmarks", "import tests.corridor, baselines", {"tests"}),
    ],
)
def test_the_rule_itself(folder: str, source: str, broken: set[str]) -> None:
    assert broken_arrows(folder, source) == broken


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    assert broken_arrows(path.relative_to(ROOT).parts[0], path.read_text(encoding="utf-8")) == set()


def test_every_folder_has_sources_and_is_typed() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(FOLDERS)
    assert all((ROOT / folder / "py.typed").exists() for folder in FOLDERS)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import agentgym",
            ["torch", "ray", "pettingzoo", "scipy", "tantivy", "transformers", "matplotlib", "aiohttp"],
        ),
        ("import wrappers", ["torch", "ray", "pettingzoo", "transformers", "sentence_transformers", "matplotlib"]),
        ("import policies, baselines, benchmarks", ["torch", "ray", "transformers", "matplotlib"]),
    ],
)
def test_importing_a_package_loads_nothing_heavy(statement: str, absent: list[str]) -> None:
    code = f"{statement}; import sys; print([name for name in {absent} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def _files() -> list[Path]:
    folders = [ROOT / folder for folder in (*FOLDERS, "tests")]
    return [path for folder in folders for path in folder.rglob("*") if path.suffix in LONG_SUFFIXES]


def test_no_file_is_longer_than_400_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in _files()}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > 400} == {}


def test_no_file_or_folder_is_named_after_nothing() -> None:
    paths = [path.relative_to(ROOT) for path in _files()]
    assert [path for path in paths if FORBIDDEN_NAMES & {Path(part).stem for part in path.parts}] == []


def test_test_folders_are_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
