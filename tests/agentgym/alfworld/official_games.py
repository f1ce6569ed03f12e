"""Official games and the episodes recorded on the original engine; tests skip where these are absent."""

import json
import lzma
import os
import tarfile
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentgym.alfworld.game import Game
from agentgym.alfworld.official.problem import read_game

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "alfworld"
_SHORT = ("pick_and_place_simple", "look_at_obj_in_light")


def find(name: str) -> Path:
    """Path of a file of the folder, such as "valid_unseen.tar.xz"."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no official games: {path} does not exist (set AGENTGYM_ORACLES to the folder of alfworld/)")
    return path


def files(archive: str) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield (split, task_id, file name, content) of every file in an archive; nothing is written to disk."""
    with tarfile.open(find(f"{archive}.tar.xz"), "r|xz") as members:
        for member in members:
            content = members.extractfile(member) if member.isfile() else None
            if content is not None:
                split, task, trial, name = member.name.split("/")
                yield split, f"{task}/{trial}", name, content.read()


def unpack(place: Path, counts: dict[str, tuple[str, int]]) -> Path:
    """Write the first games of an archive, so many of each split, of the types with the shortest walkthroughs."""
    for split, (archive, count) in counts.items():
        kept: list[str] = []
        for _, task, name, content in files(archive):
            if not task.startswith(_SHORT) or "Sliced" in task or "movable" in task:
                continue
            if task not in kept and len(kept) < count:
                kept.append(task)
            if task in kept:
                file = place / "json_2.1.1" / split / task / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    return place


@cache
def _games(archive: str) -> dict[str, Game]:
    found = {
        task_id: read_game(json.loads(content), task_id)
        for _, task_id, name, content in files(archive)
        if name == "game.tw-pddl"
    }
    return {task_id: found[task_id] for task_id in sorted(found)}


def games(archive: str, only: Collection[str] | None = None) -> dict[str, Game]:
    """Games of an archive by task_id, sorted; all of them, or those named."""
    found = _games(archive)
    return {task_id: game for task_id, game in found.items() if only is None or task_id in only}


@cache
def episodes(trace: str) -> list[list[dict[str, Any]]]:
    """Recorded episodes: a "reset" row, then "step" rows."""
    played: list[list[dict[str, Any]]] = []
    with lzma.open(find(f"traces/{trace}.jsonl.xz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["kind"] == "reset":
                played.append([])
            played[-1].append(row)
    return played


def task_id_of(episode: list[dict[str, Any]]) -> str:
    """The task_id of a recorded episode's game."""
    return "/".join(episode[0]["game"].split("/")[1:3])
