"""The pieces of a learning benchmark, each one process: references, clones, training runs.

Every job writes what it found to `<its folder>/finished.json`; a finished job is never run again, so that the same
command goes on where it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.rollout import Policy
from agentgym.trajectory import Floats, StepTable
from baselines.checkpoint import save_policy
from baselines.environments.settings import TINY, tasks
from baselines.evaluation import Evaluation, evaluate
from benchmarks import json_files
from benchmarks.config import Config
from benchmarks.data_source import hand_on, noted
from benchmarks.learning.results import CurvePoint, Episode, KindScore, Run, Score
from benchmarks.learning.showcase import clone_graphs, show_episodes, trained_graph
from benchmarks.processes import Job, Progress
from benchmarks.training.stack import (
    CLONE,
    EXPERT,
    GREEDY,
    RANDOM,
    SAMPLED,
    cloning,
    held_out_tasks,
    imitation_setting,
    keep_pictures,
    make_envs,
    new_policy,
    trainer_config,
    training_tasks,
    validation_tasks,
)
from benchmarks.training.state_graph import Graph

if TYPE_CHECKING:
    from baselines.recipes.definition import OwnEnv

FINISHED = "finished.json"
_EVALUATION_SEED = 10_000


@dataclass
class Found:
    """What one job found; `task` is the index of the training task whose state graphs are shown."""

    scores: list[Score] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    kinds: list[KindScore] = field(default_factory=list)
    task: int | None = None


def all_jobs(config: Config) -> list[Job]:
    """Clones first (everything waits for them), then references, then training runs seed by seed."""
    clones = [Job("clone", seed) for seed in config.seeds]
    runs = [Job("method", seed, method) for seed in config.seeds for method in config.methods]
    return [*clones, Job("references"), *runs]


def is_finished(folder: Path, job: Job) -> bool:
    """Whether the job's result is on disk."""
    return (folder / job.name / FINISHED).is_file()


def read_finished(folder: Path, job: Job) -> Found:
    """What the job wrote."""
    return json_files.load(Found, folder / job.name / FINISHED)


