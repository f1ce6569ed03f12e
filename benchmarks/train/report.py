"""`report.html` of a training run: curves, where the time goes, and what the policy says, as one page."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path
from typing import Any

import markupsafe

from agentgym.outside.text import read_json_lines
from baselines.callbacks import SAMPLES_FILE
from baselines.metrics import LOG_FILE, Row, read_log
from baselines.watch import kept_in, told
from benchmarks.console import NONE
from benchmarks.machine import describe_machine
from benchmarks.report import assemble
from benchmarks.train.settings import RunSettings

PICTURE, PAGE = "curves.png", "report.html"
_STAGES = ("environment", "generation", "credit", "update")
#: Panels of the picture: title, and the columns drawn there with their colours and scale.
_PANELS: tuple[tuple[str, tuple[tuple[str, str, str, float], ...]], ...] = (
    (
        "success [%]",
        (
            ("success", "rollouts", "#999999", 100.0),
            ("validation_greedy_success", "validation, greedy", "#009E73", 100.0),
            ("validation_sampled_success", "validation, sampled", "#56B4E9", 100.0),
        ),
    ),
    ("refused actions, clipped tokens [%]", (
        ("invalid_rate", "refused actions", "#D55E00", 100.0), ("clip_fraction", "clipped tokens", "#CC79A7", 100.0)
    )),
    ("nats per token", (("entropy", "entropy", "#0072B2", 1.0), ("kl", "divergence from the start", "#E69F00", 1.0))),
    ("share of time [%]", tuple(
        (f"share_{stage}", stage, colour, 1.0)
        for stage, colour in zip(_STAGES, ("#999999", "#56B4E9", "#E69F00", "#009E73"), strict=True)
    )),
)  # fmt: skip


def write_report(folder: Path, settings: RunSettings) -> Path:
    """Write the picture and the page of the run in a folder; returns the page's path."""
    rows = read_log(folder / LOG_FILE)
    draw(rows, folder / PICTURE)
    assemble.write_page(render(folder, rows, settings), folder / PAGE)
    return folder / PAGE


def render(folder: Path, rows: list[Row], settings: RunSettings) -> str:
    """Return the page of a run."""
    config, training, machine = settings.config, settings.training, describe_machine()
    samples: list[dict[str, Any]] = []
    if (folder / SAMPLES_FILE).exists():
        samples = [line for _, line in read_json_lines(folder / SAMPLES_FILE)]
    last = max((line["iteration"] for line in samples), default=0)
    finished = int(rows[-1]["iteration"]) if rows else 0
    return assemble.page(
        "train.html.j2",
        styles=["report.css"],
        title=f"{config.methods[0]} on {config.env}",
        chips=[
            ("model", config.model),
            ("iterations", f"{finished} of {training.iterations}"),
            ("per iteration", f"{training.groups} tasks x {training.group_size} episodes"),
            ("adapter", f"rank {config.lora}" if config.lora else "none"),
            ("seed", str(training.seed)),
        ],
        picture=markupsafe.Markup(base64.b64encode((folder / PICTURE).read_bytes()).decode("ascii")),
        figures=[(name, _last(rows, key, scale, unit)) for name, key, scale, unit in _FIGURES],
        last=last,
        samples=[line for line in samples if line["iteration"] == last],
        told=settings.told(),
        warned=told(rows, kept_in(folder)),
        about=[
            ("written", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
            ("machine", machine.hardware),
            ("software", machine.software),
            *([("data", settings.source.words)] if settings.source else []),
            ("training", ", ".join(f"{name} {value}" for name, value in vars(training).items())),
            ("files", "log.jsonl and samples.jsonl beside this page hold every number; final is the model"),
        ],
    )


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


def _last(rows: list[Row], key: str, scale: float, unit: str) -> str:
    """The newest value of a column in words; a mark where there is none."""
    values = [row[key] for row in rows if row.get(key) is not None]
    return f"{scale * values[-1]:,.1f}{unit}" if values else NONE


def draw(rows: list[Row], path: Path) -> None:
    """Write the curves of a run as a PNG: success, refusals, entropy and divergence, shares of time."""
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
    assemble.write_picture(figure, path)
