"""`results.json`: what a policy reached on a panel, as documented dataclasses that are validated on load."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import agentgym
from agentgym.panels import OpenPanel
from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.panels.journal import Episode
from benchmarks.statistics import Interval, over_samples, over_tasks

VERSION = 1
RESULTS = "results.json"


@dataclass(frozen=True)
class PanelInfo:
    """Which panel it was.

    Attributes:
        name: of the panel.
        hash: over environment, arguments and tasks, see `agentgym.panels.OpenPanel`.
        pinned: the tasks were checked against those that the name stands for.
        env: Gymnasium id.
        options: arguments of the environment that belong to the panel.
        added: arguments that were added, such as a retriever or a partner; results with others cannot be compared.
        data: fingerprints of the files behind arguments that name data.
    """

    name: str
    hash: str
    pinned: bool
    env: str
    options: dict[str, Any]
    added: dict[str, Any]
    data: dict[str, str]


@dataclass(frozen=True)
class PolicyInfo:
    """Who played.

    Attributes:
        name: as it was asked for, without credentials.
        settings: sampling, and what it is made of; {} for a scripted player or a log.
        prompt: the first prompt of all, as the policy was shown it: a text, or chat messages.
    """

    name: str
    settings: dict[str, Any]
    prompt: Any


@dataclass(frozen=True)
class TaskOutcome:
    """One task: its id, the digest of what it is made of, its kind, and lists with an entry per sample."""

    id: str
    digest: str
    kind: str
    won: list[bool]
    score: list[float]
    total: list[float]
    steps: list[int]
    invalid: list[int]


@dataclass(frozen=True)
class Summary:
    """The figures of the table.

    Attributes:
        success: share of episodes that were won, for new tasks.
        success_again: the same for new samples of these tasks; None with one sample.
        score: mean of the environment's own grade.
        kinds: success for each kind of task.
        invalid_rate: share of actions that the environment did not accept.
        steps: mean number of actions of an episode.
        prompt_tokens: tokens read, in all.
        reply_tokens: tokens written, in all.
        seconds: of wall time, in all; parts of episodes that were interrupted are not in it.
        generation: the part of them in which the policy was asked.
    """

    success: Interval
    success_again: Interval | None
    score: Interval
    kinds: dict[str, Interval]
    invalid_rate: float
    steps: float
    prompt_tokens: float
    reply_tokens: float
    seconds: float
    generation: float


@dataclass(frozen=True)
class PanelResults:
    """The whole file; `package` is the version of the environments."""

    version: int
    created: str
    package: str
    panel: PanelInfo
    policy: PolicyInfo
    samples: int
    seed: int
    machine: Machine | None
    summary: Summary
    tasks: list[TaskOutcome]

    def success(self) -> NDArray[np.float64]:
        """Return success as 0 or 1, shape (tasks, samples)."""
        return np.array([task.won for task in self.tasks], np.float64)

    def scores(self) -> NDArray[np.float64]:
        """Return the environment's own grades, shape (tasks, samples)."""
        return np.array([task.score for task in self.tasks], np.float64)


def results_of(
    found: OpenPanel,
    episodes: Mapping[tuple[str, int], Episode],
    samples: int,
    *,
    policy: PolicyInfo,
    data: Mapping[str, str],
    seed: int,
    machine: Machine | None,
) -> PanelResults:
    """Put the episodes of a panel together.

    Args:
        found: the panel.
        episodes: by task and sample; more than are asked for do no harm.
        samples: episodes of each task.
        policy: who played.
        data: fingerprints of the panel's data.
        seed: of the episodes.
        machine: where; None where that is not known.

    Raises:
        KeyError: an episode is missing.
    """
    tasks, rows = [], []
    for task in found.tasks:
        played = [episodes[task.id, sample] for sample in range(samples)]
        rows += played
        columns = {name: [getattr(each, name) for each in played] for name in _COLUMNS}
        tasks.append(TaskOutcome(task.id, task.digest, played[0].kind, **columns))
    panel = PanelInfo(
        found.panel.name, found.hash, found.pinned, found.panel.env, dict(found.panel.options), dict(found.added),
        dict(data),
    )  # fmt: skip
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return PanelResults(
        VERSION, created, agentgym.__version__, panel, policy, samples, seed, machine, _summary(tasks, rows), tasks
    )


_COLUMNS = ("won", "score", "total", "steps", "invalid")


def _summary(tasks: Sequence[TaskOutcome], episodes: Sequence[Episode]) -> Summary:
    def total(name: str) -> float:
        return float(sum(getattr(episode, name) for episode in episodes))

    kinds: dict[str, list[list[bool]]] = {}
    for task in tasks:
        kinds.setdefault(task.kind, []).append(task.won)
    won = [task.won for task in tasks]
    return Summary(
        success=over_tasks(won),
        success_again=over_samples(won),
        score=over_tasks([task.score for task in tasks]),
        kinds={kind: over_tasks(kinds[kind]) for kind in sorted(kinds) if kind},
        invalid_rate=total("invalid") / max(1.0, total("steps")),
        steps=total("steps") / len(episodes),
        prompt_tokens=total("prompt_tokens"), reply_tokens=total("reply_tokens"),
        seconds=total("seconds"), generation=total("generation"),
    )  # fmt: skip


def save(results: PanelResults, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(results, path)


def load(path: Path) -> PanelResults:
    """Read and check a file, or `results.json` in a folder.

    Raises:
        ResultsError: no such file, not what `save` writes, another version, a task without all samples, or a score
            outside 0..1; names the file and the place in it.
    """
    path = path / RESULTS if path.is_dir() else path
    found = json_files.load(PanelResults, path)
    json_files.read_json(path)  # numbers that no program should be handed, where any value may stand
    if found.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {found.version}; play the panel again")
    for task in found.tasks:
        if any(len(getattr(task, name)) != found.samples for name in _COLUMNS):
            raise ResultsError(f"{path}: the task {task.id!r:.120} has not all of {found.samples} samples")
        if not all(0.0 <= score <= 1.0 for score in task.score):
            raise ResultsError(f"{path}: the task {task.id!r:.120} has a score outside 0..1: {task.score!r:.80}")
    if not found.tasks or found.samples < 1:
        raise ResultsError(f"{path}: no task was played")
    return found
