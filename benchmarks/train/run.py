"""One training run: the policy, the trainer, what is shown while it runs, and what it leaves."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import transformers
from rich.console import Console

from agentgym.trajectory import StepTable
from baselines.callbacks import Samples, Tracker
from baselines.checkpoint import best_policies, checkpoints, save_policy
from baselines.environments.settings import SMOLLM2, TINY
from baselines.metrics import Row
from baselines.trainer import FINAL_FOLDER, Callback, Trainer
from benchmarks.console import Report, shown
from benchmarks.data_source import hand_on
from benchmarks.processes import Job
from benchmarks.train.engine import ENGINE_FOLDER, Engine
from benchmarks.train.report import write_report
from benchmarks.train.settings import RunSettings
from benchmarks.training.stack import keep_pictures, make_envs, make_lanes, new_policy, training_tasks, validation_tasks

#: An adapter and its base as one model.
MERGED_FOLDER = "merged"
_STAGES = ("environment", "generation", "credit", "update")


def run_training(
    settings: RunSettings,
    folder: Path,
    console: Console,
    *,
    tracker: str = "none",
    project: str = "stepcredit",
    engine: Engine | None = None,
    lanes: int = 1,
) -> Path:
    """Train, or go on where an earlier run of the same settings was stopped, and return the path of its page.

    Args:
        settings: of the run.
        folder: gets checkpoints, log, samples, the final policy and the page.
        console: shows the progress.
        tracker: "none", "wandb" or "trackio".
        project: of the tracker.
        engine: who writes the replies; None: the loop over the model itself.
        lanes: into which the episodes that are played side by side are divided.

    Raises:
        OtherConfigurationError: the folder holds a run on other data.
    """
    from policies.lora import LoraSettings, add_lora, merge_lora
    from policies.vision.policy import VisionPolicy

    transformers.utils.logging.disable_progress_bar()  # whoever writes models here shows the run's progress
    config, engine = settings.config, engine or Engine()
    engine.check(config.lora)
    if settings.source is not None:
        settings.source.note(folder)
    policy: Any = new_policy(config, config.seeds[0])
    if engine.kind != "loop" and isinstance(policy, VisionPolicy):  # said before the engine is started
        raise ValueError(
            f"--engine {engine.kind} is not given the pictures of prompts: leave --engine out for models that see"
        )
    if settings.training.rollout.staleness:
        keep_pictures(policy, folder)
    given = {
        "max_new_tokens": settings.reply_tokens, "max_prompt_tokens": settings.prompt_tokens,
        "truncate": settings.truncate,
    }  # fmt: skip
    policy = policy.with_settings(**{name: value for name, value in given.items() if value is not None})
    stored = None if config.model in (TINY, SMOLLM2) else Path(config.model)
    sampler = engine.sampler(policy, folder, lora=config.lora, stored=stored, resumed=bool(checkpoints(folder)))
    if sampler is not None:
        policy = policy.with_sampler(sampler)
    if config.lora:
        policy = add_lora(policy, LoraSettings(config.lora, 2.0 * config.lora), seed=config.seeds[0])
    training = settings.training
    places = max(training.groups * training.group_size, config.validation_tasks)
    how: Any = {"own": settings.method.own_env, "training": True}
    envs: Any = make_envs(config, places, **how) if lanes == 1 else make_lanes(config, places, lanes, **how)
    trainer = Trainer(
        policy, envs, settings.method,
        training_tasks(config), training, validation_tasks=validation_tasks(config),
        folder=folder, resume=True, tensorboard=True,
    )  # fmt: skip
    if settings.source is not None:
        trainer.log.about = settings.source.about
    with contextlib.ExitStack() as stack:
        job = Job("method", training.seed, config.methods[0])
        report = stack.enter_context(shown([job], console))
        callbacks: list[Callback] = [Samples(folder), _progress(job, report, training.iterations)]
        if tracker != "none":
            package: Any = tracker
            callbacks.append(stack.enter_context(Tracker(package, project=project, name=folder.name)))
        try:
            trainer.run(*callbacks)
        finally:
            shutil.rmtree(folder / ENGINE_FOLDER, ignore_errors=True)
    if config.lora:
        save_policy(merge_lora(policy), folder / MERGED_FOLDER)
    for model in (folder / FINAL_FOLDER, folder / MERGED_FOLDER, *best_policies(folder)):
        hand_on(folder, model)
    return write_report(folder, settings)


def _progress(job: Job, report: Report, iterations: int) -> Callback:
    validated = ""

    def show(trainer: Trainer, table: StepTable | None, row: Row) -> None:
        nonlocal validated
        if "validation_greedy_success" in row:
            validated = f", validation {100 * row['validation_greedy_success']:.0f} %"
        words = "start"
        if "success" in row:
            words = f"success {100 * row['success']:.0f} %"
        shares = [f"{stage} {row[f'share_{stage}']:.0f} %" for stage in _STAGES if f"share_{stage}" in row]
        times = f"; {', '.join(shares)}" if shares else ""
        report(job, int(row["iteration"]), iterations, words + validated + times)

    return show
