"""The papers' smaller questions: each is held against the truth, trained, or both; `benchmarks.run study NAME`.

What is held against the true worth of steps is in `benchmarks.truth.papers`, what is trained in
`benchmarks.training.studies`. A folder holds

    <name>.json     what a study found: its tables, picture and page are made of it
    <name>/         the part that trains nothing
    trained/, trained-splits/   runs of all studies, see `benchmarks.training.head_to_head`
    clones/         policies that were cloned because `--model` named one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym.outside.files import write_file
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.runs.stack import holds_model
from benchmarks import json_files
from benchmarks.console import explained, parse_seeds, say, telling
from benchmarks.json_files import ResultsError
from benchmarks.machine import usable_cores
from benchmarks.report import assemble
from benchmarks.report.markdown import filled, markdown_table, replaced
from benchmarks.report.page import Page, Table, print_page
from benchmarks.report.panels import draw
from benchmarks.training import options, records
from benchmarks.training.head_to_head import Plan
from benchmarks.training.learning import cloned_for
from benchmarks.training.options import SIZES, WHAT, WHERE, check_model, of
from benchmarks.training.records import Trainings, load_folder
from benchmarks.training.run import learned_config
from benchmarks.training.studies import TRAINED as TRAINED_PARTS
from benchmarks.training.studies import only, plan_of, run_trained
from benchmarks.training.studies import panels as trained_panels
from benchmarks.training.studies import tables as trained_tables
from benchmarks.truth import papers
from benchmarks.truth.papers import AgainstFound, environments, make_against

VERSION = 1
#: The parts of a study.
AGAINST, TRAINED = "against", "trained"


@dataclass(frozen=True)
class Found:
    """The whole file: the part without training (None: not run), and per environment the study's own trainings."""

    version: int
    study: str
    against: AgainstFound | None
    trained: list[Trainings]


def load(path: Path) -> Found:
    """Read and check."""

    def check(found: Found) -> None:
        for trained in found.trained:
            records.check(trained)

    return json_files.load(Found, path, version=VERSION, check=check)


@dataclass(frozen=True)
class PaperStudy:
    """One study: the rows of its name in `papers.AGAINST` and in `benchmarks.training.studies.TRAINED`."""

    name: str
    question: str

    @property
    def command(self) -> Callable[..., None]:

        def command(
            quick: options.Quick = False,
            part: Annotated[
                str | None, of(WHAT, "against: only what is held against the truth; trained: only training.")
            ] = None,
            model: Annotated[
                str | None,
                of(
                    WHAT,
                    "smollm2, another model's folder or hub name, or a job folder of the default benchmark: "
                    "it is trained, and its clone (or the job's policy) plays what is held against the truth. Default: "
                    "a tiny policy is trained, scripted players play.",
                ),
            ] = None,
            seeds: Annotated[str | None, of(WHAT, "Training seeds. Default: 0-2; quick: 0.")] = None,
            tokens: Annotated[
                int | None, of(SIZES, "Reply tokens of a run whose setting does not name them.", min=1)
            ] = None,
            tasks: Annotated[int | None, of(SIZES, "Tasks that are held against the truth.", min=2)] = None,
            seed: Annotated[int, of(WHAT, "Of episodes and intervals of the part without training.", min=0)] = 0,
            jobs: options.Jobs = None,
            page: Annotated[
                Path | None, of(WHERE, "Also write the picture into this Markdown page, between its marks.")
            ] = None,
            rebuilt: Annotated[
                Path | None,
                of(WHERE, "Run nothing: read what this folder holds of the study, a head to head's too.", "--from"),
            ] = None,
            out: options.Out = None,
        ) -> None:
            """QUESTION.

            Answered against the true worth of steps, by training, or both. Prints the tables, and writes
            NAME.json, NAME.md and NAME.png. Ctrl-C and the same command again: what is
            finished is kept, and studies share their trained runs.
            """
            console = Console()
            place = out or rebuilt or _folder(model, quick=quick)
            with explained("stopped; the same command continues where it was", "What is finished is kept."):
                if part not in (None, AGAINST, TRAINED):
                    raise typer.BadParameter(f"expected {AGAINST} or {TRAINED}, got {part!r}", param_hint="--part")
                if rebuilt:
                    if quick or any(given is not None for given in (part, model, seeds, tokens, tasks, jobs)):
                        raise typer.BadParameter("nothing is run: leave out what says how", param_hint="--from")
                    found = found_in(self, rebuilt)
                else:
                    numbers = parse_seeds(seeds or ("0" if quick else "0-2"))
                    record = place / f"{self.name}.json"
                    # A folder has one configuration, so what the other part found there stands beside this one.
                    before = load(record) if part and record.exists() else Found(VERSION, self.name, None, [])
                    against, trained = None, list[Trainings]()
                    if part != TRAINED:
                        against = _against(self.name, place, console, quick, model, tasks or 0, seed)
                    if part != AGAINST:
                        plans = _plans(self, model, numbers, tokens or 0, quick)
                        processes = jobs or (1 if quick else usable_cores())
                        trained = [run_trained(each, place, processes=processes, console=console) for each in plans]
                    if against is None and not trained:
                        whose = f" for {model}" if model else ""
                        raise ResultsError(f"{self.name}: nothing to run, it has no such part{whose}")
                    found = Found(VERSION, self.name, against or before.against, trained or before.trained)
                    json_files.write_json(found, record)
                print_page(Page(self.question, self.question, tables(self, found)), console)
                for path in write_report(self, found, place, page):
                    say(console, f"written: {path}")
            if quick:
                say(console, "A smoke test: that everything works, not an answer.", "yellow")

        command.__doc__ = (command.__doc__ or "").replace("QUESTION.", self.question)
        return command


