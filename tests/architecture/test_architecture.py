"""The shape of the house: which folder may import which, what imports cost, how long and how named files are."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from agentgym.registry import ROWS
from tests.architecture.house import FOLDERS, ROOT, texts
from tests.cases import cases

NUMERIC = {"numpy", "gymnasium", "scipy"}

#: What each folder may import beside the standard library: own folders, and other packages (None: any).
ARROWS: dict[str, tuple[set[str], set[str] | None]] = {
    "agentgym": (
        {"agentgym"},
        NUMERIC
        | {
            "pettingzoo", "tantivy", "sentence_transformers", "faiss", "pyserini", "pyarrow", "spacy", "aiohttp",
            "tenacity", "pandas",
        },
    ),
    "wrappers": ({"agentgym", "wrappers"}, NUMERIC | {"sentence_transformers"}),
    "wrappers/serving": ({"agentgym", "wrappers"}, None),
    "policies": ({"agentgym", "policies"}, None),
    "baselines": ({"agentgym", "wrappers", "policies", "baselines"}, None),
    "benchmarks": (set(FOLDERS), None),
}  # fmt: skip
SOURCES = [ROOT / path for path in texts()]
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


@cases(
    "folder, source, broken",
    ("agentgym", "import numpy as np, json\nfrom gymnasium import spaces", set()),
    ("agentgym", "def f():\n    import torch.nn\n    from wrappers.reply import parse_reply", {"torch", "wrappers"}),
    ("wrappers/serving", "import fastapi, wrappers.reply\nimport policies", {"policies"}),
    ("policies", "import torch, agentgym\nfrom baselines import trainer", {"baselines"}),
    ("baselines", "import benchmarks.run, wrappers, policies, torch", {"benchmarks"}),
    ("benchmarks", "import tests.corridor, baselines", {"tests"}),
)
def test_the_rule_itself(folder: str, source: str, broken: set[str]) -> None:
    assert broken_arrows(folder, source) == broken


def test_imports_follow_the_arrows() -> None:
    broken = {}
    for path in SOURCES:
        top, inside = path.relative_to(ROOT).parts[0], "/".join(path.relative_to(ROOT).parts[:2])
        broken[str(path)] = broken_arrows(inside if inside in ARROWS else top, path.read_text(encoding="utf-8"))
    assert {path: names for path, names in broken.items() if names} == {}


def test_every_folder_has_sources_and_is_typed() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(FOLDERS)
    assert all((ROOT / folder / "py.typed").exists() for folder in FOLDERS)


@cases(
    "statement, absent",
    (
        "import agentgym",
        ["torch", "ray", "pettingzoo", "scipy", "tantivy", "transformers", "matplotlib", "aiohttp", "pandas"],
    ),
    ("import wrappers", ["torch", "ray", "pettingzoo", "transformers", "sentence_transformers", "matplotlib"]),
    ("import policies, baselines, benchmarks", ["torch", "ray", "transformers", "matplotlib"]),
)
def test_importing_a_package_loads_nothing_heavy(statement: str, absent: list[str]) -> None:
    code = f"{statement}; import sys; print([name for name in {absent} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def statements(nodes: Iterable[ast.stmt], typed: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run with a module, with `typed` also those under `TYPE_CHECKING`; not those inside functions."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            only_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for block in ("body", "orelse", "finalbody"):
                if typed or not (only_types and block == "body"):
                    yield from statements(getattr(node, block, ()), typed)
            for handler in getattr(node, "handlers", ()):
                yield from statements(handler.body, typed)


def graph_of(sources: Mapping[str, str], typed: bool = True) -> dict[str, set[str]]:
    """Module -> modules it imports, for modules by their names; a name that a module holds stands for the module."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        graph[module] = set()
        for node in statements(ast.parse(source).body, typed):
            whole = [alias.name for alias in node.names]
            for name in whole if isinstance(node, ast.Import) else [f"{node.module}.{each}" for each in whole]:
                while name and name not in sources:
                    name = name.rpartition(".")[0]
                if name and name != module:
                    graph[module].add(name)
    return graph


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def graph(typed: bool = True) -> dict[str, set[str]]:
    return graph_of({name_of(path): path.read_text(encoding="utf-8") for path in SOURCES}, typed)


