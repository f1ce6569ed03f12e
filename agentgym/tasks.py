"""Task collections: a protocol, the choice of an episode's task, and random choices for generators."""

from __future__ import annotations

import copy
import itertools
import numbers
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from agentgym.checks import check_name, suggest, whole

#: Names that other collections use for a split, best match first.
_MEANT = {
    "train": ("train", "all"),
    "validation": ("valid_seen", "dev"),
    "test": ("valid_unseen", "hard", "dev", "validation", "all"),
}

#: Value of `data` for generated tasks, with or without the variable of the published ones.
GENERATED = "generated"
TaskT = TypeVar("TaskT")
TaskT_co = TypeVar("TaskT_co", covariant=True)
_T = TypeVar("_T")
#: Random numbers drawn at first, and later at a time: many tasks need few.
_FEW, _MANY = 20, 32
#: What numpy's seed sequence does to each of its words (a public, fixed algorithm): two numbers a word.
_HASHES = np.array([0x8B51F9DD * pow(0x58F38DED, number, 2**32) % 2**32 for number in range(9)], np.uint32)
_XORED, _MULTIPLIED, _HALF = _HASHES[:8], _HASHES[1:], np.full(8, 16, np.uint32)


class Tasks(Protocol[TaskT_co]):
    """Tasks in splits; environment options that narrow them (kinds, sources) give another collection."""

    @property
    def name(self) -> str:
        """What the collection is, for messages, such as "the generated games" or a folder."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""

    def count(self, split: str) -> int:
        """Return the number of tasks in a split."""

    def by_index(self, split: str, index: int) -> TaskT_co:
        """Return a task by its index from 0; IndexError from `count(split)` on."""

    def by_id(self, task_id: str, split: str | None) -> TaskT_co:
        """Return a task by its id (a generator's beyond `count` too), of any split for None; else ValueError."""

    def ids(self, split: str) -> Iterator[str]:
        """Yield the `count(split)` ids of a split in index order."""


class NumberedTasks(ABC, Generic[TaskT]):
    """Generated `Tasks` with ids "<split>/<index>".

    A subclass sets `name`, `splits`, `kind` (for messages), `num_tasks` (of a split; ids go beyond) and writes `make`.
    """

    name: str
    splits: tuple[str, ...]
    kind: ClassVar[str]
    most_digits: ClassVar[int] = 15
    num_tasks: int

    @abstractmethod
    def make(self, split: str, index: int) -> TaskT:
        """Return a task of an existing split by any index from 0."""

    def count(self, split: str) -> int:
        return self.num_tasks

    def by_index(self, split: str, index: int) -> TaskT:
        if not 0 <= index < self.num_tasks:
            raise IndexError(index)
        return self.make(split, index)

    def by_id(self, task_id: str, split: str | None) -> TaskT:
        named, _, index = task_id.rpartition("/")
        # One name per task, because episodes are grouped by task_id: "train/017" is not "train/17".
        if named not in self.splits or not re.fullmatch(f"0|[1-9][0-9]{{0,{self.most_digits - 1}}}", index):
            raise ValueError(
                f"unknown task_id {task_id!r:.200}: expected '<split>/<index>' such as 'train/17'; "
                f"splits: {suggest(named, self.splits)}"
            )
        if split not in (None, named):
            raise ValueError(f"the {self.kind} {task_id!r:.200} is one of split {named!r}, not of {split!r}")
        return self.make(named, int(index))

    def ids(self, split: str) -> Iterator[str]:
        return (f"{split}/{index}" for index in range(self.num_tasks))


class OfTypes:
    """A collection from which `of_types` selects tasks of some types; task_ids of others stay valid.

    A subclass sets `name`, `task_types` and `_kinds` (the selected ones), and `numbered` if types also have numbers.
    """

    name: str
    numbered: ClassVar[bool] = False
    _kinds: tuple[str, ...]

    @property
    def task_types(self) -> tuple[str, ...]:
        """All types, selected or not."""
        raise NotImplementedError

    def of_types(self, kinds: Any) -> Self:
        """Return the tasks of a type or of several, by name or number (from 1); ValueError for an unknown one."""
        known, chosen = self.task_types, set()
        for kind in kinds if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,):
            whole = self.numbered and isinstance(kind, numbers.Integral) and not isinstance(kind, bool)
            name = known[int(kind) - 1] if whole and 0 < kind <= len(known) else kind
            chosen.add(check_name(name, known, "task type"))
        if not chosen:
            raise ValueError("task_types is empty: name at least one task type, or pass None for all")
        narrowed = copy.copy(self)
        narrowed._kinds = tuple([kind for kind in known if kind in chosen])
        narrowed.name = f"{self.name} of the types {', '.join(narrowed._kinds)}"
        return narrowed


