"""The default benchmark: clone an expert, train the clone with every credit method, compare on held-out tasks.

    python -m benchmarks.run --help

Besides what every study leaves (see `benchmarks.study`) the folder holds

    data_source.json    which tasks it plays, see `baselines.runs.data_source`; beside each model too
    <part>/             finished.json, model, checkpoints, log.jsonl and TensorBoard files of each clone and run

In `results.json` success per task is a string of "0" and "1" in the order of the test split, so that every interval
can be computed again from the file alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.trajectory import Floats, StepTable
from baselines.environments.settings import TINY, EnvSettings
from baselines.records.checkpoint import save_policy
from baselines.runs.config import Config, make_config
from baselines.runs.data_source import DataSource, hand_on, noted
from baselines.runs.run import about, cloned, train_policy
from baselines.runs.stack import (
    CLONE,
    EXPERT,
    GREEDY,
    RANDOM,
    SAMPLED,
    imitation_setting,
    keep_pictures,
    learned_policy,
    trainer_config,
    validation_tasks,
)
from benchmarks.json_files import ResultsError, claimed, write_json
from benchmarks.options import REFERENCE
from benchmarks.processes import Progress
from benchmarks.report.state_graph import Graph
from benchmarks.study import Found, Study
from benchmarks.training.learning_page import page
from benchmarks.training.run import KindScore, Score, reporting, scores
from benchmarks.training.showcase import Episode, clone_graphs, show_episodes, trained_graph

RESULTS = "results.json"
REFERENCES = "references"
#: Policies that are not trained play in one mode.
REFERENCE_MODES = {RANDOM: (SAMPLED,), EXPERT: (GREEDY,)}


@dataclass(frozen=True)
class CurvePoint:
    """One validation after some iterations and wall seconds of training: shares solved by sampled and greedy play."""

    iteration: int
    seconds: float
    success: float
    greedy: float


@dataclass(frozen=True)
class Run:
    """One training run: `seconds` of training, validation curve in order of iteration, warnings in order, in words."""

    method: str
    seed: int
    seconds: float
    curve: list[CurvePoint]
    warnings: list[str] = field(default_factory=list)


@dataclass
class Piece:
    """What one part found; `task` is the index of the training task whose state graphs are shown."""

    scores: list[Score] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    kinds: list[KindScore] = field(default_factory=list)
    task: int | None = None


@dataclass(frozen=True)
class Results(Found):
    """The whole file: a run per method and seed, a score per policy, seed and mode on every held-out test task.

    Beside them a few test episodes with their boards; state graphs of one training task, before and after training;
    success per kind of task where there are kinds; and the tasks that were played.
    """

    config: Config
    runs: list[Run]
    scores: list[Score]
    episodes: list[Episode]
    graphs: list[Graph]
    kinds: list[KindScore] = field(default_factory=list)
    data: DataSource | None = None

    def of(self, policy: str, mode: str) -> list[Score]:
        by_seed = {each.seed: each for each in self.scores if (each.policy, each.mode) == (policy, mode)}
        return [by_seed[seed] for seed in self.config.seeds if seed in by_seed]


def check(results: Results) -> None:
    """Check what types cannot say."""
    config = results.config
    pairs = {(run.method, run.seed) for run in results.runs}
    found = {(each.policy, each.seed, each.mode) for each in results.scores}
    for seed in config.seeds:
        for method in config.methods:
            if (method, seed) not in pairs:
                raise ResultsError(f"runs: no run of {method!r} with seed {seed}")
        for policy in [RANDOM, EXPERT, CLONE, *config.methods]:
            for mode in REFERENCE_MODES.get(policy, (GREEDY, SAMPLED)):
                if (policy, seed, mode) not in found:
                    raise ResultsError(f"scores: no {mode} score of {policy!r} with seed {seed}")
    for i, run in enumerate(results.runs):
        iterations = [point.iteration for point in run.curve]
        if not iterations or iterations != sorted(set(iterations)):
            raise ResultsError(f"runs[{i}].curve: iterations must rise, got {iterations[:8]}")
    for i, each in enumerate(results.scores):
        if len(each.success) != config.eval_tasks or set(each.success) - {"0", "1"}:
            raise ResultsError(f"scores[{i}].success: expected {config.eval_tasks} characters 0 or 1")
    for i, graph in enumerate(results.graphs):
        if any(not 0 <= end < len(graph.nodes) for edge in graph.edges for end in (edge.source, edge.target)):
            raise ResultsError(f"graphs[{i}].edges: an edge ends at a node that does not exist")


def clone_of(seed: int) -> str:
    """Name of the part that clones, and of its folder."""
    return f"clone-seed{seed}"


def parts(config: Config) -> dict[str, tuple[str, int]]:
    """Method and seed by the name of a part: clones first, then references, then training runs seed by seed."""
    runs = {f"{method}-seed{seed}": (method, seed) for seed in config.seeds for method in config.methods}
    return {**{clone_of(seed): (CLONE, seed) for seed in config.seeds}, REFERENCES: (REFERENCES, 0), **runs}


def needs(config: Config, part: str) -> list[str]:
    """Every run waits for the clone of its seed."""
    kind, seed = parts(config)[part]
    return [] if kind in (CLONE, REFERENCES) else [clone_of(seed)]


def run_part(config: Config, part: str, folder: Path, progress: Progress) -> Piece:
    """Do one part, with one thread."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()  # the process that started this one draws the bars
    kind, seed = parts(config)[part]
    place = STUDY.path(folder, part).parent
    place.mkdir(parents=True, exist_ok=True)
    if kind in (CLONE, REFERENCES):
        return _clone(config, place, seed, progress) if kind == CLONE else _references(config, progress)
    return _method(config, folder, place, kind, seed, progress)


