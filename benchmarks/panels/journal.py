"""`episodes.jsonl`: every finished episode of a panel as a line, written when it ends, so that none is played twice."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentgym.foreign_text import clean_json
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
        prompt_tokens: tokens read for its replies; an endpoint's are shared out among the replies of a request.
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


class Journal:
    """The file; a line that a kill cut off is dropped when it is opened.

    Args:
        path: where it is; made with its first line.

    Raises:
        ResultsError: a line is no episode, or an episode stands there twice; names file and line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.episodes: dict[tuple[str, int], Episode] = {}
        content = path.read_bytes() if path.is_file() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
        for number, line in enumerate(content[:whole].splitlines(), start=1):
            episode = parse(Episode, line, f"{path}, line {number}", "remove the line, its episode is played again")
            key = episode.task, episode.sample
            if key in self.episodes:
                raise ResultsError(f"{path}, line {number}: sample {key[1]} of {key[0]!r} stands there already")
            self.episodes[key] = episode

    def add(self, episodes: Iterable[Episode]) -> None:
        """Write finished episodes."""
        lines = []
        for episode in episodes:
            self.episodes[episode.task, episode.sample] = episode
            lines.append(json.dumps(clean_json(dataclasses.asdict(episode)), ensure_ascii=False) + "\n")
        if lines:
            with self.path.open("ab") as file:
                file.write("".join(lines).encode())
