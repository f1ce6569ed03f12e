"""The tasks: generated ones, or the official pairings, in splits."""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym.checks import check_name, whole
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.official import HARD_SCENARIOS, read_official, state_of
from agentgym.sotopia.profiles import Task
from agentgym.tasks import Tasks, check_split

#: First number and count of the generated tasks of each family in a split.
_NUMBERS = {"train": (2_000, 100_000), "validation": (1_000, 1_000), "test": (0, 1_000)}


class GeneratedTasks:
    """Tasks of some families in turn, named "<family>-<world seed>-<number>"; splits share no number."""

    name = "the generated tasks"
    splits = tuple(_NUMBERS)

    def __init__(self, families: tuple[str, ...] | None, world_seed: int) -> None:
        self.families, self.world_seed = families or FAMILIES, world_seed

    def count(self, split: str) -> int:
        return _NUMBERS[split][1] * len(self.families)

    def by_index(self, split: str, index: int) -> Task:
        if index >= self.count(split):  # the next number may belong to another split
            raise IndexError(index)
        number, family = divmod(index, len(self.families))
        return generate(self.families[family], self.world_seed, _NUMBERS[split][0] + number)

    def by_id(self, task_id: str, split: str | None = None) -> Task:
        ranges = [_NUMBERS[split]] if split is not None else list(_NUMBERS.values())
        family, _, digits = task_id.rpartition(f"-{self.world_seed}-")
        number = int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 10 else -1
        inside = any(first <= number < first + count for first, count in ranges)
        if family not in self.families or not inside or f"{family}-{self.world_seed}-{number}" != task_id:
            where = f" of split {split!r}" if split else ""
            example = f"{self.families[0]}-{self.world_seed}-{ranges[0][0]}"
            raise ValueError(
                f"unknown task_id {task_id!r}{where}: tasks there are named like {example!r}; families are "
                f"{', '.join(map(repr, self.families))}, world_seed is {self.world_seed}"
            )
        return generate(family, self.world_seed, number)

    def ids(self, split: str) -> Iterator[str]:
        first, count = _NUMBERS[split]
        for number in range(first, first + count):
            for family in self.families:
                yield f"{family}-{self.world_seed}-{number}"


class OfficialTasks:
    """The official pairings: "all", "hard" (SOTOPIA-hard) and "numeric" (computable goals, of some `families`)."""

    splits = ("all", "hard", "numeric")

    def __init__(self, folder: Path, families: tuple[str, ...] | None) -> None:
        self.name = f"the pairings of {folder}" + (f" of families {', '.join(families)}" if families else "")
        tasks = [
            each for each in read_official(folder) if families is None or (each.game and each.game.family in families)
        ]
        self._by_id = {each.id: each for each in tasks}
        self._splits = {
            "all": tasks,
            "hard": [each for each in tasks if each.scenario.id in HARD_SCENARIOS],
            "numeric": [each for each in tasks if each.game is not None],
        }

    def count(self, split: str) -> int:
        return len(self._splits[split])

    def by_index(self, split: str, index: int) -> Task:
        return self._splits[split][index]

    def by_id(self, task_id: str, split: str | None = None) -> Task:
        task = self._by_id.get(task_id)
        if task is None:
            example = f" such as {next(iter(self._by_id))!r}" if self._by_id else ""
            raise ValueError(f"unknown task_id {task_id!r}: it is the id of a pairing of {self.name}{example}")
        if split is not None and task not in self._splits[split]:
            raise ValueError(f"the task {task_id!r} does not belong to split {split!r}")
        return task

    def ids(self, split: str) -> Iterator[str]:
        return iter([each.id for each in self._splits[split]])


def choose_split(tasks: Tasks[Task], split: str | None, *, computed: bool) -> str:
    """Return a known split, by default the first playable one; `computed` requires computable goals."""
    if split is not None:
        return check_split(tasks, split)
    if "train" in tasks.splits:
        return "train"
    return "numeric" if computed and tasks.count("numeric") else "all"


def check_families(families: Iterable[str] | str | None) -> tuple[str, ...] | None:
    """Return names of families, None for all; ValueError for unknown, repeated or no names."""
    if families is None:
        return None
    chosen = (families,) if isinstance(families, str) else tuple(families)
    for family in chosen:
        check_name(family, FAMILIES, "family")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"families must be one or more different names, got {list(chosen)}")
    return chosen


@lru_cache(maxsize=64)
def _tasks(data: Path | None, state: str, families: tuple[str, ...] | None, world_seed: int) -> Tasks[Task]:
    return GeneratedTasks(families, world_seed) if data is None else OfficialTasks(data, families)


def load_tasks(data: str | Path | None, families: Iterable[str] | str | None, world_seed: Any) -> Tasks[Task]:
    """Return the official tasks of a folder, or the generated tasks; environments share them."""
    seed = whole("world_seed", world_seed, 0)
    folder = None if data is None else Path(os.path.realpath(Path(data).expanduser()))
    state = "" if folder is None else state_of(folder)
    return _tasks(folder, state, check_families(families), seed)
