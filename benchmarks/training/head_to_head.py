"""`head-to-head`: which credit method reaches the highest success with the same number of generated tokens?

For each method the same number of settings, drawn from its declared space, is trained once; the one that validates best
is trained with fresh seeds, and these play the test tasks once. All methods of a seed begin with the same clone. A
folder holds, per environment,

    sokoban.json              all finished records, the source of tables, pictures and page
    sokoban/config.json       the configuration; another one needs another folder
    sokoban/data_source.json  the tasks, see `baselines.runs.data_source`
    sokoban/records/          one record per finished run: the same command continues with the others
    sokoban/<run>/            clones, and checkpoints of the current run
    sokoban/report.html       tables and curves; report.md: the same as Markdown
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from agentgym.rollout import Policy
from baselines.config import TRAINING_RULES
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY, EnvSettings
from baselines.runs.config import Config, make_config
from baselines.runs.data_source import DataSource
from baselines.runs.dose import Dose, decisions
from baselines.runs.run import train_policy
from baselines.runs.stack import CLONE, bare_envs, learned_policy, trainer_config
from benchmarks import options
from benchmarks.console import arguments, named, say
from benchmarks.json_files import ResultsError, check_same, load
from benchmarks.options import REFERENCE, SIZES, WHAT, WHERE, check_model, known_env, named_methods, of, on_data
from benchmarks.processes import Progress
from benchmarks.study import Study, Tell, part_name, show_page
from benchmarks.training import evidence, informed, learning, records
from benchmarks.training.head_to_head_page import page, write_between_marks
from benchmarks.training.records import FINAL, SEARCH, Point, Record, Setting, StudyConfig, Trainings
from benchmarks.training.run import STAGES, reporting, scores
from wrappers.credit.method import methods as known_methods

if TYPE_CHECKING:
    from baselines.records.metrics import Row
    from policies.huggingface import HuggingFacePolicy

RECORDS = "records"
#: No run has as many iterations: the budget of tokens ends it.
_ENDLESS = 1_000_000
#: Published methods, of the potential family the estimate that ranks actions best, and the combination of them.
METHODS = ",".join(method.contender for method in known_methods().values() if method.contender)
#: Methods and reply tokens of a run with `--quick`.
_QUICK, _QUICK_BUDGET = ",".join(options.METHODS[:2]), 600
#: Settings per method, and validations per run.
_SETTINGS, _POINTS = 3, 5


class Run(NamedTuple):
    """A clone, a run of the search with the setting that it tries, or a final run with the chosen one (None)."""

    stage: str
    method: str
    seed: int
    setting: Setting | None = None
    factor: str = ""

    @property
    def name(self) -> str:
        """Unique in a study, although two methods may come to the same setting."""
        where = f" at {self.factor}" if self.factor else ""
        return f"{self.method}{'' if self.setting is None else f' as {self.setting.label}'}{where}-seed{self.seed}"

    def within(self, folder: Path) -> Path:
        """Return the folder of all runs with this one's factor."""
        return folder / part_name(self.factor) if self.factor else folder

    def place(self, folder: Path) -> Path:
        """Return the run's own folder."""
        return self.within(folder) / part_name(self._replace(factor="").name)


