"""`results.json`: what a player reached on a panel, checked when it is read; and how it is printed."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import agentgym
from agentgym.panels import OpenPanel, find_panel, panel_names
from baselines.environments.settings import EnvSettings
from benchmarks import json_files
from benchmarks.console import NONE, say, table
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.statistics import Interval, over_samples, over_tasks

if TYPE_CHECKING:
    from benchmarks.play.panel import Episode

VERSION = 1
RESULTS = "results.json"
COLUMNS = ("won", "score", "total", "steps", "invalid")
#: Published success rates in percent, the models instruction-tuned, see docs/panels.md.
_ANCHORS = Path(__file__).with_name("anchors.csv")


@dataclass(frozen=True)
class PanelInfo:
    """Which panel was played; results with other `added` arguments than the panel's are not compared.

    `pinned`: the tasks were checked against those that the name stands for; `data` are fingerprints of files.
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
    """Who played: name without credentials, sampling and weights ({} for scripted players and logs), first prompt."""

    name: str
    settings: dict[str, Any]
    prompt: Any


@dataclass(frozen=True)
class TaskOutcome:
    """One task: its id, the digest of its content, its kind, and lists with an entry per sample."""

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
    """The figures of the table; tokens and seconds are sums, `steps` a mean, `generation` that of asking the policy.

    `success_again` is success for new samples of the same tasks; None with one sample.
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
        """Return the environment's grades, shape (tasks, samples)."""
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
    """Return the results of a panel, of episodes by task and sample; `KeyError` where one is missing."""
    tasks, rows = [], []
    for task in found.tasks:
        played = [episodes[task.id, sample] for sample in range(samples)]
        rows += played
        columns = {name: [getattr(each, name) for each in played] for name in COLUMNS}
        tasks.append(TaskOutcome(task.id, task.digest, played[0].kind, **columns))
    rule = found.panel
    panel = PanelInfo(rule.name, found.hash, found.pinned, rule.env, dict(rule.options), dict(found.added), dict(data))
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return PanelResults(
        VERSION, created, agentgym.__version__, panel, policy, samples, seed, machine, _summary(tasks, rows), tasks
    )


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
        **{name: total(name) for name in ("prompt_tokens", "reply_tokens", "seconds", "generation")},
    )


def load(path: Path) -> PanelResults:
    """Read and check a file, or `results.json` in a folder."""
    path = path / RESULTS if path.is_dir() else path
    found = json_files.load(PanelResults, path, version=VERSION, check=_check)
    json_files.read_json(path)  # refuses NaN and huge numbers also in the fields that take any value
    return found


def _check(found: PanelResults) -> None:
    for task in found.tasks:
        if any(len(getattr(task, name)) != found.samples for name in COLUMNS):
            raise ResultsError(f"the task {task.id!r:.120} has not all of {found.samples} samples")
        if not all(0.0 <= score <= 1.0 for score in task.score):
            raise ResultsError(f"the task {task.id!r:.120} has a score outside 0..1: {task.score!r:.80}")
    if not found.tasks or found.samples < 1:
        raise ResultsError("no task was played")


def percent(found: Interval | None) -> str:
    """Return an interval in percent.

    >>> percent(Interval(0.5, 0.4, 0.625)), percent(None)
    ('50.0 (40.0 to 62.5)', '-')
    """
    return NONE if found is None else f"{100 * found.mean:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def short_name(policy: str) -> str:
    """Return the name of a policy without its folders, or the address of its endpoint.

    >>> short_name("runs/sokoban/clone"), short_name("Qwen/Qwen3-8B@http://127.0.0.1:8000/v1 react, 2-shot")
    ('clone', 'Qwen3-8B react, 2-shot')
    """
    plain = re.sub(r"@https?://\S*", "", policy)
    return plain.rpartition("/")[2] or plain


def print_results(shown: Sequence[PanelResults], row: EnvSettings, console: Console) -> None:
    """Print a line for each player of a panel, its further figures, and what is published of these tasks."""
    panel, tasks, samples = shown[0].panel, shown[0].tasks, shown[0].samples
    sizes = {kind: sum(task.kind == kind for task in tasks) for kind in shown[0].summary.kinds}
    kinds = [kind for kind in [*row.kind_names, *sorted(sizes.keys() - row.kind_names.keys())] if kind in sizes]
    heads = ["success %", *(f"{row.kind_names.get(kind, kind)}\n{sizes[kind]}" for kind in kinds)]
    heads += [f"All\n{len(tasks)}", "95 %", "refused\n%"]
    lines = []
    for one in shown:
        figures, success = one.summary, one.summary.success
        lines.append([
            short_name(one.policy.name), *(f"{100 * figures.kinds[kind].mean:.1f}" for kind in kinds),
            f"{100 * success.mean:.1f}", f"{100 * success.low:.0f}-{100 * success.high:.0f}",
            f"{100 * figures.invalid_rate:.1f}",
        ])  # fmt: skip
    console.print(table(heads, lines, title=f"{panel.name}, hash {panel.hash}, {len(tasks)} tasks x {samples}"))
    for one in shown:
        figures = one.summary
        total = sum(sum(task.total) for task in one.tasks) / (len(one.tasks) * one.samples)
        tokens = f", {figures.prompt_tokens:,.0f} + {figures.reply_tokens:,.0f} tokens" if figures.prompt_tokens else ""
        again = f"; the same tasks again: {percent(figures.success_again)}" if figures.success_again else ""
        say(
            console,
            f"{one.policy.name}: {row.return_name} {total:.2f}, score {percent(figures.score)}, "
            f"{figures.steps:.1f} steps{tokens}, {figures.seconds:.1f} s, {figures.generation:.1f} s of them "
            f"generating{again}",
        )
    if not panel.pinned and "@" in panel.name and ":" not in panel.name:
        say(console, "this panel is not pinned here: compare its hash with that of others", "yellow")
    print_anchors(panel.name, console)


def anchors_of(panel: str) -> list[dict[str, str]]:
    """Return the published rates of a panel's tasks, the best last.

    >>> rates = [float(row["success"]) for row in anchors_of("alfworld/valid_unseen@1")]
    >>> rates == sorted(rates)
    True
    """
    with _ANCHORS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["tasks"] == panel.partition("@")[0]]
    return sorted(rows, key=lambda row: float(row["success"]))


def print_anchors(panel: str, console: Console) -> None:
    """Print the published rates of a panel's tasks, if there are any."""
    lines = [[row[name] for name in ("method", "model", "success", "source", "note")] for row in anchors_of(panel)]
    if lines:
        caption = "prompts, training and numbers of games differ: see docs/panels.md before comparing"
        heads = ["published", "model", "success %", "source", "note"]
        console.print(table(heads, lines, left=2, title=f"{panel.partition('@')[0]} elsewhere", caption=caption))


def print_panels(console: Console) -> None:
    """Print all panels: how many tasks, and what they need."""
    panels = list(map(find_panel, panel_names()))
    needs = [", ".join(f"--option {name}=PATH" for name in each.data) or NONE for each in panels]
    lines = [[each.name, str(each.tasks or each.most or NONE), need] for each, need in zip(panels, needs, strict=True)]
    console.print(table(["panel", "tasks", "needs"], lines, left=3))
