"""JSON files of the benchmarks: checked when they are read, there whole or not at all, in a folder of one benchmark."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import time
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym.checks import suggest
from agentgym.outside import files as disk_cache
from agentgym.outside import text as foreign_text
from agentgym.outside.files import OtherConfigurationError

if TYPE_CHECKING:
    import pydantic

T = TypeVar("T")
CONFIG = "config.json"
_LONGEST = 80


class ResultsError(foreign_text.DataError):
    """Results are missing, damaged or of another version, or an input of a benchmark does not exist."""


def check_known(what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse an unknown name, and suggest a similar one."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ResultsError(f"unknown {what} {name!r}; {suggest(name, known)}")


def encode(value: Any) -> Any:
    """Turn dataclasses, also in dicts and lists, into plain JSON values, whose strings any file and page can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return foreign_text.clean_json(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {foreign_text.clean(str(name)): encode(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return foreign_text.clean_json(value)


def write_json(value: Any, path: Path) -> None:
    """Write dataclasses or JSON values; an interrupted write leaves the old file."""
    try:
        text = json.dumps(encode(value), allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise ResultsError(f"{path}: not written: {error}") from None
    disk_cache.write_file(path, text.encode())


def read_json(path: Path) -> Any:
    """Return the JSON value that a file holds."""
    content = _content(path)
    try:
        return foreign_text.read_json(content)
    except foreign_text.DataError as error:
        raise ResultsError(f"{path}: {error}; delete it and run the same command again") from None


def load(
    kind: type[T], path: Path, *, version: int | None = None, check: Callable[[T], None] = lambda found: None
) -> T:
    """Return the dataclass that a file holds; `ResultsError` names the first value that does not fit, with its path.

    With a `version` the dataclass has one; `check` raises `ResultsError` where values do not fit together.
    """
    found: Any = parse(kind, _content(path), str(path), "delete it and run the same command again")
    try:
        if version is not None and found.version != version:
            raise ResultsError(f"this code reads version {version}, got version {found.version}; run it again")
        check(found)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None
    return typing.cast(T, found)


def created() -> str:
    """Return the time as results note it, in UTC, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def parse(kind: type[T], content: bytes, where: str, remedy: str) -> T:
    """Return the dataclass that a JSON text holds; `where` it is and the `remedy` are for messages."""
    import pydantic

    try:
        return typing.cast(T, _validator(typing.cast(Any, kind)).validate_json(content, strict=True))
    except pydantic.ValidationError as found:
        error = found.errors(include_url=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"]).removeprefix(".")
    shown = f", got {_short(error['input'])}" if error["type"] not in ("json_invalid", "missing") else ""
    raise ResultsError(f"{where}: {place}{': ' if place else ''}{error['msg']}{shown}; {remedy}")


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; run the benchmark that writes it first")
    return path.read_bytes()


def _short(value: Any) -> str:
    shown = repr(value)
    return foreign_text.clean(shown if len(shown) < _LONGEST else shown[: _LONGEST - 3] + "...")


@functools.cache
def _validator(kind: type) -> pydantic.TypeAdapter[Any]:
    """Validator of a dataclass that refuses unknown names and numbers that are not finite, at any depth."""
    import pydantic

    for each in _dataclasses(kind):
        # The only way to tell pydantic about dataclasses that are not its own, such as `statistics.Interval`.
        each.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False)
    return pydantic.TypeAdapter(kind)


def _dataclasses(kind: Any) -> Iterator[Any]:
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
        for hint in typing.get_type_hints(kind).values():
            yield from _dataclasses(hint)
    for argument in typing.get_args(kind):
        yield from _dataclasses(argument)


@contextlib.contextmanager
def claimed(folder: Path, config: Any) -> Iterator[None]:
    """Keep a folder for this process and one configuration, which is noted in it, while the block runs.

    `LockedError` names another process, `OtherConfigurationError` the differences of another configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with disk_cache.locked(folder / ".lock", wait=False):
        path, given = folder / CONFIG, json.loads(json.dumps(encode(config)))
        if not path.is_file():
            write_json(given, path)
        else:
            check_same(folder, _noted(path), given)
        yield


def check_same(place: Path, there: Any, here: Any) -> None:
    """Refuse to write where the results of another configuration are; `OtherConfigurationError` names differences."""
    if differing := list(_differences(encode(there), encode(here))):
        raise OtherConfigurationError(
            f"{place} holds a benchmark with another configuration:\n" + "\n".join(differing) + "\n"
            "Give another place with --out, repeat the old options to continue it, or delete it."
        )


def _noted(path: Path) -> dict[str, Any]:
    try:
        return dict(foreign_text.read_json(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise OtherConfigurationError(f"{path} is not a configuration ({error}); delete it or {path.parent}") from None


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, dict):
        for each in {**there, **here}:
            yield from _differences(there.get(each), here.get(each), f"{name}.{each}".removeprefix("."))
    elif there != here:
        yield f"  {name}: there {_short(there)}, here {_short(here)}"