FOLDER_OF = {name_of(path): ".".join(path.relative_to(ROOT).parent.parts) for path in SOURCES}


def test_the_graph_itself() -> None:
    sources = {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b.c import Name",
        "b": "",
        "b.c": "import a\nclass X:\n    from b import other\ndef f():\n    import d",
        "d": "try:\n    import b.c as short\nexcept ImportError:\n    import numpy",
    }
    assert graph_of(sources) == {"a": {"b.c"}, "b": set(), "b.c": {"a", "b"}, "d": {"b.c"}}
    assert set(circle(graph_of(sources))) == {"a", "b.c"}
    assert graph_of(sources, typed=False) == {"a": set(), "b": set(), "b.c": {"a", "b"}, "d": {"b.c"}}
    assert circle({"a": {"b"}, "b": set()}) == []


def test_no_module_and_no_folder_imports_itself_by_way_of_others() -> None:
    """At run time; inside a folder a type may be imported under `TYPE_CHECKING` in both directions."""
    assert circle(graph(typed=False)) == []
    # Between folders arrows have one direction, for types too; folders within each other are one (`official/`).
    folders: dict[str, set[str]] = {}
    for module, others in graph().items():
        here = FOLDER_OF[module]
        beside = {there for there in map(FOLDER_OF.__getitem__, others) if not (f"{here}.".startswith(f"{there}."))}
        folders.setdefault(here, set()).update(there for there in beside if not there.startswith(f"{here}."))
    assert circle(folders) == []


def test_environments_do_not_know_each_other() -> None:
    environments = {row.module.rpartition(".")[0] for row in ROWS}
    for module, others in graph().items():
        own = next((each for each in environments if f"{module}.".startswith(f"{each}.")), None)
        for other in others if own else ():
            foreign = [each for each in environments - {own} if f"{other}.".startswith(f"{each}.")]
            assert not foreign, f"{module} imports {other}"
    shared = {module for module in graph() if module.partition(".")[0] == "agentgym"} - {
        module for module in graph() for each in environments if f"{module}.".startswith(f"{each}.")
    }
    assert {other for module in shared for other in graph()[module]} <= shared


#: Tests that are about no single source file, but about everything in the folder they lie in.
CROSS_CUTTING = {
    "contract", "traces", "secrets", "foreign_text", "play", "models", "authors_oracles", "credit_properties", "scale",
    "study_pages_browser", "pretrained", "fake_device",
}  # fmt: skip


def test_tests_mirror_the_sources() -> None:
    """`tests/<folder>/test_<x>.py` is about `<folder>/<x>.py`, the folder `<folder>/<x>/`, or `<folder>` as a whole."""
    astray = []
    for folder in FOLDERS:
        for path in (ROOT / "tests" / folder).rglob("test_*.py"):
            beside = path.relative_to(ROOT / "tests").parent
            topic = path.stem.removeprefix("test_")
            known = [each.stem for each in (ROOT / beside).glob("*") if each.suffix == ".py" or each.is_dir()]
            about = any(topic == name or topic.startswith(f"{name}_") for name in [*known, beside.name])
            if not (about and (ROOT / beside).is_dir()) and topic not in CROSS_CUTTING:
                astray.append(str(path.relative_to(ROOT)))
    assert sorted(astray) == []


def test_every_file_of_a_test_folder_is_a_test_or_imported_by_one() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    imported: set[str] = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported.update(name.name for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.update((str(node.module), *(f"{node.module}.{name.name}" for name in node.names)))
    unused = [
        name
        for name in (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
        if not name.rpartition(".")[2].startswith(("test_", "conftest", "fuzz")) and name not in imported
    ]
    assert unused == []


def _files() -> list[Path]:
    folders = [ROOT / folder for folder in (*FOLDERS, "tests")]
    return [path for folder in folders for path in folder.rglob("*") if path.suffix in LONG_SUFFIXES]


def test_no_file_is_longer_than_600_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in _files()}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > 600} == {}


def test_no_file_or_folder_is_named_after_nothing_and_test_folders_are_no_packages() -> None:
    paths = [path.relative_to(ROOT) for path in _files()]
    assert [path for path in paths if FORBIDDEN_NAMES & {Path(part).stem for part in path.parts}] == []
    assert list((ROOT / "tests").rglob("__init__.py")) == []
