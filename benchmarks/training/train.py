"""`train`: one run with any model: its progress, its files and its page."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agentgym.outside.text import read_json_lines
from agentgym.trajectory import StepTable
from baselines.records.callbacks import SAMPLES_FILE, Tracker
from baselines.records.metrics import LOG_FILE, Row, read_log
from baselines.records.watch import kept_in, warning_texts
from baselines.runs import card
from baselines.runs.engine import Engine
from baselines.runs.plan import GIB, Plan, duration
from baselines.runs.run import MERGED_FOLDER, Run, carry_out
from baselines.runs.settings import RunSettings
from baselines.trainer import FINAL_FOLDER, Callback, Trainer
from benchmarks.console import NONE, say, shown
from benchmarks.json_files import created
from benchmarks.machine import describe_machine
from benchmarks.processes import Job
from benchmarks.report import assemble
from benchmarks.report.page import HTML, Figure, Page, Panel, Table, write_page
from benchmarks.training.run import STAGES, reporting

#: Seconds between two pages of a run that goes on.
_REFRESH = 20.0
#: Panels of the picture: title, and the columns drawn there with their colours and scale.
_PANELS: tuple[tuple[str, tuple[tuple[str, str, str, float], ...]], ...] = (
    ("success [%]", (
        ("success", "rollouts", "#999999", 100.0),
        ("validation_greedy_success", "validation, greedy", "#009E73", 100.0),
        ("validation_sampled_success", "validation, sampled", "#56B4E9", 100.0),
    )),
    ("refused actions, clipped tokens [%]", (
        ("invalid_rate", "refused actions", "#D55E00", 100.0), ("clip_fraction", "clipped tokens", "#CC79A7", 100.0)
    )),
    ("nats per token", (("entropy", "entropy", "#0072B2", 1.0), ("kl", "divergence from the start", "#E69F00", 1.0))),
    ("share of time [%]", tuple(
        (f"share_{stage}", stage, colour, 1.0)
        for stage, colour in zip(STAGES, ("#999999", "#56B4E9", "#E69F00", "#009E73"), strict=True)
    )),
)  # fmt: skip
#: Lines of the table: title, column of the log, scale and unit.
_FIGURES = (
    ("success of rollouts", "success", 100.0, " %"),
    ("validation, greedy", "validation_greedy_success", 100.0, " %"),
    ("validation, sampled", "validation_sampled_success", 100.0, " %"),
    ("refused actions", "invalid_rate", 100.0, " %"),
    ("reply tokens per second of generation", "tokens_per_second", 1.0, ""),
    ("tokens per second of the update", "update_tokens_per_second", 1.0, ""),
    ("share of the device's peak arithmetic", "share_peak_flops", 1.0, " %"),
    ("peak memory of generation", "memory_generation", 1.0, " GiB"),
    ("peak memory of the update", "memory_update", 1.0, " GiB"),
    ("training time", "seconds", 1.0, " s"),
)


class _Live:
    """Estimates the remaining time, and updates the page during the run.

    The first two iterations use the plan, all others the mean of the measured ones, validations included.
    """

    def __init__(self, settings: RunSettings, folder: Path, plan: Plan) -> None:
        self._settings, self._folder, self._plan = settings, folder, plan
        self._begun = self._written = time.monotonic()
        self._done: list[float] = []
        self._cost = 0.0

    def left(self, trainer: Trainer) -> str:
        missing = self._settings.training.iterations - trainer.iteration
        measured = len(self._done) > 2
        each = (self._done[-1] - self._done[0]) / (len(self._done) - 1) if measured else self._plan.seconds["total"]
        return f"; {duration(missing * each)} remaining{'' if measured else ' (plan)'}" if missing > 0 else ""

    def __call__(self, trainer: Trainer, table: StepTable | None, row: Row) -> None:
        """Note an iteration, and write the page where that takes a small part of the time."""
        now = time.monotonic()
        self._done.append(now)
        if now - self._written > max(_REFRESH, 30 * self._cost) or trainer.iteration == 1:
            write_page(page(self._folder, self._settings, self._plan, left=self.left(trainer)), self._folder)
            self._written = time.monotonic()
            self._cost = self._written - now


def run_training(
    settings: RunSettings,
    folder: Path,
    console: Console,
    plan: Plan,
    *,
    trackers: Sequence[str] = ("tensorboard",),
    project: str = "stepcredit",
    engine: Engine | None = None,
    lanes: int = 1,
    attention: str | None = None,
    test_tasks: int = 0,
) -> Path:
    """Train, or continue an interrupted run of the same settings, and return the path of its page."""
    numbers = settings.training
    job = Job("method", numbers.seed, settings.config.methods[0])
    live = _Live(settings, folder, plan)
    if "tensorboard" in trackers:
        say(console, f"curves: tensorboard --logdir {folder}; page: {folder / HTML}")
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(shown([job], console))
        tracked: list[Any] = [name for name in trackers if name != "tensorboard"]
        callbacks: list[Callback] = [live]
        callbacks += [stack.enter_context(Tracker(each, project=project, name=folder.name)) for each in tracked]

        def show(trainer: Trainer, table: StepTable | None, row: Row) -> None:
            left = live.left(trainer)
            reporting(lambda done, total, words: report(job, done, total, words + left), numbers.iterations)(
                trainer, table, row
            )

        trainer = carry_out(
            settings, folder, *callbacks, show, engine=engine, lanes=lanes, attention=attention or plan.attention,
            imitating=lambda done, total: report(job, done, total, "learning from the expert"),
            tensorboard="tensorboard" in trackers, command=shlex.join(["stepcredit", *sys.argv[1:]]),
        )  # fmt: skip
    if test_tasks:
        tested = Run(folder, settings, trainer).test().success_rate
        say(console, f"test: {100 * tested:.1f} % of {test_tasks} held-out tasks, greedy")
        rows = [*trainer.log.rows, {"iteration": trainer.iteration, "test_greedy_success": tested}]
        for model in (folder / FINAL_FOLDER, folder / MERGED_FOLDER):
            card.write(settings, folder, model, rows)
    write_page(page(folder, settings, plan), folder)
    return folder / HTML


def _against(plan: Plan, rows: list[Row]) -> Table:
    last = [row for row in rows if row["iteration"]][-10:]

    def mean(key: str) -> str:
        found = [row[key] for row in last if row.get(key) is not None]
        return f"{sum(found) / len(found):,.2f}" if found else NONE

    def most(stage: str) -> str:
        found = [
            row[key] for row in rows for end in ("", "_resident") if row.get(key := f"memory_{stage}{end}") is not None
        ]
        return f"{max(found):.2f}" if found else NONE

    lines = [
        [f"memory, {stage} [GiB]", f"{sum(parts.values()) / GIB:.2f}", most(stage)]
        for stage, parts in plan.stages.items()
    ]
    lines += [
        [f"{stage} of an iteration [s]", f"{plan.seconds[stage]:,.2f}", mean(f"seconds_{stage}")]
        for stage in ("environment", "generation", "update")
    ]
    lines.append(["reply tokens of an iteration", f"{plan.tokens['replies']:,.0f}", mean("tokens")])
    caption = f"Planned for {plan.device.name} before the model was loaded; measured: the last ten iterations."
    return Table("Plan and measurement", ["", "planned", "measured"], lines, caption)


def page(folder: Path, settings: RunSettings, plan: Plan, *, left: str = "") -> Page:
    """Curves, the newest figures, and the steps that were sampled last; with the time `left` it loads itself anew."""
    config, numbers, machine = settings.config, settings.training, describe_machine()
    rows = read_log(folder / LOG_FILE)
    samples: list[dict[str, Any]] = []
    if (folder / SAMPLES_FILE).exists():
        samples = [line for _, line in read_json_lines(folder / SAMPLES_FILE)]
    last = max((line["iteration"] for line in samples), default=0)
    finished = int(rows[-1]["iteration"]) if rows else 0
    return Page(
        f"{config.methods[0]} on {config.env}",
        "One training run: success, sampled replies, and shares of time.",
        [
            Table("Newest figures", ["", "newest"], [[each[0], _last(rows, *each[1:])] for each in _FIGURES]),
            _against(plan, rows),
        ],
        chips=[
            ("model", config.model),
            ("iterations", f"{finished} of {numbers.iterations}{left}"),
            ("per iteration", f"{numbers.groups} tasks x {numbers.group_size} episodes"),
            ("adapter", f"rank {config.lora}" if config.lora else "none"),
            ("seed", str(numbers.seed)),
        ],
        about=[
            *((f"paper, {i + 1}", line.strip()) for i, line in enumerate(settings.paper_report())),
            ("written", created()),
            ("machine", machine.hardware),
            ("software", machine.software),
            *([("tasks", settings.source.words)] if settings.source else []),
            ("training", ", ".join(f"{name} {value}" for name, value in vars(numbers).items())),
            ("files", "log.jsonl and samples.jsonl beside this page hold every number; final is the model"),
        ],
        figures=[Figure("curves.png", "Curves", lambda: draw(rows))],
        panel=Panel(
            "samples.html.j2", (), {},
            {"last": last, "samples": [line for line in samples if line["iteration"] == last]},
        ),
        warnings=warning_texts(rows, kept_in(folder)),
        refresh=round(_REFRESH) if left else 0,
    )  # fmt: skip


def _last(rows: list[Row], key: str, scale: float, unit: str) -> str:
    values = [row[key] for row in rows if row.get(key) is not None]
    return f"{scale * values[-1]:,.1f}{unit}" if values else NONE


def draw(rows: list[Row]) -> Any:
    """Return the curves of a run as a figure: success, refusals, entropy and divergence, shares of time."""
    figure, grid = assemble.new_figure(2, 2, (11, 6.6), 110)
    for panel, (title, columns) in zip(grid.flat, _PANELS, strict=True):
        for key, label, colour, scale in columns:
            points = [(row["iteration"], scale * row[key]) for row in rows if row.get(key) is not None]
            if points:
                x, y = zip(*points, strict=True)
                panel.plot(x, y, color=colour, label=label, lw=1.6, marker="o", ms=2.5)
        panel.set_ylabel(title)
        panel.set_xlabel("iteration")
        panel.set_ylim(bottom=0)
        panel.legend(frameon=False, fontsize=8)
    return figure
