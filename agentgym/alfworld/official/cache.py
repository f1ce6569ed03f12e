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

import gymnasium as gym

from agentgym.disk_cache import VARIABLE, fingerprint, write_file

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
        packed: `record.pack` of each game.
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
