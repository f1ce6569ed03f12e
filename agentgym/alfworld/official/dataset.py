"""The official games of a folder, and the import cache: one file of a few megabytes per split.

A cache file is rewritten when its digest, the format version, or names, sizes or times of the source files differ.
"""

import errno
import hashlib
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from sys import intern
from typing import Any

import gymnasium as gym

from agentgym.alfworld.game import TASK_TYPES, Game
from agentgym.alfworld.goals import parse_goal, split_id, with_goal
from agentgym.alfworld.official.problem import read_game
from agentgym.checks import suggest
from agentgym.outside.files import VARIABLE as CACHE_VARIABLE
from agentgym.outside.files import fingerprint, write_file
from agentgym.outside.text import DataError, clean, read_json
from agentgym.tasks import OfTypes

#: Increase it with every change of reading or packing a game.
VERSION = 4
_MAGIC = b"agentgym alfworld games\n"
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Split:
    """The games of a split, sorted by task folder and trial; a game is unpacked on first use.

    `packed`: `pack` of each game; `left_out`: the folders that are no games, with the reason.
    """

    task_ids: tuple[str, ...]
    task_types: tuple[str, ...]
    packed: tuple[bytes, ...]
    left_out: tuple[tuple[str, str], ...]
    _of_types: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def index(self) -> dict[str, int]:
        return {task_id: i for i, task_id in enumerate(self.task_ids)}

    def of_types(self, kinds: tuple[str, ...]) -> tuple[int, ...]:
        if kinds not in self._of_types:
            self._of_types[kinds] = tuple([i for i, kind in enumerate(self.task_types) if kind in kinds])
        return self._of_types[kinds]

    def __getitem__(self, position: int) -> Game:
        return _unpacked(self.packed[position])


def cache_file(folder: Path, source: Path) -> Path:
    """Return the cache file of a split's folder."""
    return folder / f"alfworld-{source.name}-{fingerprint(str(source.resolve()))}.games"


