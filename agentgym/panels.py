"""Task panels: named, versioned lists of tasks that are the same on every machine.

A panel is a split under fixed arguments, sorted by digests of the tasks' contents and checked by `panel_pins.json`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any

import gymnasium as gym

import agentgym  # noqa: F401  # registers the environments
from agentgym.checks import suggest
from agentgym.core import TextEnv
from agentgym.outside.text import DataError

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
    unknown name or a fixed argument, a DataError for missing or other data, a ValueError for refused arguments.
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
    text = (resources.files("agentgym") / "panel_pins.json").read_text(encoding="utf-8")
    pins: dict[str, dict[str, str]] = json.loads(text)
    return pins


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


#: Side of Sokoban boards, shortest and longest optimal solution, step limit.
_LENGTHS = ((6, 3, 5, 20), (6, 6, 8, 20), (6, 9, 12, 20), (7, 5, 15, 30), (8, 10, 20, 40))
#: The seven evaluation sets of the papers: split and number of questions.
_QUESTIONS = {
    "nq": ("test", 3610),
    "triviaqa": ("test", 11313),
    "popqa": ("test", 14267),
    "hotpotqa": ("dev", 7405),
    "2wikimultihopqa": ("dev", 12576),
    "musique": ("dev", 2417),
    "bamboogle": ("test", 125),
}


def _rules() -> Sequence[Panel]:
    alfworld, webshop, search, sotopia, home, sokoban, desk = (
        f"AgentRL/{name}-v0"
        for name in ("ALFWorld", "WebShop", "SearchQA", "SOTOPIA", "VirtualHome", "Sokoban", "Telecom")
    )
    fifty, official, made = {"max_episode_steps": 50}, {"data": "ALFWORLD_DATA"}, {"data": "generated"}
    shop, synthetic = {"max_episode_steps": 15}, {"goals": "synthetic"}
    folder, files = {"data": ""}, {"corpus": "", "questions": ""}
    boxes, levels = {"max_episode_steps": 200}, {"levels": ""}
    forty, homes = {"max_episode_steps": 40}, {"data": "VIRTUALHOME_DATA"}
    hundred = {"max_episode_steps": 100}
    return [
        Panel("alfworld/valid_seen@1", alfworld, "valid_seen", fifty, official, tasks=140),
        Panel("alfworld/valid_unseen@1", alfworld, "valid_unseen", fifty, official, tasks=134),
        Panel("alfworld/generated@1", alfworld, "valid_unseen", {**made, **fifty}),
        Panel("alfworld/generated-seen@1", alfworld, "valid_seen", {**made, **fifty}),
        Panel("webshop/small@1", webshop, "test", {**shop, **synthetic, "num_products": 1000}, folder, tasks=500),
        Panel("webshop/full@1", webshop, "test", {**shop, "goals": "human"}, folder, tasks=500),
        Panel("webshop/full-synthetic@1", webshop, "test", {**shop, **synthetic}, folder, tasks=500),
        Panel("webshop/generated@1", webshop, "test", {**shop, **made}),
        *(
            Panel(f"sokoban/{size}x{size}/{low}-{high}@1", sokoban, "test",
                  {"size": size, "min_length": low, "max_length": high, "max_episode_steps": limit}, most=256)
            for size, low, high, limit in _LENGTHS
        ),
        Panel("sokoban/generated@1", sokoban, "test", {"max_episode_steps": 20}, most=256),
        Panel("boxoban/hard-000@1", sokoban, "all", boxes, levels, tasks=1000),
        Panel("boxoban/unfiltered-train-000@1", sokoban, "all", boxes, levels, tasks=1000),
        Panel("boxoban/unfiltered-test@1", sokoban, "all", boxes, levels, tasks=1000),
        *(
            Panel(f"searchqa/{source}@1", search, split, {"sources": [source]}, files, tasks=tasks)
            for source, (split, tasks) in _QUESTIONS.items()
        ),
        Panel("searchqa/generated@1", search, "test", {"world_seed": 0}, most=500),
        Panel("sotopia/all@1", sotopia, "all", {"max_turns": 20}, folder, tasks=450),
        Panel("sotopia/hard@1", sotopia, "hard", {"max_turns": 20}, folder, tasks=70),
        Panel("sotopia/numeric@1", sotopia, "numeric", {"max_turns": 20}, folder),
        Panel("sotopia/generated@1", sotopia, "test", {"max_turns": 20, "world_seed": 0}, most=400),
        Panel("virtualhome/valid_seen@1", home, "valid_seen", forty, homes),
        Panel("virtualhome/valid_unseen@1", home, "valid_unseen", forty, homes),
        Panel("virtualhome/generated@1", home, "valid_unseen", {**made, **forty}),
        Panel("telecom/base@1", desk, "base", hundred, folder, tasks=114),
        Panel("telecom/test@1", desk, "test", hundred, folder, tasks=40),
        Panel("telecom/generated@1", desk, "test", {**hundred, "faults": [1, 4]}, most=256),
        Panel("telecom/generated-hard@1", desk, "test_hard", {**hundred, "faults": [1, 4]}, most=256),
    ]  # fmt: skip


_PANELS: dict[str, Panel] = {panel.name: panel for panel in _rules()}
