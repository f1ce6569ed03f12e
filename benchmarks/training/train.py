"""`train`: one run with any model; what is shown while it runs, what it leaves, and its page."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from rich.console import Console

from agentgym.outside.text import read_json_lines
from baselines.callbacks import SAMPLES_FILE, Tracker
from baselines.metrics import LOG_FILE, Row, read_log
from baselines.runs.engine import Engine
from baselines.runs.run import carry_out
from baselines.runs.settings import RunSettings
from baselines.trainer import Callback
from baselines.watch import kept_in, told
from benchmarks.console import NONE, shown
from benchmarks.json_files import created
from benchmarks.machine import describe_machine
from benchmarks.processes import Job
from benchmarks.report import assemble
from benchmarks.report.page import HTML, Figure, Page, Panel, Table, write_page
from benchmarks.training.run import STAGES, reporting

#: An adapter and its base as one model.
MERGED_FOLDER = "merged"
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


def run_training(
    settings: RunSettings,
    folder: Path,
    console: Console,
    *,
    tracker: str = "none",
    project: str = "stepcredit",
    engine: Engine | None = None,
    lanes: int = 1,
    attention: str | None = None,
) -> Path:
    """Train, or go on where an earlier run of the same settings was stopped, and return the path of its page.

    Args:
        settings: of the run.
        folder: gets checkpoints, log, samples, the final policy and the page.
        console: shows the progress.
        tracker: "none", "wandb" or "trackio".
        project: of the tracker.
        engine: who writes the replies; None: the loop over the model itself.
        lanes: into which the episodes that are played side by side are divided.
        attention: transformers' name of the attention; None: its choice.

    Raises:
        OtherConfigurationError: the folder holds a run on other data.
    """
    numbers = settings.training
    job = Job("method", numbers.seed, settings.config.methods[0])
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(shown([job], console))
        callbacks: list[Callback] = [reporting(lambda *words: report(job, *words), numbers.iterations)]
        if tracker != "none":
            package: Any = tracker
            callbacks.append(stack.enter_context(Tracker(package, project=project, name=folder.name)))
        carry_out(
            settings, folder, *callbacks, engine=engine, lanes=lanes, attention=attention,
            imitating=lambda done, total: report(job, done, total, "learning from the expert"),
        )  # fmt: skip
    write_page(page(folder, settings), folder)
    return folder / HTML


def page(folder: Path, settings: RunSettings) -> Page:
    """Curves, the newest figures, and the steps that were sampled last."""
    config, numbers, machine = settings.config, settings.training, describe_machine()
    rows = read_log(folder / LOG_FILE)
    samples: list[dict[str, Any]] = []
    if (folder / SAMPLES_FILE).exists():
        samples = [line for _, line in read_json_lines(folder / SAMPLES_FILE)]
    last = max((line["iteration"] for line in samples), default=0)
    finished = int(rows[-1]["iteration"]) if rows else 0
    return Page(
        f"{config.methods[0]} on {config.env}",
        "One training run: success, what the policy says, and where the time goes.",
        [Table("Newest figures", ["", "newest"], [[each[0], _last(rows, *each[1:])] for each in _FIGURES])],
        chips=[
            ("model", config.model),
            ("iterations", f"{finished} of {numbers.iterations}"),
            ("per iteration", f"{numbers.groups} tasks x {numbers.group_size} episodes"),
            ("adapter", f"rank {config.lora}" if config.lora else "none"),
            ("seed", str(numbers.seed)),
        ],
        about=[
            *((f"paper, {i + 1}", line.strip()) for i, line in enumerate(settings.told())),
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
        warnings=told(rows, kept_in(folder)),
    )  # fmt: skip


def _last(rows: list[Row], key: str, scale: float, unit: str) -> str:
    """The newest value of a column in words; a mark where there is none."""
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
