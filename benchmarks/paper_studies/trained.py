"""The part of a study that trains: settings of the head to head, all from the same clones, without a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from baselines.environments.registry import settings_of
from benchmarks.head_to_head.jobs import Plan
from benchmarks.head_to_head.results import FINAL, Record, load_folder
from benchmarks.head_to_head.results import Study as Trainings
from benchmarks.head_to_head.study import plan_study, run_study
from benchmarks.head_to_head.table import Cost, cost_of
from benchmarks.paper_studies.description import Arm, Study, Trained
from benchmarks.paper_studies.results import VERSION, Found, load
from benchmarks.statistics import Interval, paired_difference, success_interval
from benchmarks.training.stack import CLONE

#: Folder of all runs that play the test split alone, and of those that play further ones. Studies share runs.
_PLAIN, _SPLITS = "trained", "trained-splits"


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


def found_in(study: Study, folder: Path) -> Found:
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


def parts(study: Study, found: Sequence[Trainings]) -> list[tuple[Trained, Trainings]]:
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