def cloned_for(
    row: EnvSettings, folder: Path, seed: int, tell: Callable[[str], None] = lambda words: None, *,
    quick: bool, model: str = TINY, seeds: Sequence[int] = (), contexts: Mapping[str, float] | None = None,
    short: int = 0,
) -> Path:  # fmt: skip
    """Return the folder of a clone by an environment's own settings, which is learned first where it is not there yet.

    It learns to read `contexts`. If `short` is given, it learns that many episodes of the expert, once, with the tiny
    policy's tasks and prompts, and is tested on 8 tasks. Its state graph is of one task, which is not searched for.
    """
    played = row.played_by(model)
    sizes, every = played.quick if quick else played.full, list(seeds) or [seed]
    config = make_config(row, methods=[REFERENCE], seeds=every, model=model, history=None, sizes=sizes)
    if contexts is not None:
        config = dataclasses.replace(config, setup=dataclasses.replace(config.setup, clone_contexts=dict(contexts)))
    if short:
        setup = dataclasses.replace(config.setup, options=row.setup.options, prompt=row.setup.prompt)
        config = dataclasses.replace(
            config, setup=setup, history=row.history, instructions=False, clone_tasks=short, clone_epochs=1,
            training_tasks=1, eval_tasks=8, validation_tasks=4,
        )  # fmt: skip
    path = STUDY.path(folder, clone_of(seed))
    with claimed(folder, config):
        if not path.is_file():
            tell("cloning the expert")
            STUDY.do(config, folder, clone_of(seed), lambda done, total, words: None, folder)
    return path.parent


def _references(config: Config, progress: Progress) -> Piece:
    from policies.scripted import ExpertPolicy, RandomPolicy

    found = Piece()
    for seed in config.seeds:
        for name, policy, mode in ((RANDOM, RandomPolicy(), SAMPLED), (EXPERT, ExpertPolicy(), GREEDY)):
            [each], kinds = scores(config, policy, name, seed, [mode])
            found.scores.append(each)
            found.kinds += kinds
            progress(len(found.scores), 2 * len(config.seeds), f"{name} {each.share}")
    found.episodes = show_episodes(config, RandomPolicy(), RANDOM) + show_episodes(config, ExpertPolicy(), EXPERT)
    return found


