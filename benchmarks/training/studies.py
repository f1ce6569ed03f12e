"""The papers' smaller questions that training answers: `benchmarks.run study NAME`.

Runs are those of the head to head, without a search, from the same clones. A folder holds

    <name>.json     what a study found: its tables and picture are made of it
    <name>/         its page
    trained/        runs of all studies, see `benchmarks.training.head_to_head`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from agentgym.outside.text import tables_beside
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.runs.stack import CLONE, SAMPLED
from benchmarks import json_files, options
from benchmarks.console import NONE
from benchmarks.options import WHERE, of
from benchmarks.report.page import Figure, Page, Table, put
from benchmarks.report.panels import Panel, draw
from benchmarks.statistics import Interval, percent
from benchmarks.study import show_page
from benchmarks.training import records
from benchmarks.training.head_to_head import Plan, plan_study, run_study
from benchmarks.training.head_to_head_page import INTERVALS, MODES, difference, success
from benchmarks.training.records import FINAL, Record, Trainings

VERSION = 1
#: Folder of all runs, which studies share.
_RUNS = "trained"


@dataclass(frozen=True)
class Arm:
    """One setting that is trained, its place in the picture, and the setting that it is compared with ("": none)."""

    setting: str
    line: str
    along: str
    base: str = ""


@dataclass(frozen=True)
class PaperStudy:
    """One study: what is trained from the same clones, with the head to head's runs.

    `along` is what the horizontal axis is called; `tokens` are those of a run, unless its setting says otherwise;
    `sizes` replace those of the environment's learning benchmark.
    """

    name: str
    question: str
    arms: tuple[Arm, ...]
    along: str
    env: str = "sokoban"
    tokens: int = 100_000
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def command(self) -> Callable[..., None]:

        def command(
            quick: options.Quick = False,
            model: options.Model = TINY,
            seeds: options.FinalSeeds = None,
            tokens: options.Tokens = None,
            jobs: options.Jobs = None,
            page: Annotated[Path | None, of(WHERE, "Also write the picture into this page, between marks.")] = None,
            rebuilt: Annotated[Path | None, of(WHERE, "Train nothing: read this folder.", "--from")] = None,
            out: options.Out = None,
        ) -> None:
            """QUESTION.

            Prints the table, and writes NAME.json and a page. The same command continues after Ctrl-C; studies share
            their runs.
            """
            console, place = Console(), out or Path("runs") / ("studies-quick" if quick else "studies")
            with options.finished_runs_kept(quick):
                if rebuilt:
                    options.nothing_trained(quick, seeds, tokens, jobs)
                    found = load(rebuilt / f"{self.name}.json")
                else:
                    every = options.final_seeds(seeds, quick)
                    plan = plan_of(self, options.check_model(model), every, tokens=tokens or 0, quick=quick)
                    done = run_study(plan, place / _RUNS, processes=options.processes(jobs, quick), console=console)
                    found = Found(VERSION, self.name, [only(done, plan)])
                    json_files.write_json(found, place / f"{self.name}.json")
                trained, picture = found.trained[0], f"study_{self.name.replace('-', '_')}.png"
                drawn = Figure(f"{self.name}.png", self.question, lambda: draw([panel(self, trained)]))
                shown = Page(self.question, self.question, [table(self, trained)], figures=[drawn])
                written: list[Path] = []
                if page:
                    text = f"![{self.question}](images/{picture})\n"  # the site and `--from` show the table
                    written = put(text, self.name, page, page.parent / "images", {picture: drawn.draw()})
                show_page(shown, place / self.name, console, *written)

        command.__doc__ = (command.__doc__ or "").replace("QUESTION.", self.question)
        return command


def plan_of(study: PaperStudy, model: str, seeds: Sequence[int], *, tokens: int = 0, quick: bool = False) -> Plan:
    """Return what is to be run."""
    arms = study.arms[:2] if quick else study.arms
    return plan_study(
        settings_of(study.env), model, [arm.setting for arm in arms], seeds,
        tokens=None if quick else tokens or study.tokens, settings=0, points=1, changes=study.sizes, quick=quick,
    )  # fmt: skip


def only(trainings: Trainings, plan: Plan) -> Trainings:
    """Return the records of a plan's methods and seeds, and of their clones: other studies have runs beside them."""
    methods = {CLONE, *plan.methods}
    kept = [record for record in trainings.records if record.seed in plan.seeds and record.method in methods]
    return dataclasses.replace(trainings, records=kept)


