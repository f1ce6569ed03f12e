"""Task panels: named, versioned lists of tasks that are the same on every machine.

`panels.toml` defines a panel as a split under fixed arguments; `panel_pins.json` pins digests of its tasks' contents.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.checks import suggest
from agentgym.core import TextEnv
from agentgym.outside.text import DataError, tables_beside

#: Arguments whose data affect episodes without being part of a task's content (the passages of Search-QA).
#: Comparisons of results check these data too.
BESIDE_TASKS = ("corpus",)
#: Bytes of a task's digest that a pin keeps.
_PINNED_BYTES = 4
_SHOWN = 120


class PanelError(ValueError):
    """The panel is unknown, its data are missing, or they differ from the pinned ones."""


@dataclass(frozen=True)
class Panel:
    """The definition of a panel.

    Attributes:
        name: `<environment>/<tasks>@<version>`.
        options: environment arguments that belong to the panel.
        data: arguments that locate its data, each with the environment variable used by default ("": none).
        most: number of first tasks of the split to take; None: all.
        tasks: number of tasks if it is known without the data.
    """

    name: str
    env: str
    split: str
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None
    tasks: int | None = None


@dataclass(frozen=True)
class PanelTask:
    """One task: `id`, for `reset(options={"task_id": id})`, and the digest of its content."""

    id: str
    digest: str


@dataclass(frozen=True)
class OpenPanel:
    """A panel with its tasks, sorted by digest.

    Attributes:
        arguments: all environment arguments: the panel's, those for data and `added`.
        added: arguments that neither belong to the panel nor locate data.
        hash: 16 hexadecimal digits of environment, panel arguments and the digests of all tasks.
        pinned: whether the tasks match a pin; False without a pin.
    """

    panel: Panel
    arguments: Mapping[str, Any]
    added: Mapping[str, Any]
    tasks: tuple[PanelTask, ...]
    hash: str
    pinned: bool

    def first(self, count: int) -> OpenPanel:
        """Return the panel of the first `count` tasks, with its own hash; PanelError below one task."""
        if count < 1:
            raise PanelError(f"{self.panel.name}: a panel needs at least one task, got {count}")
        if count >= len(self.tasks):
            return self
        tasks, name = self.tasks[:count], f"{self.panel.name}[:{count}]"
        return replace(self, panel=replace(self.panel, name=name), tasks=tasks, hash=digest([self.hash, count])[:16])


def panel_names() -> tuple[str, ...]:
    """Return the names of all panels."""
    return tuple(_PANELS)


def find_panel(name: str) -> Panel:
    """Return the definition of a panel; PanelError, with the known names of the environment, for an unknown one."""
    if name in _PANELS:
        return _PANELS[name]
    same = [known for known in _PANELS if known.partition("/")[0] == name.partition("/")[0]]
    raise PanelError(f"unknown panel {name!r:.200}; {suggest(name, same or _PANELS)}")


def open_panel(panel: str | Panel, arguments: Mapping[str, Any] | None = None) -> OpenPanel:
    """Return a panel, by its name or definition, with its tasks.

    `arguments` are those of the environment that locate data or that the panel leaves open. Raises a PanelError for an
    unknown name or a fixed argument, a DataError for missing or different data, a ValueError for invalid arguments.
    """
    rule = find_panel(panel) if isinstance(panel, str) else panel
    given = dict(arguments or {})
    for name in ("split", *rule.options):
        if name in given:
            raise PanelError(
                f"{rule.name}: {name!r} belongs to the panel ({rule.options.get(name, rule.split)!r}) and cannot be "
                f"given; play {rule.name.partition('/')[0]}/{rule.split} without a version to choose it yourself"
            )
    for name, variable in rule.data.items():
        if given.get(name) is None and not (variable and os.environ.get(variable)):
            instead = f", or set the variable {variable}" if variable else ""
            raise DataError(f"{rule.name} needs data: give the argument {name!r} (--option {name}=PATH){instead}")
    env: TextEnv[Any] = gym.make(rule.env, **rule.options, **given).unwrapped  # type: ignore[assignment]
    with contextlib.closing(env):
        ids = islice(env.task_ids(rule.split), rule.most)
        tasks = sorted(
            [PanelTask(each, digest(env.content(each))) for each in ids], key=lambda task: (task.digest, task.id)
        )
    found = OpenPanel(
        panel=rule,
        arguments={**rule.options, **given},
        added={name: value for name, value in given.items() if name not in rule.data and name != "cache"},
        tasks=tuple(tasks),
        hash=digest([rule.env, dict(rule.options), [task.digest for task in tasks]])[:16],
        pinned=False,
    )
    return replace(found, pinned=_check(found))


def pin_of(found: OpenPanel) -> dict[str, str]:
    """Return the entry of `panel_pins.json` for a panel."""
    digests = b"".join([bytes.fromhex(task.digest)[:_PINNED_BYTES] for task in found.tasks])
    return {"hash": found.hash, "tasks": base64.b64encode(digests).decode()}


def digest(content: Any) -> str:
    """Return the SHA-256 of JSON values as 64 hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _pins() -> dict[str, dict[str, str]]:
    return tables_beside(__file__, "panel_pins.json")


def _check(found: OpenPanel) -> bool:
    rule, pin = found.panel, _pins().get(found.panel.name)
    if pin is None:
        if rule.tasks is not None and len(found.tasks) != rule.tasks:
            raise DataError(f"{rule.name} has {rule.tasks} tasks, these data ({_where(found)}) have {len(found.tasks)}")
        return False
    if pin["hash"] == found.hash:
        return True
    raise DataError(f"{rule.name}: these data ({_where(found)}) are of another version; {_difference(found, pin)}")


def _difference(found: OpenPanel, pin: Mapping[str, str]) -> str:
    packed = base64.b64decode(pin["tasks"])
    wanted = [packed[i : i + _PINNED_BYTES].hex() for i in range(0, len(packed), _PINNED_BYTES)]
    known, here = set(wanted), {task.digest[: 2 * _PINNED_BYTES] for task in found.tasks}
    others = sorted([task.id for task in found.tasks if task.digest[: 2 * _PINNED_BYTES] not in known])
    missing = sum(each not in here for each in wanted)
    if others:
        return (
            f"{len(others)} of {len(found.tasks)} tasks are not among the panel's {len(wanted)}; the first "
            f"in the order of their ids: {others[0]!r:.200}"
        )
    if missing or len(wanted) == len(found.tasks):
        return f"{missing} of the panel's {len(wanted)} tasks are missing"
    return f"all of the panel's {len(wanted)} tasks are there, but some not as often as in the panel"


def _where(found: OpenPanel) -> str:
    named = [f"{name}={found.arguments.get(name) or '$' + variable!r}" for name, variable in found.panel.data.items()]
    return ", ".join(named)[:_SHOWN] or "generated"


_PANELS: dict[str, Panel] = {
    row["name"]: Panel(**{**row, "env": f"AgentRL/{row['env']}-v0"})
    for row in tables_beside(__file__, "panels.toml")["panels"]
}
