"""Where an episode's game comes from: the official data or the generator; and which one it is."""

from __future__ import annotations

import numbers
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from agentgym.alfworld.game import TASK_TYPES, Game
from agentgym.alfworld.generated.games import GeneratedGames
from agentgym.alfworld.official.dataset import SPLITS, VARIABLE, Split, find_folder, open_split
from agentgym.core import suggest
from agentgym.disk_cache import cache_folder

#: Value of `data` that asks for generated games whatever the variable ALFWORLD_DATA says.
GENERATED = "generated"


class GameSource(Protocol):
    """A collection of games in splits."""

    #: What the collection is, for messages.
    name: str

    def check_split(self, split: object) -> str:
        """Return the split's name, or raise a ValueError that lists those there are."""

    def dialect(self, split: str) -> str:
        """Return the wording of the split's games, one of `DIALECTS`."""

    def count(self, split: str, kinds: Collection[str]) -> int:
        """Number of games of these task types that `reset` draws from."""

    def by_index(self, split: str, index: int, kinds: Collection[str]) -> Game:
        """Return a game by its position among those of these task types, or raise an IndexError past the last one."""

    def by_task_id(self, task_id: str, split: str | None) -> Game:
        """Return the game of a task_id, of any split when it is None."""


class OfficialGames:
    """The official games in a folder.

    Args:
        data: see `dataset.find_folder`.
        cache: folder of the import cache, None for no cache.
    """

    def __init__(self, data: str | os.PathLike[str], cache: Path | None) -> None:
        self._folder = find_folder(data)
        self._cache = cache
        self._splits = tuple([name for name in SPLITS if (self._folder / name).is_dir()])
        self._opened: dict[str, Split] = {}
        self.name = str(self._folder)

    def check_split(self, split: object) -> str:
        """Return the split's name when the folder has it."""
        if split not in self._splits:
            raise ValueError(f"unknown split {split!r} of {self._folder}; {suggest(split, self._splits)}")
        return str(split)

    def dialect(self, split: str) -> str:
        """Return the wording of the split's first game; a data version has one wording."""
        return self._open(split)[0].dialect

    def count(self, split: str, kinds: Collection[str]) -> int:
        """Number of games of these task types in the split."""
        return len(self._positions(self._open(split), kinds))

    def by_index(self, split: str, index: int, kinds: Collection[str]) -> Game:
        """Return a game by its position in the sorted list of those of these task types."""
        games = self._open(split)
        return games[self._positions(games, kinds)[index]]

    def by_task_id(self, task_id: str, split: str | None) -> Game:
        """Return the game of the folder <split>/<task_id>."""
        for name in self._splits if split is None else (split,):
            # other splits are not read for nothing
            if name == split or os.path.isdir(self._folder / name / task_id):
                games = self._open(name)
                position = games.index.get(task_id)
                if position is not None:
                    return games[position]
                reason = dict(games.games.left_out).get(task_id)
                if reason:
                    raise ValueError(f"the game {task_id!r} of split {name!r} is left out: it is one {reason}")
        where = self._folder if split is None else self._folder / split
        known = self._open(split).games.task_ids if split else ()
        near = f"; {suggest(task_id, known).rpartition('; ')[2]}" if known else ""
        raise ValueError(
            f"unknown task_id {task_id!r}: {where} has no such game; expected '<task folder>/<trial folder>'{near}"
        )

    def _open(self, split: str) -> Split:
        if split not in self._opened:
            self._opened[split] = open_split(self._folder, split, self._cache)
        return self._opened[split]

    def _positions(self, games: Split, kinds: Collection[str]) -> Sequence[int]:
        return range(len(games)) if len(kinds) == len(TASK_TYPES) else games.of_types(tuple(kinds))


def check_task_types(kinds: Any) -> tuple[str, ...]:
    """Return task types by name, in the order of `TASK_TYPES`; None stands for all, 1 to 6 for the original's numbers.

    >>> check_task_types(["pick_two_obj_and_place", 1])
    ('pick_and_place_simple', 'pick_two_obj_and_place')
    """
    if kinds is None:
        return TASK_TYPES
    given = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,)
    numbered = {i + 1: name for i, name in enumerate(TASK_TYPES)}
    names = set()
    for kind in given:
        if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool) and int(kind) in numbered:
            names.add(numbered[int(kind)])
        elif kind in TASK_TYPES:
            names.add(kind)
        else:
            raise ValueError(f"unknown task type {kind!r}; a name or its number from 1: {suggest(kind, TASK_TYPES)}")
    if not names:
        raise ValueError("task_types is empty: name at least one task type, or pass None for all")
    return tuple([name for name in TASK_TYPES if name in names])


def choose(
    source: GameSource, split: str, kinds: tuple[str, ...], options: Mapping[str, Any], rng: np.random.Generator
) -> Game:
    """Return the game for the options of a reset.

    Args:
        source: where games come from.
        split: split to use unless the options name one.
        kinds: task types to choose from unless the options name one.
        options: `task_id`, with or without `split`; or any of `split`, `index`, `task_type`; None is as none.
        rng: draws the index when the options leave it open.

    Raises:
        ValueError: when options exclude each other or name something that does not exist.
    """
    given = {name: value for name, value in options.items() if value is not None}
    named = source.check_split(given["split"]) if "split" in given else None
    if "task_id" in given:
        if "index" in given or "task_type" in given:
            raise ValueError(
                f"reset options {sorted(given)} name the game in more than one way: give 'task_id' (with or without "
                "'split'), or any of 'split', 'index' and 'task_type'"
            )
        if not isinstance(given["task_id"], str):
            raise ValueError(f"option 'task_id' must be a string, got {given['task_id']!r}")
        return source.by_task_id(given["task_id"], named)
    split = source.check_split(split) if named is None else named
    if "task_type" in given:
        kinds = check_task_types(given["task_type"])
    count = source.count(split, kinds)
    if not count:
        raise ValueError(f"split {split!r} of {source.name} has no game of the types {', '.join(kinds)}")
    index: Any = given["index"] if "index" in given else int(rng.integers(count))
    if isinstance(index, bool) or not isinstance(index, numbers.Integral) or index < 0:
        raise ValueError(f"option 'index' must be an integer of at least 0, got {index!r}")
    try:
        return source.by_index(split, int(index), kinds)
    except IndexError:
        of_types = "" if len(kinds) == len(TASK_TYPES) else f" of the types {', '.join(kinds)}"
        raise ValueError(
            f"index {index} is out of range: split {split!r} of {source.name} has {count} games{of_types}, "
            f"use 0 to {count - 1}"
        ) from None


def find_source(data: Any, cache: Any, generator: Mapping[str, Any]) -> GameSource:
    """Return the official games of `data` (or of $ALFWORLD_DATA when it is None), else generated ones.

    Args:
        data: a folder, `GENERATED`, or None.
        cache: see `agentgym.disk_cache.cache_folder`.
        generator: arguments of `generated.GeneratedGames`.

    Raises:
        ValueError: when `data` or `cache` is something else, or `data` a folder without games.
    """
    where = cache_folder(cache)
    if data is None:
        data = os.environ.get(VARIABLE) or GENERATED
    if data == GENERATED:
        return GeneratedGames(**generator)
    if not isinstance(data, (str, os.PathLike)) or data == "":
        raise ValueError(f"data must be a folder, {GENERATED!r} or None, got {data!r}")
    return OfficialGames(data, where)