def _folder(model: str | None, *, quick: bool) -> Path:
    """Where results go by default: who plays and is trained is a configuration, and each has a folder of its own.

    >>> _folder("runs/webshop/clone-seed0", quick=True).as_posix()
    'runs/studies-quick-runs-webshop-clone-seed0'
    """
    whose = [re.sub(r"[^\w.]+", "-", model).strip("-.")] if model is not None else []
    return Path("runs") / "-".join(["studies", *["quick"] * quick, *whose])


def _against(
    name: str, place: Path, console: Console, quick: bool, model: str | None, tasks: int, seed: int
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
                folder = place / "clones" / f"{env}-{Path(model).name}"
                models[env] = cloned_for(settings_of(env), folder, 0, tell, quick=quick, model=weights)
    config = make_against(name, quick=quick, models=models, tasks=tasks, seed=seed)
    return papers.STUDY.play(config, place / name, console).against


def _plans(study: PaperStudy, model: str | None, seeds: Sequence[int], tokens: int, quick: bool) -> list[Plan]:
    trained = TRAINED_PARTS.get(study.name, ())
    chosen, weights = trained[:1] if quick else trained, check_model(TINY)
    if model is not None and _is_job(model):
        weights, env = str(Path(model) / "model"), settings_of(learned_config(Path(model)).env).name
        chosen = tuple(each for each in trained if each.env == env)
    elif model is not None:
        weights = check_model(model)
    return [plan_of(each, weights, seeds, tokens=tokens, quick=quick) for each in chosen]


def _is_job(model: str) -> bool:
    return holds_model(Path(model) / "model")


def found_in(study: PaperStudy, folder: Path) -> Found:
    """Return what a folder holds of a study: its own file, or the runs of a head to head that it would train."""
    path, parts = folder / f"{study.name}.json", TRAINED_PARTS.get(study.name, ())
    names = {trained.env for trained in parts}
    if path.is_file() or not any((folder / f"{name}.json").is_file() for name in names):
        return load(path)
    wanted = [arm.setting for trained in parts for arm in trained.arms]
    return Found(VERSION, study.name, None, [
        only(each, wanted, [record.seed for record in each.records])
        for each in load_folder(folder) if each.config.name in names
    ])  # fmt: skip


def write_report(study: PaperStudy, found: Found, out: Path, page: Path | None = None) -> list[Path]:
    """Write tables and picture as `<out>/<name>.md` and `<out>/<name>.png`, and return what was written.

    With a Markdown page, the text between its marks is replaced by the picture and the command that prints the tables,
    and the picture goes to the folder images beside the page.
    """
    name, folder = f"{study.name}.png", out
    if page is not None:
        name, folder = f"study_{study.name.replace('-', '_')}.png", page.parent / "images"
    out.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    drawn, bars = trained_panels(study.name, found.trained)
    against = [] if found.against is None else list(papers.panels(found.against))
    assemble.write_picture(draw([*against, *drawn], bars), folder / name)
    if page is None:
        path = out / f"{study.name}.md"
        parts = [f"{markdown_table(each.heads, each.texts)}\n\n{filled(each.caption)}" for each in tables(study, found)]
        write_file(path, "\n\n".join([*parts, figure(study, found, name)]).encode())
        return [path, folder / name]
    text = replaced(page.read_text(encoding="utf-8"), study.name, figure(study, found, f"images/{name}"))
    write_file(page, text.encode())
    return [folder / name, page]


def figure(study: PaperStudy, found: Found, picture: str) -> str:
    """Return the picture and the machine; the site and `--from` show the tables."""
    machines = [each.machine for each in (found.against, *found.trained) if each is not None]
    made = "; ".join(dict.fromkeys(machine.hardware for machine in machines))
    return f"![{study.question}]({picture})\n\n{filled(f'Measured on {made}.')}\n"


def tables(study: PaperStudy, found: Found) -> list[Table]:
    """Return all tables of a study, those of the part without training first."""
    against = [] if found.against is None else papers.tables(found.against)
    return [*against, *trained_tables(study.name, found.trained)]


#: Studies of the records of the head to head.
SHARED = ("share-of-time",)
STUDIES: dict[str, PaperStudy] = {
    name: PaperStudy(name, question)
    for name, question in {
        "seen-unseen": "Does what is learned hold where training never was?",
        "rollout-budget": "What do more rollouts of a task, or of a whole training, bring?",
        "group-size": "How many episodes should a group have, where the number of episodes is given?",
        "distance": "Is a state worth what its nearest success says, or what all successes say in the mean?",
        "normalisation": "Should advantages be divided by a standard deviation?",
        "cosine-threshold": "From which similarity on should texts count as one state?",
        "adverts": "What do adverts between the lines of a page do to credit that compares states?",
        "graph-statistics": "What do the graphs of a group look like, and what is there to compare?",
        "staleness": "What does training lose by episodes of older weights?",
        "share-of-time": "Where does the time of training go, and how much of it is credit?",
    }.items()
}