def by_arm(study: PaperStudy, trainings: Trainings) -> list[tuple[Arm, list[Record]]]:
    """Return the clones, whose arm has no setting, and the runs of each arm that was trained."""
    found = [(Arm("", CLONE, ""), trainings.clones)]
    found += [(arm, trainings.of(arm.setting, FINAL)) for arm in study.arms]
    return [(arm, runs) for arm, runs in found if runs]


def table(study: PaperStudy, trainings: Trainings) -> Table:
    """Return the table of what a study trained."""
    shown = [f"{mode}{what}" for what in (" %", " - clone", " - base") for mode in MODES]
    lines, clones = [], trainings.clones
    for arm, runs in by_arm(study, trainings):
        line = [arm.line, arm.along or NONE, str(len(runs)), *(percent(success(runs, mode)) for mode in MODES)]
        for others in (clones if arm.setting else [], trainings.of(arm.base, FINAL) if arm.base else []):
            line += [difference(runs, others, mode) for mode in MODES]
        lines.append(line)
    bases = dict.fromkeys(arm.along for arm in study.arms if any(arm.setting == other.base for other in study.arms))
    learning = trainings.config.learning
    caption = (
        f"{trainings.config.name}: success on {learning.eval_tasks} tasks in percent, with {INTERVALS}; differences in "
        f"points, paired over seeds. {trainings.config.token_budget:,} reply tokens a run, "
        f"temperature {learning.temperature:g}, {learning.groups} tasks x {learning.group_size} episodes an "
        f"iteration, clones of {learning.clone_tasks} expert episodes. Base: the same line at {', '.join(bases)}."
    )
    return Table(trainings.config.name, ["setting", study.along, "seeds", *shown], lines, caption)


def panel(study: PaperStudy, trainings: Trainings) -> Panel:
    """Return the panel of what a study trained: success over its settings."""
    lines: dict[str, dict[str, Interval]] = {}
    places = list(dict.fromkeys(arm.along for arm in study.arms))
    for arm, runs in by_arm(study, trainings):
        won = success(runs, SAMPLED)
        shown = Interval(100 * won.mean, 100 * won.low, 100 * won.high)
        # The clone has no place of its own: all runs play the same tasks, and it stands everywhere.
        lines.setdefault(arm.line, {}).update(dict.fromkeys([arm.along] if arm.along else places, shown))
    return Panel(f"{trainings.config.name}: trained, sampled play", study.along, "success [%]", lines)


@dataclass(frozen=True)
class Found:
    """The whole file: one `Trainings`; what older records have in `against` is not read."""

    version: int
    study: str
    trained: list[Trainings]
    against: Any = None


def load(path: Path) -> Found:
    """Read and check."""
    return json_files.load(Found, path, version=VERSION, check=lambda found: records.check(found.trained[0]))


def _arms(methods: Sequence[str], settings: Mapping[str, str]) -> tuple[Arm, ...]:
    """Return a line for each method: by place on it what follows the method's name, "" in the base of the others."""
    return tuple(
        Arm(method + words, method.partition(" ")[0], along, method if words else "")
        for method in methods
        for along, words in settings.items()
    )


#: Every study, by its name.
STUDIES: dict[str, PaperStudy] = {
    row["name"]: PaperStudy(arms=_arms(row.pop("methods"), row.pop("settings")), **row)
    for row in tables_beside(__file__, "studies.toml")["study"]
}
