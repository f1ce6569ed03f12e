"""Which task an episode has: one protocol for all collections of tasks, one way to choose from them."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

TaskT_co = TypeVar("TaskT_co", covariant=True)


def suggest(given: object, known: Iterable[str]) -> str:
    """Return the tail of an error message: what exists, and the nearest name to what was given.

    >>> suggest("trian", ["test", "train"])
    "known: 'test', 'train'; did you mean 'train'?"
    """
    names = list(known)
    tail = "known: " + (", ".join(repr(name) for name in names) or "none")
    close = difflib.get_close_matches(str(given), names, n=1)
    return f"{tail}; did you mean {close[0]!r}?" if close else tail


class Tasks(Protocol[TaskT_co]):
    """Tasks in splits; what an environment's options narrow (kinds, sources) is a collection of its own."""

    @property
    def name(self) -> str:
        """What the collection is, for messages: "the generated games", a folder."""
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        ...

    def count(self, split: str) -> int:
        """Return how many tasks a reset draws from in a split."""
        ...

    def by_index(self, split: str, index: int) -> TaskT_co:
        """Return a task by its index from 0, or raise an IndexError past the last one.

        A generator may answer more indices than `count` says.
        """
        ...

    def by_id(self, task_id: str, split: str | None) -> TaskT_co:
        """Return a task by its id, of any split when that is None, or raise a ValueError that shows an id."""
        ...

    def ids(self, split: str) -> Iterator[str]:
        """Yield the ids of a split, `count(split)` of them, in the order of their indices."""
        ...


def check_split(tasks: Tasks[Any], split: object) -> str:
    """Return the name of a split, or raise a ValueError that lists those there are."""
    if not isinstance(split, str) or split not in tasks.splits:
        raise ValueError(f"unknown split {split!r} of {tasks.name}; {suggest(split, tasks.splits)}")
    return split


def check_name(value: object, known: Collection[str], what: str) -> str:
    """Return a name that is known, or raise a ValueError that lists those there are."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"unknown {what} {value!r}; {suggest(value, known)}")
    return value


def whole(name: str, value: Any, least: int) -> int:
    """Return an argument as an int, or raise a ValueError that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def real(name: str, value: Any, least: float = -math.inf, most: float = math.inf, *, expected: str) -> float:
    """Return an argument as a finite float within bounds, or raise a ValueError that names it."""
    known = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    if not known or not least <= value <= most:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return float(value)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a reset that are given: one that is None is not."""
    return {name: value for name, value in options.items() if value is not None}


def choose(tasks: Tasks[TaskT_co], split: str, options: Mapping[str, Any], rng: np.random.Generator) -> TaskT_co:
    """Return the task for the options of a reset.

    Args:
        tasks: the collection, narrowed by the environment's own options.
        split: split to use unless the options name one.
        options: `task_id`, with or without `split`; or `split` and `index`, with or without options of the
            environment that narrow. An option that is None is not given.
        rng: draws the index when the options leave it open.

    Raises:
        ValueError: when options exclude each other or name something that does not exist.
    """
    options = given(options)
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
    count = tasks.count(split)
    if not count:
        raise ValueError(f"split {split!r} of {tasks.name} holds no task; known splits: {', '.join(tasks.splits)}")
    index = whole("option 'index'", options["index"], 0) if "index" in options else int(rng.integers(count))
    try:
        return tasks.by_index(split, index)
    except (IndexError, OverflowError):  # what a list says, and what an array says of integers beyond 64 bits
        raise ValueError(
            f"index {index} is out of range: split {split!r} of {tasks.name} has {count} tasks, use 0 to {count - 1}"
        ) from None
