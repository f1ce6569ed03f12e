"""Plugin of pytest, `-p tests.data_tests`: plays only the tests that read the data of AGENTGYM_ORACLES.

Those are the tests that name the variable, and those that use something of tests/ which does, through as many
functions, fixtures and constants as it takes. What a module imports and a test does not use does not count.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "AGENTGYM_ORACLES"
ROOT = Path(__file__).parents[1]
#: Module, and a name at its top level.
Definition = tuple[str, str]


def statements(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top level of a module, those in its blocks too."""
    for node in nodes:
        if isinstance(node, ast.If | ast.Try | ast.With):
            for block in ("body", "orelse", "finalbody"):
                yield from statements(getattr(node, block, ()))
        else:
            yield node


def names_of(node: ast.stmt) -> set[str]:
    """What a statement defines; imports are `imports_of`."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}


def imports_of(tree: ast.AST) -> dict[str, str]:
    """Names that a module imports, anywhere in it, by what each stands for."""
    found = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{each.module}.{alias.name}" for alias in each.names}
    return found


def uses_of(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that these nodes use: "name", "name.attribute", and arguments, which may be fixtures."""
    found = set()
    for each in nodes:
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            found.add(f"{each.value.id}.{each.attr}")
    return found


def readers(sources: Mapping[str, str]) -> set[Definition]:
    """Return all that reads the variable, by itself or by what it uses, among the modules of some sources by name."""
    uses: dict[Definition, set[Definition]] = {}
    found: set[Definition] = set()
    for module, source in sources.items():
        tree = ast.parse(source)
        body, imported = {node: list(ast.walk(node)) for node in statements(tree.body)}, imports_of(tree)
        always = {name for node, nodes in body.items() for name in names_of(node) if _is_always(name, node, nodes)}
        folders = module.split(".")[:-1]
        conftests = [".".join([*folders[:n], "conftest"]) for n in range(len(folders) + 1)]
        for node, nodes in body.items():
            used: set[Definition] = {(module, name) for name in always}
            for name in uses_of(nodes):
                first, _, attribute = name.partition(".")
                path = imported.get(first, f"{module}.{first}")
                if attribute:
                    used.add((path, attribute))
                else:
                    used |= {(path.rpartition(".")[0], path.rpartition(".")[2])}
                    used |= {(conftest, name) for conftest in conftests}
            for name in names_of(node):
                uses.setdefault((module, name), set()).update(used)
                if any(isinstance(each, ast.Constant) and each.value == VARIABLE for each in nodes):
                    found.add((module, name))
    while more := {each for each, used in uses.items() if each not in found and used & found}:
        found |= more
    return found


def _is_always(name: str, node: ast.stmt, nodes: Iterable[ast.AST]) -> bool:
    """Whether every test of the module uses this."""
    fixture = any(isinstance(each, ast.keyword) and each.arg == "autouse" for each in nodes)
    return name == "pytestmark" or (isinstance(node, ast.FunctionDef) and fixture)


@cache
def data_tests() -> dict[Path, set[str]]:
    """Return the names of the tests that read the data, by file."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "tests").rglob("*.py")}
    tests: dict[Path, set[str]] = {}
    for module, name in readers({name: path.read_text(encoding="utf-8") for name, path in files.items()}):
        if files[module].name.startswith("test_") and name.lower().startswith("test"):
            tests.setdefault(files[module], set()).add(name)
    return tests


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out whole files, which need not be imported then."""
    return True if collection_path.suffix == ".py" and collection_path not in data_tests() else None


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out the other tests of a file."""
    names = [item.nodeid.split("::")[1].partition("[")[0] if "::" in item.nodeid else "" for item in items]
    kept = [item for item, name in zip(items, names, strict=True) if name in data_tests().get(item.path, ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
