"""The published tasks as a collection: goals, splits, and tasks that cannot be played."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from agentgym.checks import check_name, suggest
from agentgym.outside.files import fingerprint
from agentgym.outside.text import DataError
from agentgym.tasks import OfTypes
from agentgym.virtualhome.activity import Activity, Lexicon
from agentgym.virtualhome.commands import LineError, parse_line
from agentgym.virtualhome.goals import Goal
from agentgym.virtualhome.hindsight import Chore, goal_of, split_id, with_chore
from agentgym.virtualhome.official.files import DIFFERENCES, HOW, KINDS, PARTS, Entry, Folder, build, flaw, read_eai
from agentgym.virtualhome.scene import Scene

#: "valid_seen": the titles of "train" in other environments; "valid_unseen": other titles.
SPLITS: Final = ("train", "valid_seen", "valid_unseen", "all")


class OfficialActivities(OfTypes):
    """The published tasks in a folder (see `official.files.HOW`); task_id "s1/<program>" or "scene<number>/<plan>"."""

    first = "train"
    splits = SPLITS

    def __init__(self, data: str | os.PathLike[str], goal: str = "either") -> None:
        given = Path(os.path.expanduser(data)).absolute()
        if not given.is_dir():
            raise DataError(f"VirtualHome data: {given} is not a folder; {HOW}")
        self.goal = check_name(goal, KINDS, "goal")
        files = sorted(path for part in PARTS for path in (given / part).glob("*") if path.is_file())
        self._folder = _folder(given, fingerprint(*files))
        self._kinds = ()  # all
        self.name = f"the tasks in {given}"

    @property
    def task_types(self) -> tuple[str, ...]:
        return tuple(sorted({entry.title for entry in self._folder.entries.values()}))

    def degenerate(self) -> dict[str, str]:
        """Return the tasks that are left out, with the reason: "no goal", "empty" or "true at the start"."""
        return dict(_flaws(self._folder, self.goal))

    def count(self, split: str) -> int:
        return len(self._named(split))

    def by_index(self, split: str, index: int) -> Activity:
        return _activity(self._folder, self._named(split)[index], self.goal)

    def by_id(self, task_id: str, split: str | None) -> Activity:
        task_id, chore = split_id(task_id)
        if chore:
            return with_chore(self.by_id(task_id, split), chore)
        entry = self._folder.entries.get(task_id)
        if entry is None:
            known = list(self._folder.entries)
            raise ValueError(f"unknown task_id {task_id!r:.200} of {self.name}; {suggest(task_id[:200], known)[:500]}")
        if split not in (None, "all", entry.split):
            raise ValueError(f"the task {task_id!r} belongs to split {entry.split!r}, not to {split!r}")
        reason = _flaws(self._folder, self.goal).get(task_id)
        if reason:
            raise ValueError(f"the task {task_id!r} is left out: its goal of the kind {self.goal!r} is {reason}")
        return _activity(self._folder, task_id, self.goal)

    def ids(self, split: str) -> Iterator[str]:
        return iter(self._named(split))

    def same_split(self, activity: Activity, chore: Chore) -> bool:
        asked = _by_class(goal_of(activity.scene, chore), activity.scene)
        unseen = self._folder.entries[split_id(activity.task_id)[0]].split == "valid_unseen"
        return bool(asked & _held_out(self._folder, self.goal)) == unseen

    def _named(self, split: str) -> tuple[str, ...]:
        return _named(self._folder, self.goal, split, self._kinds)


@lru_cache(maxsize=4)
def _folder(path: Path, state: str) -> Folder:
    return Folder(path)


@lru_cache(maxsize=256)
def _activity(folder: Folder, task_id: str, kind: str) -> Activity:
    entry = folder.entries[task_id]
    scene, goal = _read(folder, entry, kind)
    if goal is None:
        raise DataError(f"{entry.where}: there is no goal of the kind {kind!r}")
    lexicon = Lexicon(scene)
    program = []
    for number, line in enumerate(entry.program):
        try:
            program.append(lexicon.words.said(parse_line(line)))
        except (LineError, KeyError) as error:
            raise DataError(f"{entry.where}: line {number} of the program, {line!r:.100}: {error!s:.200}") from None
    return Activity(task_id, entry.title, entry.title, entry.description, lexicon, goal, tuple(program))


def _read(folder: Folder, entry: Entry, kind: str) -> tuple[Scene, Goal | None]:
    scene, object_goal = build(folder, entry, kind if kind in DIFFERENCES else "object")
    if kind in DIFFERENCES:
        return scene, object_goal
    goal = None
    if entry.task_id in folder.eai:
        where = f"{folder.eai_file}, task {entry.task_id}"
        goal = read_eai(folder.eai[entry.task_id], where)
        try:
            goal.tests(scene)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
    if kind == "either" and (goal is None or flaw(goal, scene)):
        goal = object_goal
    return scene, goal


@lru_cache(maxsize=16)
def _flaws(folder: Folder, kind: str) -> dict[str, str]:
    flaws = {}
    for task_id, entry in folder.entries.items():
        scene, goal = _read(folder, entry, kind)
        reason = "not there" if goal is None else flaw(goal, scene)
        if reason:
            flaws[task_id] = reason
    return flaws


@lru_cache(maxsize=16)
def _held_out(folder: Folder, kind: str) -> frozenset[tuple[str, ...]]:
    unseen, seen = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for entry in folder.entries.values():
        scene, goal = _read(folder, entry, kind)
        if goal is not None:
            (unseen if entry.split == "valid_unseen" else seen).update(_by_class(goal, scene))
    return frozenset(unseen - seen)


def _by_class(goal: Goal, scene: Scene) -> set[tuple[str, ...]]:
    def of(node: int) -> str:
        return scene.names[scene.index[node]]

    states = {(of(node), state) for node, state in goal.states}
    states.update((of(node), state) for node, names in goal.exact for state in names)
    return states | {(of(source), relation, of(target)) for source, relation, target in goal.edges}


@lru_cache(maxsize=64)
def _named(folder: Folder, kind: str, split: str, titles: tuple[str, ...]) -> tuple[str, ...]:
    flaws = _flaws(folder, kind)
    return tuple(
        [
            task_id
            for task_id, entry in folder.entries.items()
            if task_id not in flaws and split in ("all", entry.split) and (not titles or entry.title in titles)
        ]
    )