def published(data: Any, variable: str) -> str | os.PathLike[str] | None:
    """Return the folder of published tasks, `data` or the variable's; None for generated tasks."""
    if data is None:
        data = os.environ.get(variable) or GENERATED
    if not isinstance(data, (str, os.PathLike)) or data == "":
        raise ValueError(f"data must be a folder, {GENERATED!r} or None, got {data!r}")
    return None if data == GENERATED else data


def check_split(tasks: Tasks[Any], split: object) -> str:
    """Return a split's name, or raise a ValueError with the known names and the nearest one."""
    if isinstance(split, str) and split in tasks.splits:
        return split
    meant = next((name for name in _MEANT.get(str(split), ()) if name in tasks.splits), None)
    tail = suggest(split, tasks.splits) if meant is None else f"{suggest('', tasks.splits)}; use {meant!r}"
    raise ValueError(f"unknown split {split!r} of {tasks.name}; {tail}")


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reset options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def choose(tasks: Tasks[TaskT_co], split: str, options: Mapping[str, Any], rng: Generator) -> TaskT_co:
    """Return the task for the options of a reset; `rng` draws the index if they leave it open.

    Options: `task_id`, with or without `split`; or `split` and `index`, with or without `task_type` (see `OfTypes`) and
    options that narrowed `tasks` before.
    None means not given. Raises a ValueError if they exclude each other or name something unknown.
    """
    options = given(options) if options else {}
    named = check_split(tasks, options["split"]) if "split" in options else None
    if "task_id" in options:
        if not options.keys() <= {"task_id", "split"}:
            raise ValueError(
                f"reset options {sorted(options)} name the task in more than one way: give 'task_id' (with or without "
                "'split'), or the others without 'task_id'"
            )
        task_id = options["task_id"]
        if not isinstance(task_id, str):
            raise ValueError(f"option 'task_id' must be a string, got {task_id!r}")
        return tasks.by_id(str(task_id), named)
    split = check_split(tasks, split) if named is None else named
    if "task_type" in options and isinstance(tasks, OfTypes):
        tasks = tasks.of_types(options["task_type"])
    count = tasks.count(split)
    if not count:
        raise ValueError(f"split {split!r} of {tasks.name} holds no task; known splits: {', '.join(tasks.splits)}")
    index = whole("option 'index'", options["index"], 0) if "index" in options else int(rng.integers(count))
    try:
        return tasks.by_index(split, index)
    except (IndexError, OverflowError):  # lists raise the first, arrays the second for integers beyond 64 bits
        raise ValueError(
            f"index {index} is out of range: split {split!r} of {tasks.name} has {count} tasks, use 0 to {count - 1}"
        ) from None


class _Words(SeedSequence):
    """numpy's seed sequence, with equal words: those that PCG64 asks for are worked out together, in half the time."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        if n_words != 4 or dtype is not np.uint64 or sys.byteorder != "little":
            return super().generate_state(n_words, dtype)
        words = np.concatenate((self.pool, self.pool))
        words ^= _XORED
        words *= _MULTIPLIED
        words ^= words >> _HALF
        return words.view(np.uint64)


def generator(*seed: int) -> Generator:
    """Return what `numpy.random.default_rng(seed)` returns, in less time; of one number as of the tuple."""
    # An array has the same words as the tuple, and is read sooner.
    return Generator(PCG64(_Words(np.array(seed, np.uint32) if max(seed) < 2**32 else seed)))


def _further(rng: Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_MANY).tolist()


class Draws:
    """Random choices from a sequence of uniform numbers in [0, 1), one number per choice."""

    def __init__(self, uniform: Iterable[float]) -> None:
        self._draw = iter(uniform).__next__

    @classmethod
    def seeded(cls, *seed: int) -> Draws:
        """Return unlimited choices from a seed."""
        rng = generator(*seed)
        return cls(itertools.chain(rng.random(_FEW).tolist(), _further(rng)))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a number between low and high."""
        return low + (high - low) * self._draw()

    def below(self, count: int) -> int:
        """Return a whole number in 0..count - 1."""
        return int(self._draw() * count)

    def pick(self, values: Sequence[_T]) -> _T:
        """Return one of the values."""
        return values[int(self._draw() * len(values))]

    def sample(self, values: Sequence[_T], count: int) -> list[_T]:
        """Return `count` of the values in random order."""
        left, draw = list(values), self._draw
        return [left.pop(int(draw() * len(left))) for _ in range(count)]
