"""`python -m benchmarks.run study NAME`.

A folder of studies holds

    <name>.json     what a study found: its tables, picture and page are made of it
    <name>/         the part that trains nothing, see `benchmarks.truth.papers`
    trained/, trained-splits/   runs of all studies, see `benchmarks.head_to_head.study`
    clones/         policies that were cloned because `--model` named one
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym.checks import suggest
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from benchmarks.config import make_config
from benchmarks.console import explained, parse_seeds, say, table, telling
from benchmarks.head_to_head.results import Study as Trainings
from benchmarks.json_files import ResultsError
from benchmarks.learning.jobs import cloned
from benchmarks.machine import usable_cores
from benchmarks.paper_studies.description import Study
from benchmarks.paper_studies.registry import STUDIES
from benchmarks.paper_studies.report import write_report
from benchmarks.paper_studies.results import VERSION, Found, load, save
from benchmarks.paper_studies.table import tables
from benchmarks.paper_studies.trained import found_in, plan_of, run_trained
from benchmarks.training.options import check_model
from benchmarks.training.stack import holds_model, learned_config
from benchmarks.truth import papers
from benchmarks.truth.papers import AgainstFound, environments, make_against, run_against

#: The parts of a study.
AGAINST, TRAINED = "against", "trained"


def study(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(STUDIES)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Every part, tiny: a smoke test, no result.")] = False,
    part: Annotated[
        str | None,
        typer.Option(help="[bold]against[/]: only what is held against the truth; [bold]trained[/]: only training."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="[bold]smollm2[/], another model's folder or hub name, or a job folder of a learning benchmark: it is "
            "trained, and its clone (or the job's policy) plays what is held against the truth. Default: a tiny policy "
            "is trained, scripted players play."
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Training seeds. Default: 0-2; quick: 0.")] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Reply tokens of a run that does not say it.")] = None,
    tasks: Annotated[int | None, typer.Option(min=2, help="Tasks that are held against the truth.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes and intervals of the part without training.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that train. Default: the number of cores; quick: 1.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Also write tables and picture into this Markdown page, between its marks.")
    ] = None,
    rebuilt: Annotated[
        Path | None,
        typer.Option("--from", help="Run nothing: read what this folder holds of the study, a head to head's too."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results. Default: runs/studies, -quick after it, and the model's name."),
    ] = None,
) -> None:
    """Answer one of the papers' smaller questions: against the true worth of steps, and by training.

    Prints the tables, and writes [bold]NAME.json[/], [bold]NAME.md[/] and [bold]NAME.png[/]. Ctrl-C and the same
    command again: what is finished is kept, and studies share their trained runs.
    """
    console = Console()
    with explained("stopped; the same command continues where it was", "What is finished is kept."):
        if name not in STUDIES:
            raise ResultsError(f"unknown study {name!r}; {suggest(name, STUDIES)}")
        if part not in (None, AGAINST, TRAINED):
            raise typer.BadParameter(f"expected {AGAINST} or {TRAINED}, got {part!r}", param_hint="--part")
        chosen, place = STUDIES[name], out or rebuilt or _folder(model, quick=quick)
        if rebuilt:
            if quick or any(given is not None for given in (part, model, seeds, tokens, tasks, jobs)):
                raise typer.BadParameter("nothing is run: leave out what says how", param_hint="--from")
            found = found_in(chosen, rebuilt)
        else:
            numbers = parse_seeds(seeds or ("0" if quick else "0-2"))
            record = place / f"{name}.json"
            # A folder has one configuration, so what the other part found there stands beside this one.
            before = load(record) if part and record.exists() else Found(VERSION, name, None, [])
            against, trained = None, list[Trainings]()
            if part != TRAINED:
                against = _against(name, place, console, quick=quick, model=model, tasks=tasks or 0, seed=seed)
            if part != AGAINST:
                trained = _trained(
                    chosen, place, console, quick=quick, model=model, tokens=tokens or 0, seeds=numbers,
                    processes=jobs or (1 if quick else usable_cores()),
                )  # fmt: skip
            if against is None and not trained:
                raise ResultsError(f"{name}: nothing to run, it has no such part{f' for {model}' if model else ''}")
            found = Found(VERSION, name, against or before.against, trained or before.trained)
            save(found, record)
        for shown in tables(chosen, found):
            console.print(table(shown.heads, shown.texts, title=chosen.question, caption=shown.caption))
        for path in write_report(chosen, found, place, page):
            say(console, f"written: {path}")
    if quick:
        say(console, "A smoke test: that everything works, not an answer.", "yellow")


def _folder(model: str | None, *, quick: bool) -> Path:
    """Where results go by default: who plays and is trained is a configuration, and each has a folder of its own.

    >>> _folder("runs/webshop/clone-seed0", quick=True).as_posix()
    'runs/studies-quick-runs-webshop-clone-seed0'
    """
    words = ["studies", *(["quick"] if quick else [])]
    if model is not None:
        words.append(re.sub(r"[^\w.]+", "-", model).strip("-."))
    return Path("runs") / "-".join(words)


def _against(
    name: str, place: Path, console: Console, *, quick: bool, model: str | None, tasks: int, seed: int
) -> AgainstFound | None:
    """Run the part without training, where there is one; with a clone of the model, or the policy of its job."""
    if name not in papers.AGAINST:
        return None
    models: dict[str, Path] = {}
    if model is not None and _is_job(model):
        models[settings_of(learned_config(Path(model)).env).name] = Path(model)
    elif model is not None:
        weights, envs = check_model(model), environments(name)
        with telling(console, "cloning") as tell:
            for env in envs[:1] if quick else envs:
                row = settings_of(env)
                played = row.played_by(weights)
                learning = make_config(
                    row, methods=["grpo"], seeds=[0], model=weights, history=None,
                    sizes=played.quick if quick else played.full,
                )  # fmt: skip
                models[env] = cloned(learning, place / "clones" / f"{env}-{Path(model).name}", 0, tell)
    return run_against(
        make_against(name, quick=quick, models=models, tasks=tasks, seed=seed), place / name, console
    )  # fmt: skip


def _trained(
    chosen: Study,
    place: Path,
    console: Console,
    *,
    quick: bool,
    model: str | None,
    tokens: int,
    seeds: Sequence[int],
    processes: int,
) -> list[Trainings]:
    """Run the parts with training; the policy of a job is trained where it was trained before."""
    parts, weights = chosen.trained[:1] if quick else chosen.trained, check_model(TINY)
    if model is not None and _is_job(model):
        weights, env = str(Path(model) / "model"), settings_of(learned_config(Path(model)).env).name
        parts = tuple(part for part in chosen.trained if part.env == env)
    elif model is not None:
        weights = check_model(model)
    plans = [plan_of(each, weights, seeds, tokens=tokens, quick=quick) for each in parts]
    return [run_trained(plan, place, processes=processes, console=console) for plan in plans]


def _is_job(model: str) -> bool:
    return holds_model(Path(model) / "model")
