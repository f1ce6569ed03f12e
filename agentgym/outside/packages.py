"""How this project was installed, the command that installs more of it, and folders that hide its packages."""

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "stepcredit"
#: The other packages of this project, whose names a user's own folders may have.
BESIDE = ("wrappers", "policies", "baselines", "benchmarks")
#: Packages of the extra `train`, which modules import at their beginning.
_LEARNING = ("torch", "transformers", "tokenizers", "safetensors")
#: The folder that holds the five packages.
HOME = Path(__file__).resolve().parents[2]


def install(*extras: str) -> str:
    """Return the command that installs extras (see pyproject.toml) of this project, for how it was installed itself.

    A checkout is named by its folder, a wheel by its file or address, a release by the project's name.
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
    """Return the command that installs another project's package, which is not an extra."""
    return f"pip install '{package}'"


def needed(module: str, message: str) -> Any:
    """Import a module of another package; an ImportError with the message if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(message, name=error.name) from error


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
    """Warn of packages that another folder hides: the errors of imports from them would not name the cause."""
    for name, origin in hidden().items():
        warnings.warn(
            f"{origin} hides the package {name!r} of {NAME} ({HOME / name}): `import {name}` finds that file. "
            "Rename its folder, or start Python in another one",
            stacklevel=3,
        )


class _MissingError(ModuleNotFoundError):
    """A module of this project needs a package that is not installed."""


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except _MissingError:
            raise
        except ModuleNotFoundError as error:
            if error.name not in _LEARNING:
                raise
            raise _MissingError(f"{module.__name__} needs {error.name}: {install('train')}", name=error.name) from error


class _Finder(PathFinder):
    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        spec = super().find_spec(fullname, path, target) if fullname.partition(".")[0] in BESIDE else None
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def explain_missing() -> None:
    """Without the extra `train`, make the ImportErrors of modules that need it name the command that installs it."""
    if any(importlib.util.find_spec(name) is None for name in _LEARNING):
        sys.meta_path.insert(0, _Finder)
