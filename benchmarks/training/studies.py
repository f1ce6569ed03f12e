"""The papers' smaller questions, answered by training, and the command of each: `python -m benchmarks.run study NAME`.

What is held against the true worth of steps, and trains nothing, is in `benchmarks.truth.papers`. A folder holds

    <name>.json     what a study found: its tables, picture and page are made of it
    <name>/         the part that trains nothing
    trained/, trained-splits/   runs of all studies, see `benchmarks.training.head_to_head`
    clones/         policies that were cloned because `--model` named one
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from benchmarks import json_files
from benchmarks.config import make_config
from benchmarks.console import explained, parse_seeds, say, telling
from benchmarks.json_files import ResultsError
from benchmarks.machine import usable_cores
from benchmarks.report.page import print_page
from benchmarks.statistics import Interval, paired_difference, success_interval
from benchmarks.training import options, records
from benchmarks.training.head_to_head import Plan, plan_study, run_study
from benchmarks.training.head_to_head_page import Cost, cost_of
from benchmarks.training.learning import cloned
from benchmarks.training.options import SIZES, WHAT, WHERE, check_model, of
from benchmarks.training.records import FINAL, Record, Trainings, load_folder
from benchmarks.training.stack import CLONE, holds_model, learned_config
from benchmarks.truth import papers
from benchmarks.truth.papers import AgainstFound, environments, make_against, run_against

VERSION = 1
#: The parts of a study.
AGAINST, TRAINED = "against", "trained"
#: Folder of all runs that play the test split alone, and of those that play further ones. Studies share runs.
_PLAIN, _SPLITS = "trained", "trained-splits"


@dataclass(frozen=True)
class Found:
    """What a study found: the whole file.

    Attributes:
        version: of the format.
        study: its name.
        against: the part without training; None: not run.
        trained: the part with training, per environment; without settings that belong to other studies.
    """

    version: int
    study: str
    against: AgainstFound | None
    trained: list[Trainings]


def load(path: Path) -> Found:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, not a study's, or of another version; names the file.
    """
    found = json_files.load(Found, path)
    if found.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {found.version}; run the study again")
    for trained in found.trained:
        try:
            records.check(trained)
        except ResultsError as error:
            raise ResultsError(f"{path}: {error}") from None
    return found


@dataclass(frozen=True)
class Arm:
    """One setting that is trained.

    Attributes:
        setting: label of a `benchmarks.training.records.Setting`.
        line, along: where it stands in the picture.
        base: setting that it is compared with; "": none.
    """

    setting: str
    line: str
    along: str
    base: str = ""


@dataclass(frozen=True)
class Trained:
    """What is trained from the same clones, with the head to head's runs.

    Attributes:
        env: environment.
        arms: the settings.
        along: what the horizontal axis of its picture is called.
        tokens: reply tokens of a run, unless its setting says otherwise.
        sizes: fields of `benchmarks.config.Sizes` that are not those of the environment's learning benchmark.
        splits: names of splits by what they are called there, the test split among them: all of them are played, and
            are the horizontal axis; {}: the test split alone.
        shares: what is shown is where the time went, not success.
    """

    env: str
    arms: tuple[Arm, ...]
    along: str
    tokens: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False


