"""Which level an episode plays: a generated one, one of a file, or one given as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentgym.sokoban.generated import GeneratedLevels
from agentgym.sokoban.levels import open_levels
from agentgym.sokoban.rules import Level
from agentgym.sokoban.text import board_text, parse_level
from agentgym.tasks import Tasks, choose, given

_TEXT_PREFIX = "level:"


class Levels(Tasks[tuple[str, Level]], Protocol):
    """A collection of (task_id, level)."""

    @property
    def first(self) -> str:
        """Split of episodes for which nobody names one."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the largest board."""
        ...


def find_levels(path: str | Path | None, generator: Mapping[str, Any]) -> Levels:
    """Return the levels of a file or folder, or generated ones when there is no path.

    Args:
        path: see `levels.LevelFiles`.
        generator: arguments of `GeneratedLevels`.

    Raises:
        ValueError: when an argument of the generator is wrong, or the path holds no level.
    """
    return GeneratedLevels(**generator) if path is None else open_levels(path)


def choose_level(levels: Levels, split: str, options: Mapping[str, Any], rng: np.random.Generator) -> tuple[str, Level]:
    """Return (task_id, level) for the options of a reset.

    Args:
        levels: where levels come from.
        split: split to use unless the options name one.
        options: `level` alone, a level as text, or what `agentgym.tasks.choose` takes; "level:" and the rows joined by
            "/" is a task_id too.
        rng: draws the index when the options leave it open.

    Raises:
        ValueError: when options exclude each other or name something that does not exist.
    """
    options = given(options)
    task_id = options.get("task_id")
    written = isinstance(task_id, str) and task_id.startswith(_TEXT_PREFIX)
    if "level" not in options and not written:
        return choose(levels, split, options, rng)
    if len(options) > 1:
        raise ValueError(
            f"reset options {sorted(options)} name the level in more than one way: give either 'level', or 'task_id', "
            "or 'split' and 'index'"
        )
    text = options["level"] if task_id is None else task_id.removeprefix(_TEXT_PREFIX).replace("/", "\n")
    if not isinstance(text, str):
        raise ValueError(f"option 'level' must be a level as text, got {type(text).__name__}")
    level = parse_level(text)
    return level_id(level), level


def level_id(level: Level) -> str:
    """Return the task_id that says the whole level."""
    return _TEXT_PREFIX + board_text(level).replace("\n", "/")