def load(file: Path, state: str) -> Split | None:
    """Return the games of a cache file, None when it is missing, damaged or of another state of the source."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    content = data[len(_MAGIC) + _DIGEST :]
    if data[: -len(content)] != _MAGIC + hashlib.sha256(content).digest():
        return None
    # from here on the file is from `save`, of this version or another
    start = 8 + int.from_bytes(content[:8], "big")
    head = json.loads(zlib.decompress(content[8:start]))
    if (head["version"], head["state"]) != (VERSION, state):
        return None
    ends = [*accumulate(head["sizes"], initial=start)]
    packed = tuple([content[begin:end] for begin, end in pairwise(ends)])
    left_out = tuple([(name, reason) for name, reason in head["left_out"]])
    return Split(tuple(head["task_ids"]), tuple(head["task_types"]), packed, left_out)


def save(file: Path, state: str, games: Split) -> None:
    """Write a cache file; a failure is a warning."""
    head = {
        "version": VERSION, "state": state, "task_ids": games.task_ids, "task_types": games.task_types,
        "sizes": [len(packed) for packed in games.packed], "left_out": games.left_out,
    }  # fmt: skip
    packed_head = zlib.compress(json.dumps(head).encode(), 9)
    content = len(packed_head).to_bytes(8, "big") + packed_head + b"".join(games.packed)
    try:
        write_file(file, _MAGIC + hashlib.sha256(content).digest() + content)
    except OSError as error:
        gym.logger.warn(
            f"cannot cache the ALFWorld games in {file.parent} ({error}): every process reads them again; "
            f"set {CACHE_VARIABLE} to a folder that can be written, or to 'off'"
        )


_FIELDS = tuple(each.name for each in fields(Game) if each.init)


def pack(game: Game) -> bytes:
    """Return a game as compressed bytes for `unpack`."""
    record = [getattr(game, name) for name in _FIELDS]
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 9)


def unpack(data: bytes) -> Game:
    """Return the game of bytes from `pack`; a ValueError for other bytes."""
    try:
        record = json.loads(zlib.decompress(data))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"not a packed game: {error}") from error
    return Game(**dict(zip(_FIELDS, map(_frozen, record), strict=True)))


_unpacked = lru_cache(maxsize=2048)(unpack)


def _frozen(value: Any) -> Any:
    """Return lists as tuples, and equal texts as one object."""
    if isinstance(value, list):
        return tuple([_frozen(each) for each in value])
    return intern(value) if isinstance(value, str) else value


#: Splits of the official data.
SPLITS: tuple[str, ...] = ("train", "valid_seen", "valid_unseen", "valid_train")
VARIABLE = "ALFWORLD_DATA"
#: Maximum file size; official files have half a megabyte.
MOST_BYTES = 1 << 26
_GAME, _TRAJECTORY = "game.tw-pddl", "traj_data.json"
_TASK_TYPE = re.compile(rb'"task_type"\s*:\s*"(\w+)"')
_HOW = (
    f"expected a folder that holds json_2.1.1/<split>/<task>/<trial>/{_GAME}: run `alfworld-download` of the alfworld "
    f"package (its default is ~/.cache/alfworld) and pass that folder as data= or in ${VARIABLE}; without either, "
    "generated games are played"
)


def find_folder(data: str | os.PathLike[str]) -> Path:
    """Return the folder that contains the splits: `data`, or the `json_2.1.1` (or another `json_*`) in it."""
    given = Path(os.path.expanduser(data)).absolute()
    if not given.is_dir():
        raise DataError(f"ALFWorld data: {given} is not a folder; {_HOW}")
    for folder in (given, given / "json_2.1.1", *sorted(given.glob("json_*"), reverse=True)):
        if any((folder / split).is_dir() for split in SPLITS):
            return folder
    if given.name in SPLITS:
        raise DataError(
            f"ALFWorld data: {given} is a split, not a folder of splits: pass {given.parent} as data= and "
            f"{given.name!r} as split="
        )
    raise DataError(f"ALFWorld data: {given} contains no split ({', '.join(SPLITS)}); {_HOW}")


class OfficialGames(OfTypes):
    """The official games in a folder (see `find_folder`); `cache` is the folder of the import cache."""

    task_types, numbered = TASK_TYPES, True

    def __init__(self, data: str | os.PathLike[str], cache: Path | None) -> None:
        self._folder = find_folder(data)
        self._cache = cache
        self._kinds = TASK_TYPES
        self.splits = tuple([name for name in SPLITS if (self._folder / name).is_dir()])
        self.first = self.splits[0]
        self.name = f"the games in {self._folder}"

    def dialect(self, split: str) -> str:
        """Return the wording of the split's first game; a data version has one wording."""
        return self._open(split)[0].dialect

    def count(self, split: str) -> int:
        return len(self._positions(split))

    def by_index(self, split: str, index: int) -> Game:
        return self._open(split)[self._positions(split)[index]]

    def by_id(self, task_id: str, split: str | None) -> Game:
        """Return the game of the folder <split>/<task_id>, of any split when `split` is None."""
        task_id, goal = split_id(task_id)
        if goal:
            return with_goal(self.by_id(task_id, split), parse_goal(goal))
        for name in self.splits if split is None else (split,):
            # the other splits are read only when needed
            if name == split or os.path.isdir(self._folder / name / task_id):
                games = self._open(name)
                position = games.index.get(task_id)
                if position is not None:
                    return games[position]
                reason = dict(games.left_out).get(task_id)
                if reason:
                    raise ValueError(f"the game {task_id!r:.200} of split {name!r} is left out: it is one {reason}")
        where = self._folder if split is None else self._folder / split
        known = self._open(split).task_ids if split else ()
        near = f"; {suggest(task_id, known).rpartition('; ')[2]}" if known else ""
        raise ValueError(
            f"unknown task_id {task_id!r:.200}: {where} has no such game; expected '<task folder>/<trial folder>'{near}"
        )

    def ids(self, split: str) -> Iterator[str]:
        task_ids = self._open(split).task_ids
        return (task_ids[position] for position in self._positions(split))

    def _open(self, split: str) -> Split:
        return open_split(self._folder, split, self._cache)

    def _positions(self, split: str) -> Sequence[int]:
        return self._open(split).of_types(self._kinds)


@cache
def open_split(folder: Path, split: str, cache_in: Path | None) -> Split:
    """Return a split, read once per process from the cache or the game files; a `DataError` when no game is left."""
    source = folder / split
    if split not in SPLITS or not source.is_dir():
        known = [name for name in SPLITS if (folder / name).is_dir()]
        raise ValueError(f"unknown split {split!r} of {folder}; {suggest(split, known)}")
    entries = list(_trials(source))
    state = fingerprint([(trial.task_id, sorted(trial.files.items())) for trial in entries])
    file = None if cache_in is None else cache_file(cache_in, source)
    games = None if file is None else load(file, state)
    if games is None:
        games = _import(entries)
        if file is not None:
            save(file, state, games)
    if not games.task_ids:
        reasons = Counter(reason for _, reason in games.left_out)
        counted = ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or "no trial folders at all"
        raise DataError(f"ALFWorld data: {source} contains no playable game ({counted}); {_HOW}")
    return games


