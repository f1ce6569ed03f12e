"""Which dialogue an episode is: generated tasks without end, or the official pairings, in splits."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from agentgym.core import suggest
from agentgym.sotopia.generated.scenarios import FAMILIES, generate
from agentgym.sotopia.official.games import ScenarioError, read_game
from agentgym.sotopia.official.profile_files import HARD_SCENARIOS, Pairing, read_official
from agentgym.sotopia.profiles import Task
from agentgym.tasks import Tasks

#: Numbers of the generated tasks of each family in a split: first one, and how many.
_NUMBERS = {"train": (2_000, 100_000), "validation": (1_000, 1_000), "test": (0, 1_000)}


class GeneratedTasks:
    """Tasks of some families, one family after the other; their ids are "<family>-<world seed>-<number>".

    Splits share no number, hence no task.

    Args:
        families: names of families; None for all.
        world_seed: another number makes other tasks.

    Raises:
        ValueError: on an unknown family.
    """

    name = "the generated tasks"
    splits = tuple(_NUMBERS)

    def __init__(self, families: Iterable[str] | str | None = None, world_seed: int = 0) -> None:
        chosen = check_families(families) or FAMILIES
        seed: Any = world_seed
        if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
            raise ValueError(f"world_seed must be an integer of at least 0, got {seed!r}")
        self.families: tuple[str, ...] = chosen
        self.world_seed = int(seed)

    def count(self, split: str) -> int:
        """Return the number of tasks in a split."""
        return _NUMBERS[split][1] * len(self.families)

    def by_index(self, split: str, index: int) -> Task:
        """Return a task by its index in a split."""
        if index >= self.count(split):  # the next number may belong to another split
            raise IndexError(index)
        number, family = divmod(index, len(self.families))
        return generate(self.families[family], self.world_seed, _NUMBERS[split][0] + number)

    def by_id(self, task_id: str, split: str | None = None) -> Task:
        """Return a task by its id."""
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
        """Yield the ids of a split."""
        first, count = _NUMBERS[split]
        for number in range(first, first + count):
            for family in self.families:
                yield f"{family}-{self.world_seed}-{number}"


class OfficialTasks:
    """The official pairings: "all", those of SOTOPIA-hard, and the "numeric" ones, which play without a judge.

    Args:
        folder: see `official.profile_files.read_official`.
        families: only numeric scenarios of these families; None for every scenario.
    """

    splits = ("all", "hard", "numeric")

    def __init__(self, folder: str | Path, families: Iterable[str] | str | None = None) -> None:
        chosen = check_families(families)
        try:
            tasks = [_official(i, pairing) for i, pairing in enumerate(read_official(folder))]
        except ScenarioError as error:
            raise ScenarioError(f"{folder}: {error}") from error
        self.name = f"the pairings of {folder}" + (f" of families {', '.join(chosen)}" if chosen else "")
        self.tasks = [each for each in tasks if chosen is None or (each.game and each.game.family in chosen)]

    @cached_property
    def _splits(self) -> dict[str, Sequence[Task]]:
        return {
            "all": self.tasks,
            "hard": [each for each in self.tasks if each.scenario.id in HARD_SCENARIOS],
            "numeric": [each for each in self.tasks if each.game is not None],
        }

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {each.id: each for each in self.tasks}

    def count(self, split: str) -> int:
        """Return the number of tasks in a split."""
        return len(self._splits[split])

    def by_index(self, split: str, index: int) -> Task:
        """Return a task by its index in a split."""
        return self._splits[split][index]

    def by_id(self, task_id: str, split: str | None = None) -> Task:
        """Return a task by its id, that of the pairing."""
        task = self._by_id.get(task_id)
        if task is None:
            example = f" such as {self.tasks[0].id!r}" if self.tasks else ""
            raise ValueError(f"unknown task_id {task_id!r}: it is the id of a pairing of {self.name}{example}")
        if split is not None and all(each is not task for each in self._splits[split]):
            raise ValueError(f"the task {task_id!r} does not belong to split {split!r}")
        return task

    def ids(self, split: str) -> Iterator[str]:
        """Yield the ids of a split."""
        return iter([each.id for each in self._splits[split]])


def _official(number: int, pairing: Pairing) -> Task:
    return Task(pairing.id, pairing.scenario, pairing.people, read_game(pairing.scenario), number)


def check_families(families: Iterable[str] | str | None) -> tuple[str, ...] | None:
    """Return names of families, None for all, or raise a ValueError when one is unknown, twice there, or none is."""
    if families is None:
        return None
    chosen = (families,) if isinstance(families, str) else tuple(families)
    for family in chosen:
        if family not in FAMILIES:
            raise ValueError(f"unknown family {family!r}; {suggest(family, FAMILIES)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"families must be one or more different names, got {list(chosen)}")
    return chosen


@lru_cache(maxsize=64)
def _find(data: str | None, families: tuple[str, ...] | None, world_seed: int) -> Tasks[Task]:
    return GeneratedTasks(families, world_seed) if data is None else OfficialTasks(data, families)


def find_tasks(data: str | Path | None, families: Iterable[str] | str | None, world_seed: int) -> Tasks[Task]:
    """Return the official tasks of a folder, or without one the generated tasks; environments share them.

    Raises:
        ValueError: on an unknown family, or a file that is not what it should be.
        FileNotFoundError: when the folder or a file of it is not there.
    """
    return _find(None if data is None else str(Path(data).expanduser().resolve()), check_families(families), world_seed)
