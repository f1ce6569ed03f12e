"""`results.json`: what a learning benchmark found, as documented dataclasses that are validated on load.

    Results
      config    what was asked (environment, methods, seeds, sizes, hyper-parameters)
      machine   where it ran
      runs      one Run per (method, seed): its validation curve
      scores    one Score per (policy, seed, mode): success on every held-out test task
      episodes  a few test episodes with their boards
      graphs    state graphs of one training task, before and after training, per method
      kinds     success per kind of task, in the test split and in others, where an environment has kinds

Success per task is kept as a string of "0" and "1", one character per task in the order of the test split, so that
every interval and paired comparison of the report can be computed again from the file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import json_files
from benchmarks.config import Config
from benchmarks.data_source import DataSource
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.training.stack import CLONE, EXPERT, GREEDY, RANDOM, SAMPLED
from benchmarks.training.state_graph import Graph

VERSION = 2
TRAINED = "trained"


@dataclass(frozen=True)
class CurvePoint:
    """One validation during training.

    Attributes:
        iteration: iterations trained before this point; 0 is the clone.
        seconds: wall seconds of training before this point (validation itself not counted).
        success: share of validation tasks solved by sampled play, in 0..1.
        greedy: the same for greedy play.
    """

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


@dataclass(frozen=True)
class Score:
    """One policy on all held-out tasks.

    Attributes:
        policy: "random", "expert", "clone" or a method.
        seed: training seed (random, expert: seed of the play).
        mode: "greedy" or "sampled".
        success: one character per task, "1" solved.
        mean_return: mean sum of rewards per episode.
        mean_length: mean number of steps per episode.
        invalid_rate: share of steps whose action was not accepted.
        seconds: wall seconds of training, warm start included (0 for random and expert).
    """

    policy: str
    seed: int
    mode: str
    success: str
    mean_return: float
    mean_length: float
    invalid_rate: float
    seconds: float


@dataclass(frozen=True)
class KindScore:
    """One policy on the tasks of one split, kind by kind.

    Attributes:
        policy, seed, mode: as in `Score`.
        split: whose tasks were played.
        won: per kind, the tasks that were solved.
        played: per kind, the tasks that were played.
    """

    policy: str
    seed: int
    mode: str
    split: str
    won: dict[str, int]
    played: dict[str, int]


@dataclass(frozen=True)
class Frame:
    """One moment of an episode: the observation, and what was done there ("" in the last frame).

    Of a picture the data URL stands before the text, see `benchmarks.training.stack`.
    """

    text: str
    action: str
    reward: float
    valid: bool


@dataclass(frozen=True)
class Episode:
    """One greedy test episode; `index` is its place in the test split."""

    policy: str
    index: int
    task_id: str
    won: bool
    frames: list[Frame]


@dataclass(frozen=True)
class Results:
    """The whole file; see the module."""

    version: int
    created: str
    config: Config
    machine: Machine
    runs: list[Run]
    scores: list[Score]
    episodes: list[Episode]
    graphs: list[Graph]
    kinds: list[KindScore] = field(default_factory=list)
    data: DataSource | None = None


def check(results: Results) -> None:
    """Check what types cannot say.

    Raises:
        ResultsError: wrong version; a (method, seed) without run or a policy without scores; success strings of a
            wrong length or alphabet; curves out of order; edges to nodes that do not exist.
    """
    config = results.config
    if results.version != VERSION:
        raise ResultsError(f"version: this code reads version {VERSION}, got {results.version}; run it again")
    pairs = {(run.method, run.seed) for run in results.runs}
    for method in config.methods:
        for seed in config.seeds:
            if (method, seed) not in pairs:
                raise ResultsError(f"runs: no run of {method!r} with seed {seed}")
    for i, run in enumerate(results.runs):
        iterations = [point.iteration for point in run.curve]
        if not iterations or iterations != sorted(set(iterations)):
            raise ResultsError(f"runs[{i}].curve: iterations must rise, got {iterations[:8]}")
    found = {(score.policy, score.seed, score.mode) for score in results.scores}
    for policy in [RANDOM, EXPERT, CLONE, *config.methods]:
        for seed in config.seeds:
            for mode in modes(policy):
                if (policy, seed, mode) not in found:
                    raise ResultsError(f"scores: no {mode} score of {policy!r} with seed {seed}")
    for i, score in enumerate(results.scores):
        if len(score.success) != config.eval_tasks or set(score.success) - {"0", "1"}:
            raise ResultsError(f"scores[{i}].success: expected {config.eval_tasks} characters 0 or 1")
    for i, graph in enumerate(results.graphs):
        if any(not 0 <= end < len(graph.nodes) for edge in graph.edges for end in (edge.source, edge.target)):
            raise ResultsError(f"graphs[{i}].edges: an edge ends at a node that does not exist")


def modes(policy: str) -> tuple[str, ...]:
    """Evaluation modes of a policy: random play is sampled, the expert is greedy, trained policies are both.

    >>> modes("expert"), modes("grpo")
    (('greedy',), ('greedy', 'sampled'))
    """
    return {RANDOM: (SAMPLED,), EXPERT: (GREEDY,)}.get(policy, (GREEDY, SAMPLED))


def save(results: Results, path: Path) -> None:
    """Check and write; the file appears whole or not at all."""
    check(results)
    json_files.write_json(results, path)


def load(path: Path) -> Results:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes; names the file.
    """
    if not path.is_file():
        raise ResultsError(f"{path}: no such file; run `python -m benchmarks.run --out {path.parent}` first")
    results = json_files.load(Results, path)
    try:
        check(results)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None
    return results
