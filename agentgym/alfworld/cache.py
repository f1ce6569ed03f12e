"""The import cache: one file per split, with every game of it packed.

Reading the official folders takes seconds and a gigabyte; the cache of the train split is a few megabytes and opens at
once. A cache file belongs to the state of its source folder (names, sizes and times of its files) and to the version
of the format; when either differs it is written anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from agentgym.disk_cache import VARIABLE

#: Raise it whenever reading a game file or packing a game changes.
VERSION = 2
_MAGIC = b"agentgym alfworld games\n"


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
    digest = hashlib.sha256(os.fsencode(source.resolve())).hexdigest()[:16]
    return folder / f"alfworld-{source.name}-{digest}.games"


def load(file: Path, state: str) -> PackedGames | None:
    """Return the games of a cache file, None when there is none for this state of the source or it is damaged."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 8
    if len(data) < start or not data.startswith(_MAGIC):
        return None
    head_size = int.from_bytes(data[len(_MAGIC) : start], "big")
    body = data[start + head_size :]
    try:
        head = json.loads(zlib.decompress(data[start : start + head_size]))
        known = head["version"], head["state"], head["digest"]
    except (zlib.error, ValueError, LookupError, TypeError):
        return None
    if known != (VERSION, state, hashlib.sha256(body).hexdigest()):
        return None
    packed, position = [], 0
    for size in head["sizes"]:
        packed.append(body[position : position + size])
        position += size
    left_out = tuple([(name, reason) for name, reason in head["left_out"]])
    return PackedGames(tuple(head["task_ids"]), tuple(head["task_types"]), tuple(packed), left_out)


def save(file: Path, state: str, games: PackedGames) -> None:
    """Write a cache file in one move, so that no reader meets half of it; where that fails, warn."""
    body = b"".join(games.packed)
    head = {
        "version": VERSION,
        "state": state,
        "digest": hashlib.sha256(body).hexdigest(),
        "task_ids": games.task_ids,
        "task_types": games.task_types,
        "sizes": [len(packed) for packed in games.packed],
        "left_out": games.left_out,
    }
    packed_head = zlib.compress(json.dumps(head).encode(), 9)
    parts = (_MAGIC, len(packed_head).to_bytes(8, "big"), packed_head, body)
    temporary = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(b"".join(parts))
        temporary.replace(file)
    except OSError as error:
        if temporary.is_file():
            temporary.unlink()
        gym.logger.warn(
            f"the ALFWorld games cannot be cached in {file.parent} ({error}): they are read anew by every process; "
            f"set {VARIABLE} to a folder that can be written, or to 'off'"
        )
