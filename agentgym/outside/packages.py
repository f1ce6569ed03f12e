"""How this project was installed, what installs more of it, and which folder hides one of its packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import warnings
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "stepcredit"
#: Packages beside this one: names that a user's own folders may have.
BESIDE = ("wrappers", "policies", "baselines", "benchmarks")
#: The folder that holds the five packages.
HOME = Path(__file__).resolve().parents[2]


def install(*extras: str) -> str:
    """Return the command that installs extras of this project, for how it was installed itself.

    Args:
        *extras: names in pyproject.toml.

    A checkout and an editable installation name their folder, a wheel its file or address, and what came from a
    package index the project's name.
    """
    wanted = f"[{','.join(extras)}]" if extras else ""
    if (HOME / "pyproject.toml").is_file():
        return f"pip install -c {HOME}/constraints.txt -e '{HOME}{wanted}'"
    try:
        noted = json.loads(importlib.metadata.distribution(NAME).read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        noted = {}
    url = str(noted.get("url", ""))
    if url.startswith("file:") and Path(unquote(urlsplit(url).path)).is_dir():
        return f"pip install '{unquote(urlsplit(url).path)}{wanted}'"
    return f"pip install '{NAME}{wanted}{f' @ {url}' if url else ''}'"


def install_package(package: str) -> str:
    """Return the command that installs a package of others, which is no extra."""
    return f"pip install '{package}'"


def hidden() -> dict[str, Path]:
    """Return the packages of this project that a folder earlier on the import path hides, with that folder."""
    found = {}
    for name in BESIDE:
        if name in sys.modules or not (HOME / name / "__init__.py").is_file():
            continue
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin is not None and Path(spec.origin).parent.resolve() != (HOME / name):
            found[name] = Path(spec.origin)
    return found


def warn_of_hidden() -> None:
    """Warn of packages that another folder hides: imports from them would fail without saying why."""
    for name, origin in hidden().items():
        warnings.warn(
            f"{origin} hides the package {name!r} of {NAME} ({HOME / name}): `import {name}` finds that file. "
            "Rename its folder, or start Python in another one",
            stacklevel=3,
        )
