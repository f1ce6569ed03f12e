"""JSON files of the benchmarks: dataclasses to and from plain values, checked; files appear whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from agentgym.core import suggest

T = TypeVar("T")


class ResultsError(ValueError):
    """A results file is not what this version of the benchmarks writes."""


def encode(value: Any) -> Any:
    """Turn dataclasses into plain dicts and lists."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def decode(kind: type[T], value: Any, where: str) -> T:
    """Build `kind` (a dataclass) from plain JSON values, checking names and types.

    Args:
        kind: dataclass to build.
        value: what `json.load` gave.
        where: path of the value, for the error message.

    Raises:
        ResultsError: at the first value that does not fit, with its path, what was expected and what came.
    """
    return typing.cast(T, _decode(kind, value, where))


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is types.UnionType:
        if value is None:
            return None
        return _decode(next(argument for argument in arguments if argument is not types.NoneType), value, where)
    if origin is list:
        _expect(isinstance(value, list), where, "a list", value)
        return [_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if origin is dict:
        _expect(isinstance(value, dict), where, "an object", value)
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        _expect(isinstance(value, dict), where, f"an object ({kind.__name__})", value)  # type: ignore[union-attr]
        hints = typing.get_type_hints(kind)
        unknown = sorted(set(value) - set(hints))
        # What was added later has a default: older files lack it.
        optional = {f.name for f in dataclasses.fields(kind) if f.default_factory is not dataclasses.MISSING}
        missing = [name for name in hints if name not in value and name not in optional]
        if unknown:
            raise ResultsError(f"{where}: unknown name {unknown[0]!r}; {suggest(unknown[0], hints)}")
        if missing:
            raise ResultsError(f"{where}: {missing[0]!r} is missing")
        return kind(  # type: ignore[operator]
            **{name: _decode(hint, value[name], f"{where}.{name}") for name, hint in hints.items() if name in value}
        )
    if kind is float:
        _expect(
            isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
            where,
            "a finite number",
            value,
        )
        return float(value)
    _expect(type(value) is kind, where, f"a value of type {kind.__name__}", value)
    return value


def _expect(condition: bool, where: str, expected: str, value: Any) -> None:
    if not condition:
        shown = repr(value)
        raise ResultsError(f"{where}: expected {expected}, got {shown if len(shown) < 80 else shown[:77] + '...'}")


def read_json(path: Path) -> object:
    """Return what a JSON file of a benchmark holds.

    Raises:
        ResultsError: no such file, or not JSON.
    """
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; run the benchmark that writes it first")
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultsError(f"{path}: not JSON ({error}); delete it and run the same command again") from None
    return found


def write_json(value: Any, path: Path) -> None:
    """Write JSON through a temporary file beside it, so that an interrupted write leaves the old file."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(value, allow_nan=False, ensure_ascii=False), encoding="utf-8")
    os.replace(temporary, path)
