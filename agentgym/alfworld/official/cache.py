"""The import cache: one file per split, with every game of it packed.

Reading the official folders takes seconds and a gigabyte; the cache of the train split is a few megabytes and opens at
once. A cache file belongs to the state of its source folder (names, sizes and times of its files) and to the version
of the format, and holds a digest of its content; when one of them differs it is written anew.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from sys import intern
from typing import Any

import gymnasium as gym

from agentgym.alfworld.game import DIALECTS, TASK_TYPES, Game
from agentgym.outside.files import VARIABLE, fingerprint, write_file

#: Raise it whenever reading a game file or packing a game changes.
VERSION = 3
_MAGIC = b"agentgym alfworld games\n"
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class PackedGames:
    """The games of a split.

    Attributes:
        task_ids: "<task folder>/<trial folder>" of each game, sorted by folder.
        task_types: type of each game.
        packed: `pack` of each game.
        left_out: folders that are no games, with the reason, in sorted order.
    """

    task_ids: tuple[str, ...]
    task_types: tuple[str, ...]
    packed: tuple[bytes, ...]
    left_out: tuple[tuple[str, str], ...]


def cache_file(folder: Path, source: Path) -> Path:
    """Return the cache file of a split's folder."""
    return folder / f"alfworld-{source.name}-{fingerprint(str(source.resolve()))}.games"


def load(file: Path, state: str) -> PackedGames | None:
    """Return the games of a cache file, None when there is none for this state of the source or it is damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    content = data[len(_MAGIC) + _DIGEST :]
    if data[: -len(content)] != _MAGIC + hashlib.sha256(content).digest():
        return None
    # from here on it is what `save` wrote, by this version or another
    start = 8 + int.from_bytes(content[:8], "big")
    head = json.loads(zlib.decompress(content[8:start]))
    if (head["version"], head["state"]) != (VERSION, state):
        return None
    ends = [*accumulate(head["sizes"], initial=start)]
    packed = tuple([content[begin:end] for begin, end in pairwise(ends)])
    left_out = tuple([(name, reason) for name, reason in head["left_out"]])
    return PackedGames(tuple(head["task_ids"]), tuple(head["task_types"]), packed, left_out)


def save(file: Path, state: str, games: PackedGames) -> None:
    """Write a cache file; where that fails, warn."""
    head = {
        "version": VERSION,
        "state": state,
        "task_ids": games.task_ids,
        "task_types": games.task_types,
        "sizes": [len(packed) for packed in games.packed],
        "left_out": games.left_out,
    }
    packed_head = zlib.compress(json.dumps(head).encode(), 9)
    content = len(packed_head).to_bytes(8, "big") + packed_head + b"".join(games.packed)
    try:
        write_file(file, _MAGIC + hashlib.sha256(content).digest() + content)
    except OSError as error:
        gym.logger.warn(
            f"the ALFWorld games cannot be cached in {file.parent} ({error}): they are read anew by every process; "
            f"set {VARIABLE} to a folder that can be written, or to 'off'"
        )


#: Names of the `Game` fields that are written down as they are.
_PLAIN = (
    "task_id", "task", "places", "start", "openable", "pickupable", "cleanable", "heatable", "coolable", "toggleable",
    "sliceable", "vessels", "cool", "contents", "seen_from", "inner", "goal_objects", "goal_receptacles", "goal_lamps",
    "walkthrough",
)  # fmt: skip
_TUPLES = ("places", "contents", "seen_from", "goal_receptacles")


def pack(game: Game) -> bytes:
    """Return a game as compressed bytes; `unpack` gives it back."""
    record: list[Any] = [getattr(game, name) for name in _PLAIN]
    record += [TASK_TYPES.index(game.task_type), DIALECTS.index(game.dialect)]
    for names in (game.receptacles, game.objects, game.locations):
        record.append("\n".join(names))
    for names, kinds in ((game.receptacles, game.receptacle_types), (game.objects, game.object_types)):
        record.append("" if kinds == _bases(names) else "\n".join(kinds))
    record.append(dict(zip(game.receptacle_types, game.fits, strict=True)))
    return zlib.compress(json.dumps(record, separators=(",", ":")).encode(), 9)


def unpack(data: bytes) -> Game:
    """Return the game that `pack` wrote.

    Raises:
        ValueError: when the bytes are not a packed game.
    """
    try:
        record = json.loads(zlib.decompress(data))
    except (zlib.error, ValueError) as error:
        raise ValueError(f"not a packed game: {error}") from error
    plain = dict(zip(_PLAIN, record, strict=False))
    for name in _TUPLES:
        plain[name] = tuple(plain[name])
    plain["inner"] = tuple([(vessel, objects) for vessel, objects in plain["inner"]])
    plain["walkthrough"] = tuple(map(intern, plain["walkthrough"]))
    task_type, dialect, receptacles, objects, locations, receptacle_types, object_types, fit = record[len(_PLAIN) :]
    names, things = _split(receptacles), _split(objects)
    kinds = _split(receptacle_types) or _bases(names)
    types = _split(object_types) or _bases(things)
    return Game(
        **plain,
        receptacles=names,
        objects=things,
        locations=_split(locations),
        task_type=TASK_TYPES[task_type],
        dialect=DIALECTS[dialect],
        receptacle_types=kinds,
        object_types=types,
        fits=tuple([fit[kind] for kind in kinds]),
    )


def _split(names: str) -> tuple[str, ...]:
    return tuple(map(intern, names.split("\n"))) if names else ()


class _Types(dict[str, str]):
    """Name without its number, worked out once for each name."""

    def __missing__(self, name: str) -> str:
        kind = self[name] = intern(name.partition(" ")[0])
        return kind


_TYPES = _Types()


def _bases(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names without their numbers; types of official games are just that."""
    return tuple([_TYPES[name] for name in names])
