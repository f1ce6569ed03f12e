"""`train`: one run with any model: the command, its progress and its page."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentgym.outside.text import DataError, read_json_lines
from agentgym.trajectory import StepTable
from baselines.config import TrainerConfig
from baselines.config import explained as meanings
from baselines.environments.registry import settings_of
from baselines.recipes import papers, recipe
from baselines.records.callbacks import SAMPLES_FILE, Tracker
from baselines.records.metrics import LOG_FILE, Row, read_log
from baselines.records.watch import kept_in, warning_texts
from baselines.runs import card as cards
from baselines.runs.engine import Engine
from baselines.runs.plan import GIB, DoesNotFitError, Plan, Planner, duration
from baselines.runs.plan import card as card_of
from baselines.runs.run import MERGED_FOLDER, Run, carry_out
from baselines.runs.settings import RunSettings, run_settings
from baselines.trainer import FINAL_FOLDER, Trainer
from benchmarks import options
from benchmarks.console import NONE, arguments, explained, named, say, shown, stop, table
from benchmarks.json_files import check_known, created
from benchmarks.machine import describe_machine
from benchmarks.options import SIZES, WHAT, WHERE, check_model, known_env, of, on_data
from benchmarks.processes import Job
from benchmarks.report import assemble
from benchmarks.report.page import HTML, Figure, Page, Panel, Table, write_page
from benchmarks.training.run import STAGES, reporting
from policies.engines.engine import EngineError

#: Panels of the help besides those that all training commands have.
_LEARNING, _MEMORY, _WARM, _TRACKING = "Learning", "Memory", "Warm start", "Tracking"
#: Seconds between two versions of the page of a running run.
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


def _settings_shown(word: str) -> None:
    try:
        rows = meanings(None if word == "list" else word)
    except ValueError as error:
        raise typer.BadParameter(f"expected name=value, list, or a group; {error}", param_hint="--set") from None
    Console().print(table(["setting", "default", "meaning"], rows, left=3))


def train(
    env: options.Env = "sokoban",
    option: options.EnvOption = None,
    data: Annotated[Path | None, of(WHAT, "Folder of the official data, as --option data=FOLDER.")] = None,
    model: options.Model = "tiny",
    download: options.Download = False,
    method: Annotated[
        str,
        of(
            WHAT,
            "Credit method: a recipe, options after a colon each, or my_module:credit.",
            autocompletion=options.method_names,
        ),
    ] = options.REFERENCE,
    paper: Annotated[bool, of(WHAT, "Use the settings that the method's paper prints.", "--paper")] = False,
    script: Annotated[bool, of(WHAT, "Use the authors' run script where it differs.", "--script")] = False,
    seed: Annotated[int, of(WHAT, "Seed of all random numbers.", min=0)] = 0,
    quick: options.Quick = False,
    history: options.History = None,
    transcript: options.Transcript = False,
    truncate: Annotated[str | None, of(SIZES, "Prompts that do not fit: raise, left (cut) or end-episode.")] = None,
    iterations: Annotated[
        int | None, of(SIZES, "Iterations; a larger number extends a run.", "--iterations", "--steps", min=1)
    ] = None,
    groups: options.Groups = None,
    group_size: options.GroupSize = None,
    learning_rate: Annotated[float | None, of(_LEARNING, "AdamW's. Default: the environment's.", min=0)] = None,
    precision: Annotated[str | None, of(_LEARNING, "Precision of computing, bf16 or fp32; weights are fp32.")] = None,
    lora: Annotated[int | None, of(_LEARNING, "Rank of the adapter; 0: none. Default: the paper's.", min=0)] = None,
    change: Annotated[
        list[str] | None,
        of(
            _LEARNING,
            "Any setting of TrainerConfig, such as loss.kl=0.02. --set list shows all, --set loss a "
            "group: rollout, optimiser, loss, distillation, memory, schedule, validation, checkpoint.",
            "--set",
        ),
    ] = None,
    pass_tokens: Annotated[int | None, of(_MEMORY, "Tokens per pass. Default: by device.", min=1)] = None,
    recompute: Annotated[
        bool | None, of(_MEMORY, "Recompute activations in the backward pass.", "--recompute/--no-recompute")
    ] = None,
    plan: Annotated[bool, of(_MEMORY, "Print memory, tokens and hours, and exit.", "--plan")] = False,
    card: Annotated[str | None, of(_MEMORY, "With --plan: the GPU, h100, a100, l40s or rtx4090.")] = None,
    clone: Annotated[
        str | None,
        of(
            _WARM,
            "Expert episodes to imitate first, or a file of episodes (JSON lines with messages). Default: the "
            "environment's for tiny, 0 for other models and with --paper or --from.",
        ),
    ] = None,
    start: Annotated[
        Path | None, of(_WARM, "Start from the policy of an earlier run: its folder, or one of its models.", "--from")
    ] = None,
    validation_tasks: options.ValidationTasks = None,
    validation_every: options.ValidationEvery = None,
    test_tasks: Annotated[int, of(SIZES, "Held-out tasks for the final policy, played greedily.", min=0)] = 0,
    tracker: Annotated[
        str, of(_TRACKING, "tensorboard, wandb, trackio, several with commas, or none.")
    ] = "tensorboard",
    project: Annotated[str, of(_TRACKING, "Project of wandb and trackio.")] = "stepcredit",
    push: Annotated[str | None, of(_TRACKING, "Upload final/ to this private repository of your hub login.")] = None,
    out: options.Out = None,
    engine: Annotated[str, of(WHERE, "Generates replies: loop (the model), vllm, vllm:sleep, server:URL.")] = "loop",
    lanes: Annotated[int, of(WHERE, "Lanes of episodes that do not wait for each other's replies.", min=1)] = 1,
    attention: Annotated[str | None, of(WHERE, "Attention implementation of transformers. Default: by device.")] = None,
    only_print: Annotated[bool, of(WHERE, "Print the settings and exit.", "--print")] = False,
) -> None:
    """Train a policy by one method; `from baselines import train` is the same in Python.

    Prints a plan of memory and time first. Writes a log, samples, checkpoints, the final model with its card, and a
    page that is updated during the run. With --paper it first lists differences from the paper. The same command
    continues after Ctrl-C.
    """
    for word in change or ():
        if "=" not in word:
            _settings_shown(word)
            return
    env_options, changes = arguments(option or ()), arguments(change or (), "--set")
    env = known_env(env, pictures=True)
    row = settings_of(env)
    trackers = [name.strip() for name in tracker.split(",") if name.strip() not in ("", "none")]
    check_known("tracker", trackers, ("tensorboard", "wandb", "trackio"))
    memory = {"memory.microbatch_tokens": pass_tokens, "memory.activation_checkpointing": recompute}
    changes = named(learning_rate=learning_rate, **memory) | changes
    sizes = named(
        steps=iterations, groups=groups, group_size=group_size, validation_tasks=validation_tasks,
        validation_every=validation_every, eval_tasks=test_tasks or None,
    )  # fmt: skip
    if data is not None:
        if not row.data:
            raise typer.BadParameter(f"{row.id} plays no data of others", param_hint="--data")
        env_options = {next(iter(row.data)): str(data)} | env_options
    try:
        begun = None
        if start is not None:
            model, begun = cards.earlier(start)
        model = check_model(model, row.id, download=download)
        device = None if card is None else card_of(card)
        if device is not None and not plan:
            raise ValueError("--card is a part of --plan: a run is on this machine")
        if push is not None and not (plan or only_print):
            cards.check_login(push)
        writer = Engine.read(engine)
        printed = papers.paper(method, row.name, "script" if script else "paper") if paper or script else None
        if printed is None:
            recipe(method)
        settings = run_settings(
            row, method=method, model=model, seed=seed, quick=quick, lora=lora, history=history, paper=printed,
            sizes=sizes, changes=changes, transcript=transcript, truncate=truncate,
            clone=int(clone) if clone is not None and clone.isdecimal() else clone, precision=precision, start=begun,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise stop(str(error), 2) from None
    stated = [*sizes, *["clone_tasks"] * (clone is not None)]
    config, source = on_data(
        settings.config, row, env_options, stated=stated, whole=not quick, show=("training_tasks", "validation_tasks")
    )
    settings = dataclasses.replace(settings, config=config, source=source, variable=next(iter(row.data.items()), None))
    console = Console()
    plain = TrainerConfig().settings()
    for line in settings.paper_report():
        say(console, line)
    if only_print:
        for name, value in settings.training.settings().items():
            if value != plain[name]:
                say(console, f"  {name} = {value!r}")
        return
    try:
        settings.method  # noqa: B018  # before anything heavy is loaded
        planner = Planner(settings, device, attention, writer)
        planned = planner.plan(settings)
        for line in planned.lines(settings.training.iterations):
            say(console, line)
        planner.check(settings)
    except (NotImplementedError, DataError) as error:
        raise stop(str(error), 2) from None
    except DoesNotFitError as error:
        raise stop(str(error), 1) from None
    if plan:
        return
    folder = out or Path("runs") / "train" / f"{row.name}-{method}-seed{seed}"
    with explained("stopped; the same command continues where it was", "The same command continues."):
        try:
            trainer = _followed(
                settings, folder, console, planned, trackers, project, engine=writer, lanes=lanes,
                attention=attention or planned.attention,
            )  # fmt: skip
        except (ValueError, ImportError) as error:
            raise stop(str(error), 2) from None
        except EngineError as error:
            raise stop(f"{error}\nThe same command continues.", 1) from None
        if test_tasks:
            tested = Run(folder, settings, trainer).test().success_rate
            say(console, f"test: {100 * tested:.1f} % of {test_tasks} held-out tasks, greedy")
            rows = [*trainer.log.rows, {"iteration": trainer.iteration, "test_greedy_success": tested}]
            for model_folder in (folder / FINAL_FOLDER, folder / MERGED_FOLDER):
                cards.write(settings, folder, model_folder, rows)
        write_page(page(folder, settings, planned), folder)
        if push is not None:
            say(console, f"pushed: {cards.push(folder / FINAL_FOLDER, push)}")
    say(console, f"model: {folder / FINAL_FOLDER}\nlog: {folder / LOG_FILE}\nreport: {folder / HTML}")


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


def _followed(
    settings: RunSettings, folder: Path, console: Console, plan: Plan, trackers: Sequence[str], project: str, **how: Any
) -> Trainer:  # fmt: skip
    """Train, or continue an interrupted run of the same settings, with progress, trackers and the page."""
    numbers, live = settings.training, _Live(settings, folder, plan)
    job = Job("method", numbers.seed, settings.config.methods[0])
    if "tensorboard" in trackers:
        say(console, f"curves: tensorboard --logdir {folder}; page: {folder / HTML}")
    with contextlib.ExitStack() as stack:
        report = stack.enter_context(shown([job], console))
        tracked: list[Any] = [name for name in trackers if name != "tensorboard"]
        followed = [stack.enter_context(Tracker(each, project=project, name=folder.name)) for each in tracked]

        def show(trainer: Trainer, table: StepTable | None, row: Row) -> None:
            left = live.left(trainer)
            reporting(lambda done, total, words: report(job, done, total, words + left), numbers.iterations)(
                trainer, table, row
            )

        return carry_out(
            settings, folder, live, *followed, show, **how, tensorboard="tensorboard" in trackers,
            imitating=lambda done, total: report(job, done, total, "learning from the expert"),
            command=shlex.join(["stepcredit", *sys.argv[1:]]),
        )  # fmt: skip


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
    """Curves, the newest figures, and the steps that were sampled last; with the time `left` it reloads itself."""
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
