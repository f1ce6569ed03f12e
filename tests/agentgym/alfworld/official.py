"""Official games and the episodes recorded on the original engine; tests skip where these are absent."""

import json
import lzma
import os
import tarfile
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agentgym.alfworld.game import Game
from agentgym.alfworld.problem import read_game

_DEFAULT = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FOLDER = Path(os.environ.get("AGENTGYM_ORACLES", _DEFAULT)) / "alfworld"


def find(name: str) -> Path:
    """Path of a file of the folder, such as "valid_unseen.tar.xz"."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no official games: {path} does not exist (set AGENTGYM_ORACLES to the folder of alfworld/)")
    return path


@cache
def _games(path: Path) -> dict[str, Game]:
    found = {}
    with tarfile.open(path, "r|xz") as files:
        for member in files:
            content = files.extractfile(member) if member.name.endswith("/game.tw-pddl") else None
            if content is not None:
                task_id = "/".join(member.name.split("/")[-3:-1])
                found[task_id] = read_game(json.load(content), task_id)
    return {task_id: found[task_id] for task_id in sorted(found)}


def games(archive: str, only: Collection[str] | None = None) -> dict[str, Game]:
    """Games of an archive by task_id, sorted; all of them, or those named."""
    found = _games(find(f"{archive}.tar.xz"))
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