@dataclass(frozen=True, slots=True)
class _Trial:
    task_id: str
    folder: str
    files: dict[str, tuple[int, int]]


def _trials(source: Path) -> Iterator[_Trial]:
    for task in _folders(str(source)):
        for trial in _folders(task.path):
            files = {}
            with os.scandir(trial.path) as found:
                for entry in found:
                    if entry.name in (_GAME, _TRAJECTORY) and _leads(entry.is_file):
                        status = entry.stat()
                        files[entry.name] = (status.st_size, status.st_mtime_ns)
            if not (task.name + trial.name).isprintable() and "\ufffd" in clean(task.name + trial.name):
                raise DataError(f"{ascii(trial.path)[1:-1]}: the folder's name is not UTF-8; rename it")
            yield _Trial(f"{task.name}/{trial.name}", trial.path, files)


def _folders(parent: str) -> list[os.DirEntry[str]]:
    with os.scandir(parent) as found:
        return sorted([entry for entry in found if _leads(entry.is_dir)], key=lambda entry: entry.name)


def _leads(asked: Callable[[], bool]) -> bool:
    try:
        return asked()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _import(trials: list[_Trial]) -> Split:
    task_ids, task_types, packed = [], [], []
    left_out: list[tuple[str, str]] = []
    for trial in trials:
        try:
            game = _read(trial)
        except DataError as error:
            raise DataError(f"{trial.folder}: {error}; download the game again, or remove its folder") from error
        if isinstance(game, str):
            left_out.append((trial.task_id, game))
        else:
            task_ids.append(trial.task_id)
            task_types.append(game.task_type)
            packed.append(pack(game))
    return Split(tuple(task_ids), tuple(task_types), tuple(packed), tuple(left_out))


def _read(trial: _Trial) -> Game | str:
    if _TRAJECTORY not in trial.files:
        return f"without {_TRAJECTORY}"
    if "movable" in trial.task_id or "Sliced" in trial.task_id:
        return "with movable receptacles or sliced objects"
    task_type = _task_type(trial)
    if task_type not in TASK_TYPES:
        return "of another task type"
    if _GAME not in trial.files:
        return f"without {_GAME}"
    data = _json(_GAME, _bytes(trial, _GAME))
    if isinstance(data, dict) and "solvable" not in data:
        return "without the key 'solvable'"
    if isinstance(data, dict) and not isinstance(data["solvable"], bool):
        raise DataError(f"'solvable' must be true or false, got {data['solvable']!r:.100}")
    if isinstance(data, dict) and not data["solvable"]:
        return "that cannot be solved"
    game = read_game(data, trial.task_id)
    if game.task_type != task_type:
        raise DataError(
            f"{_TRAJECTORY} has {task_type!r}, but the goal in {_GAME} is of {game.task_type!r}: the files do not match"
        )
    return game


def _task_type(trial: _Trial) -> str:
    content = _bytes(trial, _TRAJECTORY)
    found = _TASK_TYPE.findall(content)
    if len(found) == 1:
        return str(found[0].decode())
    trajectory = _json(_TRAJECTORY, content)
    kind = trajectory.get("task_type", "") if isinstance(trajectory, dict) else ""
    if not isinstance(kind, str):
        raise DataError(f"'task_type' in {_TRAJECTORY} must be a text, got {kind!r:.200}")
    return kind


def _bytes(trial: _Trial, name: str) -> bytes:
    size = trial.files[name][0]
    if size > MOST_BYTES:
        raise DataError(f"{name} is a file of {size:,} bytes; at most {MOST_BYTES:,} are read")
    try:
        with open(os.path.join(trial.folder, name), "rb") as stream:
            return stream.read(MOST_BYTES)
    except OSError as error:
        raise DataError(f"{name} cannot be read ({error})") from error


def _json(name: str, content: bytes) -> Any:
    try:
        return read_json(content)
    except DataError as error:
        raise DataError(f"{name} cannot be read ({error})") from error
