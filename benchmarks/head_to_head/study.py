"""`head-to-head`: which credit method reaches most with the same number of generated tokens?

For each method the same number of settings, drawn from its declared space, is trained once; the one that validates best
is trained with fresh seeds, and these play the test tasks once. All methods of a seed begin with the same clone. A
folder holds, per environment,

    sokoban.json            every record so far, from which table, pictures and page are made
    sokoban/config.json     what was asked; another configuration needs another folder
    sokoban/data_source.json       which tasks are played, see `benchmarks.data_source`
    sokoban/records/        one record per finished run: the same command goes on with the others
    sokoban/<run>/          clones, and checkpoints of the run at hand
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, EnvSettings
from benchmarks.config import make_config
from benchmarks.console import arguments, explained, parse_seeds, say, shown
from benchmarks.head_to_head.jobs import Plan, gather, record_path, run_one, search_job
from benchmarks.head_to_head.report import write_reports
from benchmarks.head_to_head.results import FINAL, SEARCH, Study, StudyConfig, load, load_folder, merge, save
from benchmarks.head_to_head.table import print_study
from benchmarks.json_files import OtherConfigurationError, claimed, encode, write_json
from benchmarks.machine import usable_cores
from benchmarks.processes import Job, run_jobs
from benchmarks.training.options import check_model, known_env, named_methods, on_data
from benchmarks.training.stack import CLONE
from wrappers.credit.method import methods as known_methods

#: Published methods, of the potential family the estimate that ranks actions best, and the combination of them.
METHODS = ",".join(method.contender for method in known_methods().values() if method.contender)
#: Reply tokens of a run, for a tiny policy one to three minutes of a core; and where they are fewer, by study.
_BUDGET = 100_000
_BUDGETS = {"searchqa-smollm2": 60_000}
_QUICK_BUDGET = 600
#: Settings per method, and validations per run.
_SETTINGS, _POINTS = 3, 5


def run_study(plan: Plan, out: Path, *, processes: int, console: Console) -> Study:
    """Run what is not finished yet, and write `<out>/<name>.json`, also when interrupted.

    Args:
        plan: what to run.
        out: folder of the studies; created when missing.
        processes: most processes at a time; 1: this one, run after run.
        console: where progress is shown.

    Raises:
        agentgym.outside.files.LockedError: another process works on the study.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        benchmarks.processes.JobFailedError: a run failed.
        ResultsError: records do not belong together.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    folder, path = out / plan.config.name, out / f"{plan.config.name}.json"
    if path.is_file() and (differing := _differences(load(path), plan)):
        raise OtherConfigurationError(
            f"{path} holds a study with another configuration, which this one would replace: {differing}\n"
            "Give another folder with --out, repeat the old options to continue it, or delete the file."
        )
    with claimed(folder, plan.config):
        if plan.source is not None:
            plan.source.note(folder)
        if path.is_file():
            _unpack(load(path), plan, folder)

        def finished(job: Job) -> bool:
            return record_path(folder, job).is_file()

        jobs = plan.jobs()
        needed = {job: plan.needed(job) for job in jobs}  # asked for again and again while others run

        def ready(job: Job) -> bool:
            return all(map(finished, needed[job]))

        # A clone is needed as long as a run begins with it, though its record may be there.
        left = [job for job in jobs if not finished(job)]
        begun = {job.seed for job in left}
        lost = [job for job in jobs if job.kind == CLONE and job.seed in begun and not _model(folder, job).exists()]
        for job in lost:
            record_path(folder, job).unlink(missing_ok=True)
        left = [job for job in jobs if not finished(job)]
        if len(left) < len(jobs):
            say(console, f"continuing in {folder}: {len(jobs) - len(left)} of {len(jobs)} runs are finished")
        try:
            if left:
                with shown(left, console) as progress:
                    work = functools.partial(run_one, plan, folder)
                    if processes == 1:  # here: a process of its own would first import everything again
                        for job in left:
                            work(job, functools.partial(progress, job))
                    else:
                        run_jobs(left, work, processes=processes, progress=progress, ready=ready)
        finally:
            if any(map(finished, jobs)):
                with contextlib.suppress(OSError):
                    save(gather(plan, folder), path)
        return load(path)


def _model(folder: Path, clone: Job) -> Path:
    return folder / clone.name / "model"


def _differences(study: Study, plan: Plan) -> str:
    """Name what the configuration of a study has otherwise than a plan; "" where it is the plan's."""
    there, asked = encode(study.config), encode(plan.config)
    names = [name for name in asked if name != "learning" and there[name] != asked[name]]
    inside = [name for name in asked["learning"] if there["learning"][name] != asked["learning"][name]]
    return ", ".join([*names, *inside])


def _unpack(study: Study, plan: Plan, folder: Path) -> None:
    """Let records of a study that was begun elsewhere count as finished runs, but for those with another setting."""
    for record in study.records:
        job = Job(record.stage, record.seed, record.method)
        if record.stage == SEARCH and record.setting:
            job = search_job(record.method, record.seed, record.setting)
        elif record.stage == FINAL and record.setting and record.setting != study.chosen(record.method):
            job = Job(FINAL, record.seed, f"{record.method} as {record.setting.label}")  # kept beside the run to come
        path = record_path(folder, job)
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(record, path)


