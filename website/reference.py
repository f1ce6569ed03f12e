"""The reference: a page for every module, made of its docstrings, and for every package one that lists its modules."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_ROOT = Path(__file__).parents[1]
#: Packages whose modules are for users. Those of single environments show the class alone.
PACKAGES = (
    "agentgym",
    "wrappers",
    "wrappers.credit",
    "policies",
    "policies.search",
    "baselines",
    "baselines.imitation",
    "baselines.play",
    "baselines.records",
    "baselines.scorers",
)
#: The search finds a guide first.
BEHIND_GUIDES = "---\nsearch:\n  boost: 0.2\n---\n\n"


def modules(package: str) -> list[str]:
    """The modules that lie in a package, and for `agentgym` those of its environments' classes.

    >>> [name for name in modules("policies.search") if name.endswith("player")]
    ['policies.search.player']
    """
    folder = _ROOT / package.replace(".", "/")
    found = [path.relative_to(_ROOT) for path in sorted(folder.glob("*.py")) if path.name[0] != "_"]
    if package == "agentgym":
        found += [path.relative_to(_ROOT) for path in sorted(folder.glob("*/env.py"))]
    return [".".join(path.with_suffix("").parts) for path in found]


def _first_line(module: str) -> str:
    source = Path(_ROOT, *module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    from mkdocs.structure.files import File

    for package in PACKAGES:
        listed = [f"# {package}\n"]
        for module in modules(package):
            name = module.removeprefix(f"{package}.")
            listed.append(f"* [{name}]({name}.md): {_first_line(module)}")
            text = f"{BEHIND_GUIDES}# {module}\n\n::: {module}\n    options: {{show_root_heading: false}}\n"
            files.append(File.generated(config, f"reference/{package}/{name}.md", content=text))
        files.append(
            File.generated(config, f"reference/{package}/index.md", content=BEHIND_GUIDES + "\n".join(listed) + "\n")
        )
    return files