@dataclass(frozen=True)
class PaperStudy:
    """One study.

    Attributes:
        name: of the command, the page and the files.
        question: in one sentence.
        trained: the parts with training, each in another environment or with other splits; the part without is the row
            of that name in `benchmarks.truth.papers.AGAINST`.
    """

    name: str
    question: str
    trained: tuple[Trained, ...] = ()

    @property
    def command(self) -> Callable[..., None]:
        """The typer command."""

        def command(
            quick: options.Quick = False,
            part: Annotated[
                str | None,
                of(
                    WHAT,
                    "[bold]against[/]: only what is held against the truth; [bold]trained[/]: only training.",
                ),
            ] = None,
            model: Annotated[
                str | None,
                of(
                    WHAT,
                    "[bold]smollm2[/], another model's folder or hub name, or a job folder of the default benchmark: "
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
                Path | None, of(WHERE, "Also write tables and picture into this Markdown page, between its marks.")
            ] = None,
            rebuilt: Annotated[
                Path | None,
                of(WHERE, "Run nothing: read what this folder holds of the study, a head to head's too.", "--from"),
            ] = None,
            out: options.Out = None,
        ) -> None:
            """Answer one of the papers' smaller questions: against the true worth of steps, and by training.

            Prints the tables, and writes [bold]NAME.json[/], [bold]NAME.md[/] and [bold]NAME.png[/]. Ctrl-C and the
            same command again: what is finished is kept, and studies share their trained runs.
            """
            from benchmarks.training.studies_page import page_of, write_report

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
                print_page(page_of(self, found), console)
                for path in write_report(self, found, place, page):
                    say(console, f"written: {path}")
            if quick:
                say(console, "A smoke test: that everything works, not an answer.", "yellow")

        return command


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
                row = settings_of(env)
                played = row.played_by(weights)
                learning = make_config(
                    row, methods=["grpo"], seeds=[0], model=weights, history=None,
                    sizes=played.quick if quick else played.full,
                )  # fmt: skip
                models[env] = cloned(learning, place / "clones" / f"{env}-{Path(model).name}", 0, tell)
    return run_against(make_against(name, quick=quick, models=models, tasks=tasks, seed=seed), place / name, console)


def _plans(study: PaperStudy, model: str | None, seeds: Sequence[int], tokens: int, quick: bool) -> list[Plan]:
    """What is trained; the policy of a job is trained where it was trained before."""
    chosen, weights = study.trained[:1] if quick else study.trained, check_model(TINY)
    if model is not None and _is_job(model):
        weights, env = str(Path(model) / "model"), settings_of(learned_config(Path(model)).env).name
        chosen = tuple(each for each in study.trained if each.env == env)
    elif model is not None:
        weights = check_model(model)
    return [plan_of(each, weights, seeds, tokens=tokens, quick=quick) for each in chosen]


def _is_job(model: str) -> bool:
    return holds_model(Path(model) / "model")


def plan_of(trained: Trained, model: str, seeds: Sequence[int], *, tokens: int = 0, quick: bool = False) -> Plan:
    """Return what is to be run.

    Args:
        trained: the part.
        model: "tiny", "smollm2", or a model's folder or hub name.
        seeds: training seeds.
        tokens: of a run, for settings that do not say it; 0: the study's number.
        quick: everything tiny, and of the settings the first two.
    """
    row, arms = settings_of(trained.env), trained.arms[:2] if quick else trained.arms
    beside = [split for split in trained.splits if split != row.played_by(model).setup.test]
    return plan_study(
        row, model, [arm.setting for arm in arms], seeds,
        tokens=None if quick else tokens or trained.tokens, settings=0, points=1, beside=beside, changes=trained.sizes,
        quick=quick,
    )  # fmt: skip


def run_trained(plan: Plan, out: Path, *, processes: int, console: Console) -> Trainings:
    """Run what is not finished yet, and return this plan's records alone; arguments and errors as `run_study`."""
    place = out / (_SPLITS if plan.config.learning.setup.beside else _PLAIN)
    return only(run_study(plan, place, processes=processes, console=console), plan.methods, plan.seeds)


def only(trainings: Trainings, methods: Sequence[str], seeds: Sequence[int]) -> Trainings:
    """Return the records of some methods and seeds, and of their clones."""
    kept = [
        record for record in trainings.records
        if record.seed in seeds and (record.stage == CLONE or record.method in methods)
    ]  # fmt: skip
    return dataclasses.replace(trainings, records=kept)


def found_in(study: PaperStudy, folder: Path) -> Found:
    """Return what a folder holds of a study: its own file, or the runs of a head to head that it would train.

    Raises:
        ResultsError: it holds neither, or a file is damaged.
    """
    path = folder / f"{study.name}.json"
    names = {trained.env for trained in study.trained}
    if path.is_file() or not any((folder / f"{name}.json").is_file() for name in names):
        return load(path)
    wanted = [arm.setting for trained in study.trained for arm in trained.arms]
    return Found(VERSION, study.name, None, [
        only(each, wanted, [record.seed for record in each.records])
        for each in load_folder(folder) if each.config.name in names
    ])  # fmt: skip


def parts(study: PaperStudy, found: Sequence[Trainings]) -> list[tuple[Trained, Trainings]]:
    """Return what was trained, each with its description: that of its environment and its splits."""
    pairs = []
    for trainings in found:
        setup = trainings.config.learning.setup
        env, splits = settings_of(trainings.config.learning.env).name, {setup.test, *setup.beside}
        alike = (each for each in study.trained if each.env == env and splits == ({*each.splits} or {setup.test}))
        pairs += [(each, trainings) for each in alike]
    return pairs


@dataclass(frozen=True)
class Outcome:
    """One setting in one mode of play, on one split.

    Attributes:
        line, along: where it stands in the picture; the clone's line is "clone", and it stands everywhere.
        mode: "sampled" or "greedy".
        seeds: how many.
        success: with a 95 % interval, for new seeds and new tasks; of one seed for new tasks.
        less_base: less the setting that it is compared with, paired over the seeds of both; None: there is none.
        less_clone: less its clones; None for clones.
    """

    line: str
    along: str
    mode: str
    seeds: int
    success: Interval
    less_base: Interval | None
    less_clone: Interval | None


def outcomes(trained: Trained, trainings: Trainings, mode: str) -> list[Outcome]:
    """Compute all outcomes in one mode: the clone's, then the settings' in their order.

    Where splits are compared, each has one outcome per split, and nothing is a setting's base.
    """
    clones = {record.seed: record for record in trainings.of(CLONE, CLONE)}
    test = trainings.config.learning.setup.test
    # A study on one split has no name for it.
    splits = trained.splits or {test: ""}
    found = []
    for split, name in splits.items():
        base = [_played(clone, split, test, mode) for clone in clones.values()]
        found.append(Outcome(CLONE, name, mode, len(base), success_interval(base), None, None))
    for arm in trained.arms:
        records = trainings.of(arm.setting, FINAL)
        for split, name in splits.items() if records else ():
            own = [_played(record, split, test, mode) for record in records]
            less = [_played(clones[record.seed], split, test, mode) for record in records]
            found.append(
                Outcome(
                    arm.line, name or arm.along, mode, len(own), success_interval(own),
                    None if trained.splits else _less(arm, records, trainings, mode), paired_difference(own, less),
                )
            )  # fmt: skip
    return found


def _less(arm: Arm, records: Sequence[Record], trainings: Trainings, mode: str) -> Interval | None:
    """A setting less its base, with the seeds that both were trained with."""
    bases = {record.seed: record for record in trainings.of(arm.base, FINAL)} if arm.base else {}
    both = [record for record in records if record.seed in bases]
    if not both:
        return None
    return paired_difference(
        [record.test[mode] for record in both], [bases[record.seed].test[mode] for record in both]
    )  # fmt: skip


def _played(record: Record, split: str, test: str, mode: str) -> str:
    return record.test[mode] if split == test else record.beside[split][mode]


def costs(trained: Trained, trainings: Trainings) -> dict[str, Cost]:
    """Return what every setting that was trained took."""
    found = {arm.setting: trainings.of(arm.setting, FINAL) for arm in trained.arms}
    return {setting: cost_of(records) for setting, records in found.items() if records}


#: Episodes per iteration of every trained run.
_EPISODES = 128
_GROUP_SIZE = 8


def _sized(method: str) -> Iterator[Arm]:
    for size in (2, _GROUP_SIZE, 16):
        same = size == _GROUP_SIZE
        setting = method if same else f"{method} groups={_EPISODES // size} group_size={size}"
        yield Arm(setting, method, str(size), "" if same else method)


def _budgeted(method: str) -> Iterator[Arm]:
    yield Arm(f"{method} token_budget=25000", method, "25,000", method)
    yield Arm(f"{method} token_budget=50000", method, "50,000", method)
    yield Arm(method, method, "100,000")


def _unscaled(method: str) -> Iterator[Arm]:
    yield Arm(method, method, "group")
    yield Arm(f"{method}:std=none", method, "none", method)


_SCALE = "divided by the deviation of"
#: By outcomes, by states, by graphs; with a critic, with a reward model, with continuations.
_TIMED = ("grpo", "gigpo", "hgpo", "rewardflow", "graphgpo", "frontier", "ppo", "istar", "tree_grpo", "vine")
_TWO = (Arm("grpo", "grpo", ""), Arm("graphgpo", "graphgpo", "", "grpo"))
_BOARDS = functools.partial(Trained, "sokoban", tokens=100_000, sizes={"eval_tasks": 256})
_HOUSEHOLDS = Trained(
    "alfworld", _TWO, "split", tokens=100_000, splits={"valid_seen": "seen rooms", "valid_unseen": "unseen rooms"}
)

STUDIES: dict[str, PaperStudy] = {
    study.name: study
    for study in (
        PaperStudy(
            "seen-unseen",
            "Does what is learned hold where training never was?",
            trained=(_BOARDS(_TWO, "split", splits={"train": "cloned levels", "test": "new levels"}), _HOUSEHOLDS),
        ),
        PaperStudy(
            "rollout-budget",
            "What do more rollouts of a task, or of a whole training, bring?",
            trained=(_BOARDS((*_budgeted("grpo"), *_budgeted("graphgpo")), "reply tokens of a run"),),
        ),
        PaperStudy(
            "group-size",
            "How many episodes should a group have, where the number of episodes is given?",
            trained=(_BOARDS((*_sized("grpo"), *_sized("graphgpo")), "episodes of a group"),),
        ),
        PaperStudy(
            "distance",
            "Is a state worth what its nearest success says, or what all successes say in the mean?",
            trained=(
                _BOARDS((
                    Arm("rewardflow", "rewardflow", "nearest"),
                    Arm("rewardflow:aggregate=mean", "rewardflow", "mean", "rewardflow"),
                ), "distance"),
            ),
        ),
        PaperStudy(
            "normalisation",
            "Should advantages be divided by a standard deviation?",
            trained=(_BOARDS((*_unscaled("grpo"), *_unscaled("gigpo"), *_unscaled("graphgpo")), _SCALE),),
        ),
        PaperStudy(
            "cosine-threshold",
            "From which similarity on should texts count as one state?",
        ),
        PaperStudy(
            "adverts",
            "What do adverts between the lines of a page do to credit that compares states?",
        ),
        PaperStudy(
            "graph-statistics",
            "What do the graphs of a group look like, and what is there to compare?",
        ),
        PaperStudy(
            "share-of-time",
            "Where does the time of training go, and how much of it is credit?",
            trained=(_BOARDS(tuple(Arm(method, method, "") for method in _TIMED), "method", shares=True),),
        ),
    )
}  # fmt: skip