def run_job(config: Config, folder: Path, job: Job, progress: Progress) -> None:
    """Do the job in this process, with one thread, and write its result."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()  # whoever started the process draws the bars
    place = folder / job.name
    place.mkdir(parents=True, exist_ok=True)
    work = {"references": _references, "clone": _clone, "method": _method}[job.kind]
    found = work(config, folder, job, progress)
    json_files.write_json(found, place / FINISHED)


def cloned(config: Config, folder: Path, seed: int, tell: Callable[[str], None] = lambda words: None) -> Path:
    """Return the job folder of a clone, which is learned first where it is not there yet.

    Args:
        config: of the learning benchmark that the folder is for; one of its seeds is the clone's.
        folder: created when missing.
        seed: of the clone.
        tell: is told that it is learned.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
    """
    job = Job("clone", seed)
    with json_files.claimed(folder, config):
        if not is_finished(folder, job):
            tell("cloning the expert")
            run_job(config, folder, job, lambda done, total, words: None)
    return folder / job.name


def score(
    config: Config, policy: Policy, name: str, seed: int, mode: str, seconds: float, own: OwnEnv | None = None
) -> tuple[Score, list[KindScore]]:
    """Play all test tasks once, and those of the splits beside. `mode` is for policies that have a temperature.

    Where the method has an environment of its own, they are played there.

    Returns:
        The score on the test tasks, and for every split the score kind by kind; none where there are no kinds.
    """
    setup, kinds = config.setup, []
    played = _play(config, policy, name, seed, mode, setup.test, own)
    for split in (setup.test, *setup.beside) if setup.kinds else ():
        beside = played if split == setup.test else _play(config, policy, name, seed, mode, split, own)
        by_kind = beside.success_by(setup.kinds)
        won = {label: int(success.sum()) for label, success in by_kind.items()}
        kinds.append(
            KindScore(name, seed, mode, split, won, {label: success.size for label, success in by_kind.items()})
        )
    summary = played.summary()
    success = "".join("1" if won else "0" for won in played.success[:, 0])
    found = Score(
        name, seed, mode, success, summary["mean_return"], summary["episode_length"], summary["invalid_rate"], seconds
    )  # fmt: skip
    return found, kinds


def _scores(config: Config, policy: Policy, name: str, seed: int, seconds: float, own: OwnEnv | None = None) -> Found:
    """Scores of greedy and of sampled play."""
    both = [score(config, policy, name, seed, mode, seconds, own) for mode in (GREEDY, SAMPLED)]
    return Found([found for found, _ in both], kinds=[item for _, kinds in both for item in kinds])


def _play(
    config: Config, policy: Policy, name: str, seed: int, mode: str, split: str, own: OwnEnv | None
) -> Evaluation:
    temperature = None
    if name not in (RANDOM, EXPERT):
        temperature = 0.0 if mode == GREEDY else config.temperature
    kind = config.setup.kinds
    return evaluate(
        make_envs(config, config.eval_tasks, expert=name == EXPERT, own=own), policy, held_out_tasks(config, split),
        seed=_EVALUATION_SEED + seed, temperature=temperature, columns=(kind,) if kind else (),
    )  # fmt: skip


def _references(config: Config, folder: Path, job: Job, progress: Progress) -> Found:
    from policies.scripted import ExpertPolicy, RandomPolicy

    total = 2 * len(config.seeds)
    scores: list[Score] = []
    kinds: list[KindScore] = []
    for seed in config.seeds:
        for name, policy, mode in ((RANDOM, RandomPolicy(), SAMPLED), (EXPERT, ExpertPolicy(), GREEDY)):
            found, by_kind = score(config, policy, name, seed, mode, 0.0)
            scores.append(found)
            kinds += by_kind
            progress(len(scores), total, f"{name} {_share(scores[-1])}")
    episodes = show_episodes(config, RandomPolicy(), RANDOM) + show_episodes(config, ExpertPolicy(), EXPERT)
    return Found(scores, episodes=episodes, kinds=kinds)


def _clone(config: Config, folder: Path, job: Job, progress: Progress) -> Found:
    from baselines.imitation.cloning import clone

    policy = new_policy(config, job.seed)
    started = time.perf_counter()
    if config.clone_tasks:
        history = clone(
            policy, make_envs(config, config.clone_tasks, expert=True), tasks(config.setup.train, config.clone_tasks),
            seed=job.seed, progress=lambda done, total: progress(done, total, "learning from the expert"),
            enough=_looking(config, policy, job.seed), **cloning(config),
        ).history  # fmt: skip
        json_files.write_json(history, folder / job.name / "cloning.json")
    seconds = time.perf_counter() - started
    model = folder / job.name / "model"
    save_policy(policy, model)
    hand_on(folder, model)
    found = _scores(config, policy, CLONE, job.seed, seconds)
    progress(1, 1, _both(found))
    if job.seed == config.seeds[0]:
        found.task, found.graphs = clone_graphs(config, policy, job.seed)
        found.episodes = show_episodes(config, policy.with_settings(temperature=0.0), CLONE)
    return found


def _looking(config: Config, policy: Any, seed: int) -> Callable[[int], bool] | None:
    """Return what says when a clone is as good as is asked for."""
    setup = config.setup
    if not setup.clone_until:
        return None
    envs, chosen = make_envs(config, config.validation_tasks), validation_tasks(config)

    def enough(done: int) -> bool:
        if done < setup.look_from or (done - setup.look_from) % setup.look_every:
            return False
        return evaluate(envs, policy, chosen, seed=seed, temperature=0.0).success_rate >= setup.clone_until

    return enough


def _method(config: Config, folder: Path, job: Job, progress: Progress) -> Found:
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of
    from baselines.watch import kept_in, told
    from policies.lora import LoraSettings, add_lora, merge_lora
    from policies.vision.policy import load_policy

    start, method = Job("clone", job.seed), method_of(job.method)
    device = "cpu" if config.model == TINY else None
    policy = load_policy(folder / start.name / "model", device=device)
    if isinstance(method, Imitation) or config.training.get("rollout.staleness"):
        keep_pictures(policy, folder / job.name)
    if config.lora:
        policy = add_lora(policy, LoraSettings(config.lora, 2.0 * config.lora), seed=job.seed)
    warm_start = read_finished(folder, start).scores[0].seconds
    if isinstance(method, Imitation):
        rows, estimate = _in_rounds(config, folder, job, policy, method, progress)
    else:
        rows, estimate = _by_credit(config, folder, job, policy, method, progress)
    if config.lora:
        save_policy(policy, folder / job.name / "adapter")
        policy = merge_lora(policy)
    save_policy(policy, folder / job.name / "model")
    hand_on(folder, folder / job.name / "model")
    seconds = float(rows[-1].get("seconds", 0.0))
    own = getattr(method, "own_env", None)
    found = _scores(config, policy, job.method, job.seed, warm_start + seconds, own)
    progress(1, 1, _both(found))
    curve = [
        CurvePoint(
            int(row["iteration"]), float(row.get("seconds", 0.0)),
            float(row["validation_sampled_success"]), float(row["validation_greedy_success"]),
        )
        for row in rows
        if "validation_greedy_success" in row
    ]  # fmt: skip
    found.runs = [Run(job.method, job.seed, seconds, curve, told(rows, kept_in(folder / job.name)))]
    if job.seed == config.seeds[0]:
        task = read_finished(folder, start).task
        assert task is not None  # the clone of the first seed has chosen one
        found.graphs = [trained_graph(config, policy, estimate, job.method, job.seed, task, own)]
        found.episodes = show_episodes(config, policy.with_settings(temperature=0.0), job.method, own)
    return found


#: Rows of the log, and what gives advantages to a table at the end of training.
_Trained = tuple[list[dict[str, float]], Callable[[StepTable], Floats]]


def _by_credit(config: Config, folder: Path, job: Job, policy: Any, method: Any, progress: Progress) -> _Trained:
    """Train by reinforcement learning with a credit recipe."""
    from baselines.trainer import Trainer

    validated = ""

    def report(_: Trainer, __: StepTable | None, row: dict[str, float]) -> None:
        nonlocal validated
        if "validation_greedy_success" in row:
            validated = f", validation {100 * row['validation_greedy_success']:.0f} %"
        rollouts = f"rollouts {100 * row['success']:.0f} %" if "success" in row else "start"
        progress(int(row["iteration"]), config.steps, rollouts + validated)

    places = max(config.groups * config.group_size, config.validation_tasks)
    trainer = Trainer(
        policy, make_envs(config, places, own=method.own_env, training=True), method,
        training_tasks(config), trainer_config(config, job.seed, method),
        validation_tasks=validation_tasks(config),
        folder=folder / job.name, resume=True, tensorboard=True,
    )  # fmt: skip
    trainer.log.about = about(folder)
    rows = trainer.run(report)
    return rows, lambda table: trainer.learner.estimate(table)[1].advantages


def _in_rounds(config: Config, folder: Path, job: Job, policy: Any, method: Any, progress: Progress) -> _Trained:
    """Train by a method of imitation, on the tasks that were cloned."""
    from baselines.imitation.rounds import train_in_rounds

    def report(number: int, done: int, total: int, words: str) -> None:
        progress(number, method.rounds, f"{words}, {done} of {total}")

    rows = train_in_rounds(
        policy, method, imitation_setting(config, job.seed), validation_tasks=validation_tasks(config),
        folder=folder / job.name, tensorboard=True, about=about(folder), progress=report,
    )  # fmt: skip
    return rows, method


def about(folder: Path) -> dict[str, str]:
    """Return what logs of a benchmark's runs say of its data, see `benchmarks.data_source`."""
    source = noted(folder)
    return {} if source is None else source.about


def _both(found: Found) -> str:
    return f"greedy {_share(found.scores[0])}, sampled {_share(found.scores[1])} of test tasks"


def _share(found: Score) -> str:
    return f"{100 * found.success.count('1') / len(found.success):.1f} %"
