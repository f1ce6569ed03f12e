"""Adapter of the recorded episodes' own check: replay_check.py replay_adapter.py DATA_FOLDER TRACE.jsonl.xz ...

The original draws the id of a bill that it makes at random. Ours are counted, so the ids that were drawn are read from
the traces and put in their place.
"""

import json
import lzma
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from agentgym.telecom.official.files import Files
from agentgym.telecom.rules import begin, call, solved
from agentgym.telecom.state import PHONE, SURROUNDINGS, TABLES, World


def paths(world: World) -> Iterator[tuple[str, Any]]:
    """Yield every value of a world with its path: "agent/lines/0/status", "user/device/airplane_mode"."""
    for name in TABLES:
        yield from below(f"agent/{name}", list(getattr(world, name).values()))
    for name in PHONE:
        yield from below(f"user/device/{name}", getattr(world, name))
    for name in SURROUNDINGS:
        yield from below(f"user/surroundings/{name}", getattr(world, name))


def below(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (Mapping, list)) and value:
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from below(f"{path}/{name}", inner)
    else:
        yield path, value


def drawn_ids(trace: Path) -> list[tuple[str, list[str]]]:
    """Return task and ids of the bills that were made, of each episode."""
    episodes = []
    with lzma.open(trace, "rt", encoding="utf-8") as lines:
        for line in lines:
            episode = json.loads(line)
            changes = (step.get("set", {}).items() for step in episode["steps"] if step["name"] == "refuel_data")
            bills = [item for change in changes for item in change if "bills/" in item[0]]
            made = [value for path, value in bills if path.endswith("/bill_id")]
            episodes.append((episode["task"], made))
    return episodes


class Adapter:
    def __init__(self, data: str, traces: list[Path] | None = None) -> None:
        files = Files(data)
        self.tasks, self.start = files.tasks(), files.world().snapshot()
        self.drawn: dict[str, deque[list[str]]] = defaultdict(deque)
        for trace in [Path(word) for word in sys.argv[1:] if word.endswith(".jsonl.xz")] if traces is None else traces:
            for task, made in drawn_ids(trace):
                self.drawn[task].append(made)

    def reset(self, task_id: str) -> list[bool]:
        self.task, self.world = self.tasks[task_id], World(self.start)
        begin(self.world, self.task.faults)
        drawn = self.drawn[task_id].popleft() if self.drawn[task_id] else []
        self.names = {f"B{number:08d}": name for number, name in enumerate(drawn, 1)}
        return solved(self.world, self.task.assertions)

    def call(self, name: str, arguments: dict) -> tuple[str, bool, list[bool]]:
        back = {drawn: ours for ours, drawn in self.names.items()}
        given = {key: back.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
        content, error = call(self.world, name, given)
        return self.renamed(content), error, solved(self.world, self.task.assertions)

    def state(self) -> dict:
        return {path: self.renamed(value) if isinstance(value, str) else value for path, value in paths(self.world)}

    def renamed(self, text: str) -> str:
        for ours, drawn in self.names.items():
            text = text.replace(ours, drawn)
        return text