@dataclass(frozen=True)
class Plan:
    """What is to be run: the configuration, methods in order, seeds of final runs, the data if known, and factors."""

    config: StudyConfig
    methods: list[str]
    seeds: list[int]
    source: DataSource | None = None
    factors: Sequence[str] = ("",)

    def settings(self, method: str) -> list[Setting]:
        """Return the settings that are tried for a method; where nothing is searched, the one that it names."""
        config = self.config
        if not config.settings:
            return [Setting.stated(method)]
        count = min(config.settings, records.size_of(method, config.search))
        return records.draw(method, count, config.learning.training["learning_rate"], config.draw_seed, config.search)

    @functools.cached_property
    def runs(self) -> dict[str, Run]:
        """All runs by name: the search method by method, then final runs seed by seed, each behind its clone."""
        seeds = self.config.search_seeds
        runs = [Run(CLONE, CLONE, seed) for seed in seeds]
        for method in self.methods if seeds else ():
            runs += [Run(SEARCH, method, seed, setting) for setting in self.settings(method) for seed in seeds]
        for seed in self.seeds:
            runs += [Run(CLONE, CLONE, seed), *(Run(FINAL, method, seed) for method in self.methods)]
        every = [run._replace(factor=factor) for factor in self.factors for run in runs]
        return {run.name: run for run in every}

    def searched(self, method: str, factor: str = "") -> list[str]:
        """Return the names of the runs of the search for a method."""
        wanted = SEARCH, method, factor
        return [name for name, run in self.runs.items() if (run.stage, run.method, run.factor) == wanted]

    def needs(self, name: str) -> list[str]:
        """Return the names of the runs that one waits for."""
        run = self.runs[name]
        clone = [] if run.stage == CLONE else [Run(CLONE, CLONE, run.seed, None, run.factor).name]
        return [*clone, *(self.searched(run.method, run.factor) if run.stage == FINAL else ())]

    @property
    def study(self) -> Study[StudyConfig, Record, Trainings]:
        """The study of which every run is a part."""
        return Study(
            name="head-to-head", file=f"../{self.config.name}.json", version=records.VERSION, part="run", record=Record,
            results=Trainings, parts=lambda config: list(self.runs), needs=lambda config, name: self.needs(name),
            run=functools.partial(run_one, self), summary=lambda config, own, folder: {"records": self.gather(folder)},
            page=page, check=records.check, prepare=functools.partial(_prepare, self), processes=True,
            kept=f"{RECORDS}/{{}}.json", source=self.source,
        )  # fmt: skip

    def gather(self, folder: Path) -> list[Record]:
        """Return the records that there are, in the order of the runs; those of other methods and seeds behind."""
        paths = [self.study.path(folder, name) for name in self.runs]
        others = sorted(set((folder / RECORDS).glob("*.json")) - set(paths))
        return [load(Record, path) for path in (*paths, *others) if path.is_file()]


def run_one(plan: Plan, config: StudyConfig, name: str, folder: Path, progress: Progress) -> Record:
    """Do a run in this process, with one thread."""
    run, path = plan.runs[name], plan.study.path
    shared = records.with_factor(config.learning, run.factor)
    if run.stage == CLONE:
        cloned = records.with_factor(config.learning, run.factor, cloning=True)
        return _clone(cloned, shared, run, folder, progress)
    _clear(plan, folder)
    setting = run.setting or plan.settings(run.method)[0]
    if run.stage == FINAL and config.settings:
        searched = [load(Record, path(folder, each)) for each in plan.searched(run.method, run.factor)]
        setting = records.choose(searched, config.judged_points)
    return _train(dataclasses.replace(config, learning=shared), run, setting, folder, progress)


def _clear(plan: Plan, folder: Path) -> None:
    """Delete the checkpoints of finished runs; clones are what others begin with."""
    for name, run in plan.runs.items():
        if run.stage != CLONE and plan.study.path(folder, name).is_file():
            shutil.rmtree(run.place(folder), ignore_errors=True)


def _clone(config: Config, shared: Config, run: Run, folder: Path, progress: Progress) -> Record:
    """Clone as the default benchmark does; `shared`: of the tests, as of the runs that begin with it."""
    folder, seed, part = run.within(folder), run.seed, learning.clone_of(run.seed)
    # Without this seed: its first seed's clone is also drawn for the report.
    learning.STUDY.do(dataclasses.replace(config, seeds=[-1, seed]), folder, part, progress, folder)
    played, policy = learning.STUDY.one(folder, part).scores, _policy(config, folder, seed)
    test, seconds = {each.mode: each.success for each in played}, played[0].seconds
    if shared != config:
        test = _played(shared, policy, CLONE, seed, shared.setup.test)
    beside = {split: _played(shared, policy, CLONE, seed, split) for split in shared.setup.beside}
    return Record(CLONE, CLONE, seed, None, 0, 0, seconds, seconds, {}, [], test, beside, factor=run.factor)


