"""Where an episode's level comes from: the generator, level files, or a level given as text."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentgym.core import suggest
from agentgym.sokoban.generated import LevelSpec, generate_level
from agentgym.sokoban.levels import open_levels
from agentgym.sokoban.rules import Level, LevelError
from agentgym.sokoban.splits import BUCKETS, check_split
from agentgym.sokoban.text import board_text, parse_level

_TEXT_PREFIX = "level:"


class LevelSource(Protocol):
    """A collection of levels in splits; `size` is the largest board in rows and columns."""

    size: tuple[int, int]

    def count(self, split: str) -> int:
        """Number of levels `reset` draws from."""

    def by_index(self, split: str, index: int) -> tuple[str, Level]:
        """Return (task_id, level)."""

    def by_task_id(self, task_id: str) -> Level:
        """Return the level of a task_id that `by_index` gave."""


class GeneratedLevels:
    """Levels made by the generator; task_id "<split>/<index>"."""

    def __init__(self, spec: LevelSpec, num_levels: Any) -> None:
        if isinstance(num_levels, bool) or not isinstance(num_levels, numbers.Integral) or num_levels < 1:
            raise ValueError(f"num_levels must be an integer of at least 1, got {num_levels!r}")
        self.spec = spec
        self.size = (spec.height, spec.width)
        self._num_levels = int(num_levels)

    def count(self, split: str) -> int:
        """Number of levels `reset` draws from; larger indices are there too when asked for."""
        check_split(split)
        return self._num_levels

    def by_index(self, split: str, index: int) -> tuple[str, Level]:
        """Return (task_id, level)."""
        return f"{split}/{index}", generate_level(self.spec, split, index)

    def by_task_id(self, task_id: str) -> Level:
        """Return the level of a task_id "<split>/<index>"."""
        split, _, index = task_id.rpartition("/")
        # one name per level: "train/017" is not taken for "train/17", episodes are grouped by task_id
        if split not in BUCKETS or not re.fullmatch("0|[1-9][0-9]{0,99}", index):
            raise ValueError(
                f"unknown task_id {task_id!r}: expected '<split>/<index>' such as 'train/17'; "
                f"splits: {suggest(split, BUCKETS)}"
            )
        return generate_level(self.spec, split, int(index))


class FileLevels:
    """Levels of a file or folder; task_id "<file name>#<number>"."""

    def __init__(self, path: str | Path) -> None:
        self._files = open_levels(path)
        self.size = self._files.size

    def count(self, split: str) -> int:
        """Number of levels in the split."""
        count = len(self._files.split(split))
        if not count:
            raise LevelError(f"{self._files.path}: split {split!r} holds no level; use split='all'")
        return count

    def by_index(self, split: str, index: int) -> tuple[str, Level]:
        """Return (task_id, level)."""
        numbers_ = self._files.split(split)
        if index >= len(numbers_):
            raise ValueError(
                f"index {index} is out of range: split {split!r} of {self._files.path} has {len(numbers_)} levels, "
                f"use 0 to {len(numbers_) - 1}"
            )
        return self._files.task_id(numbers_[index]), self._files[numbers_[index]]

    def by_task_id(self, task_id: str) -> Level:
        """Return the level of a task_id "<file name>#<number>"."""
        return self._files[self._files.find(task_id)]


def choose(source: LevelSource, split: str, options: Mapping[str, Any], rng: np.random.Generator) -> tuple[str, Level]:
    """Return (task_id, level) for the options of a reset.

    Args:
        source: where levels come from.
        split: split to use unless the options name one.
        options: at most one way to name the level: `level`, `task_id`, or `split` and/or `index`.
        rng: draws the index when the options leave it open.

    Raises:
        ValueError: when options exclude each other or name something that does not exist.
    """
    if "level" in options or "task_id" in options:
        if len(options) > 1:
            raise ValueError(
                f"reset options {sorted(options)} name the level in more than one way: give either 'level', or "
                f"'task_id', or 'split' and 'index'"
            )
        return _from_text(options["level"]) if "level" in options else _from_id(source, options["task_id"])
    split = options.get("split", split)
    count = source.count(split)
    index: Any = options.get("index")
    if index is None:
        index = int(rng.integers(count))
    if isinstance(index, bool) or not isinstance(index, numbers.Integral) or index < 0:
        raise ValueError(f"option 'index' must be an integer of at least 0, got {index!r}")
    return source.by_index(split, int(index))


def _from_text(text: Any) -> tuple[str, Level]:
    if not isinstance(text, str):
        raise ValueError(f"option 'level' must be a level as text, got {type(text).__name__}")
    level = parse_level(text)
    return _TEXT_PREFIX + board_text(level).replace("\n", "/"), level


def _from_id(source: LevelSource, task_id: Any) -> tuple[str, Level]:
    if not isinstance(task_id, str):
        raise ValueError(f"option 'task_id' must be a string such as 'train/17', got {task_id!r}")
    if task_id.startswith(_TEXT_PREFIX):
        return _from_text(task_id.removeprefix(_TEXT_PREFIX).replace("/", "\n"))
    return task_id, source.by_task_id(task_id)