def _clone(config: Config, place: Path, seed: int, progress: Progress) -> Piece:
    started = time.perf_counter()
    policy, result = cloned(config, seed, lambda done, total: progress(done, total, "learning from the expert"))
    if result is not None:
        write_json(result.history, place / "cloning.json")
    seconds = time.perf_counter() - started
    found = _kept(config, policy, place, CLONE, seed, seconds, progress)
    if seed == config.seeds[0]:
        found.task, found.graphs = clone_graphs(config, policy, seed)
        found.episodes = show_episodes(config, policy.with_settings(temperature=0.0), CLONE)
    return found


def _kept(
    config: Config, policy: Any, place: Path, name: str, seed: int, seconds: float, progress: Progress, own: Any = None
) -> Piece:
    save_policy(policy, place / "model")
    hand_on(place.parent, place / "model")
    both, kinds = scores(config, policy, name, seed, seconds=seconds, own=own)
    progress(1, 1, f"greedy {both[0].share}, sampled {both[1].share} of test tasks")
    return Piece(both, kinds=kinds)


def _method(config: Config, folder: Path, place: Path, name: str, seed: int, progress: Progress) -> Piece:
    from baselines.imitation.method import Imitation
    from baselines.recipes.methods import method as method_of
    from baselines.records.watch import kept_in, warning_texts
    from policies.lora import LoraSettings, add_lora, merge_lora

    method: Any = method_of(name)
    start = STUDY.one(folder, clone_of(seed))
    policy = learned_policy(folder / clone_of(seed) / "model", config.model)
    if isinstance(method, Imitation) or config.training.get("rollout.staleness"):
        keep_pictures(policy, place)
    if config.lora:
        policy = add_lora(policy, LoraSettings(config.lora, 2.0 * config.lora), seed=seed)
    estimate: Callable[[StepTable], Floats]
    if isinstance(method, Imitation):
        rows, estimate = _in_rounds(config, place, seed, policy, method, progress), method
    else:
        training, show = trainer_config(config, seed, method), reporting(progress, config.steps)
        rows, trainer = train_policy(config, policy, method, training, place, show)

        def estimate(table: StepTable) -> Floats:
            return trainer.learner.estimate(table)[1].advantages

    if config.lora:
        save_policy(policy, place / "adapter")
        policy = merge_lora(policy)
    seconds, own = float(rows[-1].get("seconds", 0.0)), getattr(method, "own_env", None)
    found = _kept(config, policy, place, name, seed, start.scores[0].seconds + seconds, progress, own)
    curve = [
        CurvePoint(
            int(row["iteration"]), float(row.get("seconds", 0.0)),
            float(row["validation_sampled_success"]), float(row["validation_greedy_success"]),
        )
        for row in rows
        if "validation_greedy_success" in row
    ]  # fmt: skip
    found.runs = [Run(name, seed, seconds, curve, warning_texts(rows, kept_in(place)))]
    if seed == config.seeds[0]:
        assert start.task is not None  # the clone of the first seed has chosen one
        found.graphs = [trained_graph(config, policy, estimate, name, seed, start.task, own)]
        found.episodes = show_episodes(config, policy.with_settings(temperature=0.0), name, own)
    return found


def _in_rounds(
    config: Config, place: Path, seed: int, policy: Any, method: Any, progress: Progress
) -> list[dict[str, float]]:
    """Train by a method of imitation, on the tasks that were cloned."""
    from baselines.imitation.rounds import train_in_rounds

    def report(number: int, done: int, total: int, words: str) -> None:
        progress(number, method.rounds, f"{words}, {done} of {total}")

    return train_in_rounds(
        policy, method, imitation_setting(config, seed), validation_tasks=validation_tasks(config), folder=place,
        tensorboard=True, about=about(place.parent), progress=report,
    )  # fmt: skip


def _summary(config: Config, pieces: list[Piece], folder: Path) -> Mapping[str, Any]:
    names = ("runs", "scores", "episodes", "graphs", "kinds")
    return {name: [each for piece in pieces for each in getattr(piece, name)] for name in names} | {
        "data": noted(folder)
    }


STUDY: Study[Config, Piece, Results] = Study(
    name="learning", file=RESULTS, version=2, part="run", record=Piece, results=Results,
    parts=lambda config: list(parts(config)), run=run_part, summary=_summary, page=page, check=check, processes=True,
    needs=needs, kept="{}/finished.json",
)  # fmt: skip
