"""`episodes.jsonl`: every finished episode of a panel as a line, written when it ends, so that none is played twice."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from agentgym.outside.text import clean_json
from benchmarks.json_files import ResultsError, parse

JOURNAL = "episodes.jsonl"


@dataclass(frozen=True)
class Episode:
    """An episode that was played to its end, or that another program's log tells.

    Attributes:
        task: id of the task.
        sample: which repetition, from 0.
        kind: of the task, such as "pick_and_place_simple"; "" where there are no kinds.
        won: success.
        score: the environment's own grade at the end, 0..1.
        total: undiscounted sum of rewards.
        steps: number of actions.
        invalid: how many of them the environment did not accept.
        cut: the episode was truncated.
        prompt_tokens: tokens read for its replies, of all trials where there are several; an endpoint's as it counts.
        reply_tokens: tokens written.
        seconds: its share of the wall time, of the steps that it was played in.
        generation: the part of them in which the policy was asked.
        actions: the commands, in order; "" where a reply held none.
    """

    task: str
    sample: int
    kind: str
    won: bool
    score: float
    total: float
    steps: int
    invalid: int
    cut: bool
    prompt_tokens: float
    reply_tokens: float
    seconds: float
    generation: float
    actions: list[str]

    @property
    def key(self) -> tuple[str, int]:
        """Task and sample."""
        return self.task, self.sample


T = TypeVar("T", bound=Any)


class Lines(Generic[T]):
    """A file of dataclasses that have a `key`; a line that a kill cut off is dropped when it is opened.

    Args:
        path: where it is; made with its first line.
        kind: the dataclass.

    Attributes:
        entries: what stands there, by key.

    Raises:
        ResultsError: a line is none of them, or a key stands there twice; names file and line.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self.path = path
        self.entries: dict[Any, T] = {}
        content = path.read_bytes() if path.is_file() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            entry = parse(kind, line, f"{path}, line {number}", "remove the line, its episode is played again")
            if entry.key in self.entries:
                task, sample = entry.key[:2]
                raise ResultsError(f"{path}, line {number}: sample {sample} of {task!r} stands there already")
            self.entries[entry.key] = entry

    def add(self, entries: Iterable[T]) -> None:
        """Write what is finished."""
        lines = []
        for entry in entries:
            self.entries[entry.key] = entry
            lines.append(json.dumps(clean_json(dataclasses.asdict(entry)), ensure_ascii=False) + "\n")
        if lines:
            with self.path.open("ab") as file:
                file.write("".join(lines).encode())


class Journal(Lines[Episode]):
    """The file of episodes.

    Args:
        path: where it is.

    Raises:
        ResultsError: as of `Lines`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, Episode)

    @property
    def episodes(self) -> dict[tuple[str, int], Episode]:
        """Finished episodes by task and sample."""
        return self.entries
