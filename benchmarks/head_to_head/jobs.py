"""The runs of a head to head, each in a process: clones, the search, the final runs. Each leaves one record.

A record appears whole or not at all, and its run is never done again; an interrupted run goes on from its checkpoint.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.trajectory import StepTable
from baselines.environments.settings import TINY
from benchmarks import json_files
from benchmarks.data_source import DataSource
from benchmarks.head_to_head.results import FINAL, SEARCH, VERSION, Point, Record, Study, StudyConfig, check, choose
from benchmarks.head_to_head.space import Setting, draw
from benchmarks.learning.jobs import about, read_finished, run_job, score
from benchmarks.machine import describe_machine
from benchmarks.processes import Job, Progress
from benchmarks.training.stack import (
    CLONE,
    GREEDY,
    SAMPLED,
    make_envs,
    trainer_config,
    training_tasks,
    validation_tasks,
)

if TYPE_CHECKING:
    from agentgym.rollout import Policy
    from baselines.config import TrainerConfig
    from baselines.metrics import Row
    from baselines.trainer import Trainer
    from benchmarks.config import Config
    from policies.huggingface import HuggingFacePolicy

RECORDS = "records"
#: No run has as many iterations: the budget of tokens ends it.
_ENDLESS = 1_000_000
_PARTS = ("environment", "generation", "credit", "update")


@dataclass(frozen=True)
class Plan:
    """What is to be run: the configuration, methods in order, seeds of the final runs, and the data, if known."""

    config: StudyConfig
    methods: list[str]
    seeds: list[int]
    source: DataSource | None = None

    def settings(self, method: str) -> list[Setting]:
        """Return the settings that are tried for a method; where nothing is searched, the one that it names.

        Raises:
            ValueError: its space has fewer, or it names none.
        """
        config = self.config
        if not config.settings:
            return [Setting.stated(method)]
        return draw(method, config.settings, config.learning.training["learning_rate"], config.draw_seed)

    def search_jobs(self, method: str) -> list[Job]:
        """Return the runs of the search for one method; none where nothing is searched."""
        if not self.config.settings:
            return []
        return [search_job(method, self.config.search_seed, setting) for setting in self.settings(method)]

    def jobs(self) -> list[Job]:
        """Return all runs: the search method by method, then final runs seed by seed, each behind its clone."""
        jobs = [Job(CLONE, self.config.search_seed)] if self.config.settings else []
        jobs += [job for method in self.methods for job in self.search_jobs(method)]
        for seed in self.seeds:
            jobs += [Job(CLONE, seed), *(Job(FINAL, seed, method) for method in self.methods)]
        return jobs

    def needed(self, job: Job) -> list[Job]:
        """Return the runs that a run waits for."""
        if job.kind == CLONE:
            return []
        clone = Job(CLONE, job.seed)
        return [clone] if job.kind == SEARCH else [clone, *self.search_jobs(job.method)]


def search_job(method: str, seed: int, setting: Setting) -> Job:
    """Return the run of the search that tries a setting for a method; two methods may come to the same setting."""
    return Job(SEARCH, seed, f"{method} as {setting.label}")


def record_path(folder: Path, job: Job) -> Path:
    """Where a run leaves its record."""
    return folder / RECORDS / f"{job.name}.json"


def run_one(plan: Plan, folder: Path, job: Job, progress: Progress) -> None:
    """Do a run in this process, with one thread, and write its record."""
    if job.kind == CLONE:
        # As a benchmark without this seed: its first seed's clone is also drawn for the report.
        run_job(dataclasses.replace(plan.config.learning, seeds=[-1]), folder, job, progress)
        scores = {score.mode: score for score in read_finished(folder, job).scores}
        test = {mode: scores[mode].success for mode in (GREEDY, SAMPLED)}
        seconds, beside = scores[GREEDY].seconds, {}
        if plan.config.learning.setup.beside:
            beside = _beside(plan.config.learning, _policy(plan, folder, job.seed), CLONE, job.seed)
        record = Record(CLONE, CLONE, job.seed, None, 0, 0, seconds, seconds, {}, [], test, beside)
    else:
        record = _train(plan, folder, job, progress)
    path = record_path(folder, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    json_files.write_json(record, path)
    if job.kind != CLONE:
        shutil.rmtree(folder / job.name, ignore_errors=True)


def gather(plan: Plan, folder: Path) -> Study:
    """Put the records together that there are, in the order of the runs; those of other methods and seeds behind."""
    paths = [record_path(folder, job) for job in plan.jobs()]
    others = sorted(set((folder / RECORDS).glob("*.json")) - set(paths))
    records = [json_files.load(Record, path) for path in (*paths, *others) if path.is_file()]
    study = Study(VERSION, describe_machine(), plan.config, records)
    check(study)
    return study


def _train(plan: Plan, folder: Path, job: Job, progress: Progress) -> Record:
    import torch
    import transformers

    from baselines.trainer import Trainer

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    method, setting = _asked(plan, folder, job)
    config, budget, recipe = plan.config.learning, plan.config.token_budget, setting.made()
    policy = _policy(plan, folder, job.seed)
    training = _training(plan, trainer_config(config, job.seed, recipe), setting)

    def report(trainer: Trainer, _: StepTable | None, row: Row) -> None:
        words = f"rollouts {100 * row['success']:.0f} %" if "success" in row else "start"
        progress(min(trainer.tokens, budget), budget, words)

    trainer = Trainer(
        policy, make_envs(config, max(training.groups * training.group_size, config.validation_tasks)), recipe,
        training_tasks(config), training, validation_tasks=validation_tasks(config),
        folder=folder / job.name, resume=True,
    )  # fmt: skip
    trainer.log.about = about(folder)
    rows = trainer.run(report)
    found = _record(job, method, setting, rows)
    if job.kind == FINAL:
        test = _played(config, policy, method, job.seed)
        found = dataclasses.replace(found, test=test, beside=_beside(config, policy, method, job.seed))
    progress(budget, budget, f"{setting.label}: validation {100 * found.validated:.1f} %")
    return found


def _policy(plan: Plan, folder: Path, seed: int) -> HuggingFacePolicy:
    """The clone that the runs of a seed begin with."""
    from policies.huggingface import HuggingFacePolicy

    device = "cpu" if plan.config.learning.model == TINY else None
    return HuggingFacePolicy.from_pretrained(folder / Job(CLONE, seed).name / "model", device=device)


def _played(config: Config, policy: Policy, name: str, seed: int) -> dict[str, str]:
    """Success on each test task, per mode."""
    return {mode: score(config, policy, name, seed, mode, 0.0)[0].success for mode in (GREEDY, SAMPLED)}


def _beside(config: Config, policy: Policy, name: str, seed: int) -> dict[str, dict[str, str]]:
    """The same on the splits beside the test split."""
    found = {}
    for split in config.setup.beside:
        setup = dataclasses.replace(config.setup, test=split, beside=[])
        found[split] = _played(dataclasses.replace(config, setup=setup), policy, name, seed)
    return found


def _asked(plan: Plan, folder: Path, job: Job) -> tuple[str, Setting]:
    """Method and setting of a run: of the search the one that is asked for, of a final run the one that was chosen."""
    if job.kind == SEARCH:
        return next(
            (method, setting) for method in plan.methods for setting in plan.settings(method)
            if search_job(method, job.seed, setting) == job
        )  # fmt: skip
    if not plan.config.settings:
        return job.method, plan.settings(job.method)[0]
    searched = [json_files.load(Record, record_path(folder, each)) for each in plan.search_jobs(job.method)]
    return job.method, choose(searched)


def _training(plan: Plan, common: TrainerConfig, setting: Setting) -> TrainerConfig:
    budget = plan.config.token_budget
    validation = {"every": 0, "tokens": max(1, budget // plan.config.points)}
    ended = common.changed(iterations=_ENDLESS, token_budget=budget, validation=validation, checkpoint={"every": 20})
    return ended.changed(**setting.training)


def _record(job: Job, method: str, setting: Setting, rows: Sequence[Row]) -> Record:
    tokens, processor, curve = 0, 0.0, []
    for row in rows:
        tokens += int(row.get("tokens", 0))
        processor += row.get("seconds_processor", 0.0)
        if "validation_greedy_success" in row:
            success = row["validation_sampled_success"], row["validation_greedy_success"]
            curve.append(Point(tokens, round(processor, 2), *(round(value, 4) for value in success)))
    seconds = rows[-1].get("seconds", 0.0)
    parts = (*_PARTS, "scorer") if "seconds_scorer" in rows[-1] else _PARTS
    shares = {
        part: round(sum(row.get(f"seconds_{part}", 0.0) for row in rows) / max(seconds, 1e-9), 4) for part in parts
    }
    iterations = int(rows[-1]["iteration"])
    return Record(
        job.kind, method, job.seed, setting, iterations, tokens, round(seconds, 2), round(processor, 2), shares, curve,
        {},
    )  # fmt: skip