def plan_study(
    row: EnvSettings,
    model: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    tokens: int | None = None,
    settings: int | None = None,
    points: int | None = None,
    search_seed: int = 100,
    draw_seed: int = 0,
    quick: bool = False,
    beside: Sequence[str] = (),
    changes: Mapping[str, int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """Put a plan together; None: the defaults, for `quick` small ones.

    Args:
        row: the environment.
        model: "tiny", "smollm2", or a model's folder or hub name.
        methods: names of recipes; with `settings` 0 labels, see `Setting.stated`.
        seeds: of the final runs.
        tokens: of a run.
        settings: tried per method; 0: nothing is searched.
        points: validations per run.
        search_seed: training seed of the search.
        draw_seed: by which settings are drawn.
        quick: everything tiny.
        beside: further splits that the final runs and their clones play.
        changes: fields of `benchmarks.config.Sizes` that are not those of the environment's learning benchmark; not
            for `quick`.
        options: arguments of the environment, beside which variables name its data; None: generated tasks in any case.

    Raises:
        typer.Exit: the data are not there, or not enough of them.
        typer.BadParameter: the search has a seed of the final runs, or more settings than a method's space.
    """
    if search_seed in seeds and settings != 0:
        raise typer.BadParameter(f"{search_seed} is a seed of the final runs too", param_hint="--search-seed")
    played = row.played_by(model)
    sizes = played.quick if quick else dataclasses.replace(played.full, **dict(changes or {}))
    if quick:
        sizes = dataclasses.replace(sizes, groups=2, group_size=4, clone_tasks=32, clone_epochs=1, training_tasks=64)
        sizes = dataclasses.replace(sizes, eval_tasks=8, validation_tasks=4)
    learning = make_config(row, methods=[], seeds=[], model=model, history=None, sizes=sizes)
    # One split, judged once, unless others are asked for.
    setup = dataclasses.replace(learning.setup, kinds="", beside=list(beside))
    learning, source = dataclasses.replace(learning, setup=setup), None
    if options is not None:
        learning, source = on_data(learning, row, options)
    config = StudyConfig(
        learning=learning,
        token_budget=_QUICK_BUDGET,
        points=points or (2 if quick else _POINTS),
        settings=(2 if quick else _SETTINGS) if settings is None else settings,
        search_seed=search_seed,
        draw_seed=draw_seed,
    )
    budget = tokens or (_QUICK_BUDGET if quick else _BUDGETS.get(config.generated, _BUDGET))
    plan = Plan(dataclasses.replace(config, token_budget=budget), list(methods), list(seeds), source)
    try:
        for method in plan.methods:
            plan.settings(method)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    return plan


def head_to_head(
    env: Annotated[
        str, typer.Option(help="[bold]sokoban[/], [bold]sotopia[/], [bold]alfworld[/], [bold]searchqa[/] or an id.")
    ] = "sokoban",
    model: Annotated[
        str, typer.Option(help="[bold]tiny[/], [bold]smollm2[/], or another model's folder or hub name.")
    ] = TINY,
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Argument of the environment, such as [bold]data=FOLDER[/]; as often as needed. Without one, the "
            "variables count that it has for its data, such as ALFWORLD_DATA."
        ),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help=f"Recipes, options after colons. Default: {METHODS}; quick: grpo,gigpo.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Of the final runs. Default: 0-2; quick: 0.")] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help=f"Reply tokens of a run. Default: {_BUDGET}, fewer for smollm2 in searchqa."),
    ] = None,
    settings: Annotated[
        int | None, typer.Option(min=1, help=f"Tried per method. Default: {_SETTINGS}; quick: 2.")
    ] = None,
    search_seed: Annotated[int, typer.Option(min=0, help="Training seed of the search.")] = 100,
    draw_seed: Annotated[int, typer.Option(min=0, help="By which settings are drawn.")] = 0,
    rebuilt: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Train nothing: read the studies of this folder. Several are put together."),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(help="Write into head-to-head-ENV.md of this folder, between its marks, not into --out."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two methods, everything tiny; for CI.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes of one thread each. Default: the number of cores; quick: 1.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results. Default: runs/head-to-head, or runs/head-to-head-quick."),
    ] = None,
) -> None:
    """Train every method with the same number of generated tokens and the same search, and compare on test tasks.

    Prints the table against tuned GRPO, and writes [bold]ENV.json[/] with every record, [bold]ENV.md[/] and pictures.
    Ctrl-C and the same command again: finished runs are kept.
    """
    console = Console()
    place = out or Path("runs") / ("head-to-head-quick" if quick else "head-to-head")
    with explained("stopped; the same command continues where it was", "Finished runs are kept."):
        if rebuilt:
            if any(given is not None for given in (methods, seeds, tokens, settings, jobs, option)) or quick:
                raise typer.BadParameter("nothing is trained: leave out what says how", param_hint="--from")
            studies = _read(rebuilt)
        else:
            row = settings_of(known_env(env))
            names = named_methods(methods or ("grpo,gigpo" if quick else METHODS))
            numbers = parse_seeds(seeds or ("0" if quick else "0-2"))
            plan = plan_study(
                row, check_model(model), names, numbers,
                tokens=tokens, settings=settings, search_seed=search_seed, draw_seed=draw_seed, quick=quick,
                options=arguments(option or ()),
            )  # fmt: skip
            studies = [run_study(plan, place, processes=jobs or (1 if quick else usable_cores()), console=console)]
        for study in studies:
            print_study(study, console)
            for words in study.left_out():
                say(console, words, "yellow")
        for path in write_reports(studies, place, pages):
            say(console, f"written: {path}")
    if quick:
        say(console, "A smoke test: that everything works, not which method is better.", "yellow")


def _read(folders: Sequence[Path]) -> list[Study]:
    found: dict[str, Study] = {}
    for folder in folders:
        for study in load_folder(folder):
            name = study.config.name
            found[name] = merge(found[name], [study]) if name in found else study
    return list(found.values())