def _train(config: StudyConfig, run: Run, setting: Setting, folder: Path, progress: Progress) -> Record:
    shared, budget, recipe, seed = config.learning, config.token_budget, setting.made(), run.seed
    place = run.place(folder)
    policy, dose = _policy(shared, run.within(folder), seed), Dose(place)
    training = trainer_config(shared, seed, recipe).changed(
        iterations=_ENDLESS, token_budget=budget, checkpoint={"every": 20},
        validation={"every": 0, "tokens": max(1, budget // config.points)},
    )  # fmt: skip
    show = reporting(progress, budget, tokens=True)
    rows, _ = train_policy(
        shared, policy, recipe, training.changed(**setting.training), place, show, dose, tensorboard=False
    )
    found = _record(run, setting, rows)
    found.dose.update(dose.sums(found.iterations))
    if run.stage == FINAL:
        found.dose.update(named(decisions=decisions(shared, policy, seed)))
        found.test.update(_played(shared, policy, run.method, seed, shared.setup.test))
        for split in shared.setup.beside:
            found.beside[split] = _played(shared, policy, run.method, seed, split)
    progress(budget, budget, f"{setting.label}: validation {100 * found.validated():.1f} %")
    return found


def _policy(config: Config, folder: Path, seed: int) -> HuggingFacePolicy:
    """The clone that the runs of a seed begin with."""
    return learned_policy(folder / learning.clone_of(seed) / "model", config.model)


def _played(config: Config, policy: Policy, name: str, seed: int, split: str) -> dict[str, str]:
    """Success on each task of a split, per mode."""
    config = dataclasses.replace(config, setup=dataclasses.replace(config.setup, test=split, beside=[]))
    return {each.mode: each.success for each in scores(config, policy, name, seed)[0]}


def _record(run: Run, setting: Setting, rows: Sequence[Row]) -> Record:
    tokens, processor, curve = 0, 0.0, []
    course: dict[str, list[float]] = {"entropy": [], "episode_length": []}
    since: list[Row] = []
    for row in rows:
        tokens += int(row.get("tokens", 0))
        processor += row.get("seconds_processor", 0.0)
        since += [row] if row["iteration"] else []
        if "validation_greedy_success" in row:
            success = row["validation_sampled_success"], row["validation_greedy_success"]
            curve.append(Point(tokens, round(processor, 2), *(round(value, 4) for value in success)))
            for name, values in course.items() if since else ():
                known = [each[name] for each in since if each.get(name) is not None]
                values.append(round(sum(known) / max(len(known), 1), 4))
            since = []
    last, seconds = rows[-1], rows[-1].get("seconds", 0.0)
    parts = (*STAGES, *["scorer"] * ("seconds_scorer" in last))
    spent = {part: sum(row.get(f"seconds_{part}", 0.0) for row in rows) for part in parts}
    shares = {part: round(each / max(seconds, 1e-9), 4) for part, each in spent.items()}
    return Record(
        run.stage, run.method, run.seed, setting, int(last["iteration"]), tokens, round(seconds, 2),
        round(processor, 2), shares, curve, {}, course=course,
        teacher_replies=int(sum(row.get("teacher_replies", 0) for row in rows)), factor=run.factor,
    )  # fmt: skip


def run_study(plan: Plan, out: Path, *, processes: int, console: Console) -> Trainings:
    """Run what is not finished yet, and write `<out>/<name>.json`, also when interrupted."""
    folder, path = out / plan.config.name, out / f"{plan.config.name}.json"
    if path.is_file():
        check_same(path, records.load(path).config, plan.config)
    return plan.study.play(plan.config, folder, console, processes)


@contextlib.contextmanager
def _prepare(plan: Plan, config: StudyConfig, folder: Path, tell: Tell) -> Iterator[None]:
    """Take over the records of a study that began elsewhere, and write those that there are also when interrupted."""
    study, path = plan.study, folder.parent / f"{config.name}.json"
    if path.is_file():
        _unpack(records.load(path), study, folder)
    # A clone is needed as long as a run begins with it, though its record may be there.
    begun = {(run.factor, run.seed) for name, run in plan.runs.items() if not study.path(folder, name).is_file()}
    for name, run in plan.runs.items():
        if run.stage == CLONE and (run.factor, run.seed) in begun and not (run.place(folder) / "model").exists():
            study.path(folder, name).unlink(missing_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, ResultsError):  # such as final runs whose clone is being made again
            if any(study.path(folder, name).is_file() for name in plan.runs):
                study.save(study.found(config, [], folder), path)
        raise
    finally:
        _clear(plan, folder)


def _unpack(found: Trainings, study: Study[StudyConfig, Record, Trainings], folder: Path) -> None:
    """Take over the records of a study as finished runs, except those with another setting than the chosen one."""
    for record in found.records:
        run = Run(record.stage, record.method, record.seed, record.setting, record.factor)
        if record.stage == FINAL and record.setting == found.chosen(record.method, record.factor):
            run = run._replace(setting=None)  # another one is kept beside the run to come
        if not study.path(folder, run.name).is_file():
            study.keep(record, folder, run.name)


def run_until_settled(plan: Plan, run: Callable[[Plan], Trainings], hours: float, console: Console) -> Trainings:
    """Run more and more seeds until every comparison with the tuned reference is settled, or a budget of time is spent.

    A comparison is settled at a level that is shared by all looks, so that several looks do not raise the chance of a
    false result; see `benchmarks.training.evidence`.
    """
    if REFERENCE not in plan.methods:
        raise typer.BadParameter(f"expected {REFERENCE} among the methods, got {plan.methods}", param_hint="--methods")
    first = plan.seeds[0]
    for count in evidence.LOOKS:
        study = run(dataclasses.replace(plan, seeds=list(range(first, first + count))))
        compared = evidence.compare(study)
        unsettled = [
            f"{each.method} ({'more than 10,000' if each.needed is None else each.needed} seeds for 80 % power)"
            for each in compared
            if each.verdict != evidence.SETTLED
        ]
        spent = sum(record.processor_seconds for record in study.records) / 3600
        words = f"not settled: {', '.join(unsettled)}" if unsettled else "every comparison is settled"
        say(console, f"after {count} seeds and {spent:.2f} processor hours {words}")
        if not unsettled or spent >= hours:
            break
    return study


def plan_study(
    row: EnvSettings, model: str, methods: Sequence[str], seeds: Sequence[int], *, tokens: int | None = None,
    settings: int | None = None, points: int | None = None, quick: bool = False, beside: Sequence[str] = (),
    changes: Mapping[str, int] | None = None, options: Mapping[str, Any] | None = None,
    contexts: Mapping[str, float] | None = None, factors: Sequence[str] = (), **search: int,
) -> Plan:  # fmt: skip
    """Put a plan together; None: the defaults, for `quick` small ones; with `settings` 0 methods are labels.

    `changes` replace sizes of the environment's learning benchmark, but for `quick`. Without `options` of the
    environment, tasks are generated in any case. `contexts` are what the clones learn to read. Everything is done once
    for each of the `factors`. `search` are the fields of `StudyConfig` about seeds.
    """
    row = row if row.with_options is None else row.with_options(row, options or {})
    played = row.played_by(model)
    few: dict[str, int] = {"groups": 2, "group_size": 4, "clone_epochs": 1, "training_tasks": 64, "eval_tasks": 8,
                           "validation_tasks": 4, "clone_tasks": 32 if row.is_known else 0}  # fmt: skip
    sizes = dataclasses.replace(played.quick if quick else played.full, **(few if quick else dict(changes or {})))
    learning = make_config(row, methods=[], seeds=[], model=model, history=None, sizes=sizes)
    # One split, judged once, unless others are asked for.
    setup = dataclasses.replace(learning.setup, kinds="", beside=list(beside), clone_contexts=dict(contexts or {}))
    learning, source = dataclasses.replace(learning, setup=setup), None
    if options is not None:
        learning, source = on_data(learning, row, options)
    config = StudyConfig(
        learning=learning,
        token_budget=tokens or (_QUICK_BUDGET if quick else played.token_budget),
        points=points or (2 if quick else _POINTS),
        settings=(2 if quick else _SETTINGS) if settings is None else settings,
        search=(settings != 0 and played.search) or row.search,
        rules=1 if learning.training["loss.keep_zero"] else TRAINING_RULES,  # the change was in what is left out
        factors=bool(factors),
        **search,
    )
    if both := {*config.search_seeds} & {*seeds}:
        raise typer.BadParameter(f"{min(both)} is a seed of the final runs too", param_hint="--search-seed")
    plan = Plan(config, list(methods), list(seeds), source, tuple(factors) or ("",))
    try:
        for method in plan.methods:
            plan.settings(method)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--settings") from None
    try:
        for factor in factors:
            bare_envs(records.with_factor(learning, factor), 1).close()
    except (TypeError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--factor") from None
    return plan


def head_to_head(
    env: options.Env = "sokoban",
    model: options.Model = TINY,
    option: options.EnvOption = None,
    methods: Annotated[
        str | None, of(WHAT, f"Recipes, options after colons. Default: {METHODS}; quick: {_QUICK}.")
    ] = None,
    seeds: options.FinalSeeds = None,
    tokens: options.Tokens = None,
    settings: Annotated[
        int | None,
        of(
            SIZES,
            f"Settings tried per method, at most its whole space; 0: the environment's. Default: {_SETTINGS}.",
            min=0,
        ),
    ] = None,
    beside: Annotated[str | None, of(WHAT, "Further splits to play, separated by commas.")] = None,
    search_seed: Annotated[int, of(WHAT, "First training seed of the search.", min=0)] = 100,
    search_runs: Annotated[int, of(SIZES, "Seeds per setting of the search.", min=1)] = 1,
    draw_seed: Annotated[int, of(WHAT, "Seed of the drawn settings.", min=0)] = 0,
    until: Annotated[
        str | None,
        of(
            SIZES,
            f"settled: add seeds from the first of --seeds, with looks after {', '.join(map(str, evidence.LOOKS))}, "
            f"until every comparison with {REFERENCE.upper()} is settled or --hours are spent.",
        ),
    ] = None,
    hours: Annotated[float, of(SIZES, "Processor hours of training after which --until ends.", min=0.0)] = 2.0,
    rebuilt: Annotated[list[Path] | None, of(WHERE, "Train nothing: read these folders.", "--from")] = None,
    pages: Annotated[Path | None, of(WHERE, "Also write into Markdown pages of this folder, between marks.")] = None,
    privileged: Annotated[
        bool,
        of(
            WHAT,
            "Train the methods of privileged contexts with the right, the wrong and another task's context. Clones "
            "read contexts, nothing is searched, and --methods are settings, such as "
            f"'{REFERENCE} learning_rate=0.0008'.",
            "--privileged",
        ),
    ] = False,
    factor: Annotated[
        list[str] | None,
        of(
            WHAT,
            "Do everything once with this change: an environment's option such as wrong=back, a size such as "
            "group_size=4, or adviser=NAME, who is cloned. May be given several times.",
        ),
    ] = None,
    quick: options.Quick = False,
    jobs: options.Jobs = None,
    out: options.Out = None,
) -> None:
    """Train every method with the same token budget and the same search, and compare them on test tasks.

    Prints outcomes and verdicts, and writes ENV.json with every record, and a page into ENV. The same command continues
    after Ctrl-C with the missing runs.
    """
    console = Console()
    if until not in (None, "settled"):
        raise typer.BadParameter(f"expected 'settled', got {until!r}", param_hint="--until")
    place = out or Path("runs") / ("head-to-head-quick" if quick else "head-to-head")
    with options.finished_runs_kept(quick):
        if rebuilt:
            options.nothing_trained(quick, methods, seeds, tokens, settings, beside, jobs, option, until, factor)
            studies = records.load_folders(*rebuilt)
        else:
            plan = plan_study(
                settings_of(known_env(env)), check_model(model),
                informed.labels(methods) if privileged else named_methods(methods or (_QUICK if quick else METHODS)),
                options.final_seeds(seeds, quick), tokens=tokens, settings=0 if privileged else settings,
                search_seed=search_seed, search_runs=search_runs, draw_seed=draw_seed, quick=quick,
                beside=beside.split(",") if beside else (), options=arguments(option or ()),
                contexts=informed.CONTEXTS if privileged else None, factors=factor or (),
            )  # fmt: skip
            run = functools.partial(run_study, out=place, processes=options.processes(jobs, quick), console=console)
            studies = [run(plan) if until is None else run_until_settled(plan, run, hours, console)]
        for study in studies:
            show_page(page(study), None if pages or not study.methods else place / study.config.name, console)
            for words in study.left_out():
                say(console, words, "yellow")
        for path in write_between_marks(studies, pages) if pages else ():
            say(console, f"written: {path}")
