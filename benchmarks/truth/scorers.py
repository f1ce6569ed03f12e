"""`study scorers`: does a network that learns step scores from outcomes rank actions?

A cloned policy, whose weights stay as they are, plays training levels. Every scorer learns from the same episodes. Its
scores of held-out levels become step credit, which is compared with the exact gains of the steps in moves. A scorer is
a row of `SCORERS` and a part of the study. The folder `learning` holds the clone.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from agentgym.rollout import collect
from agentgym.trajectory import Floats, StepTable
from baselines.environments.settings import tasks
from baselines.environments.sokoban import SOKOBAN
from baselines.recipes.rows import recipe, scorer_config
from baselines.runs.stack import make_envs, trainer_config, training_tasks
from baselines.scorers.scorer import ScorerConfig
from benchmarks.console import NONE, option
from benchmarks.json_files import ResultsError, check_known
from benchmarks.options import REFERENCE
from benchmarks.processes import Progress
from benchmarks.report.page import Cell, Page, Table, ruled
from benchmarks.statistics import Interval, bootstrap_weights
from benchmarks.study import Found, Study, Tell
from benchmarks.training.learning import cloned_for
from benchmarks.training.run import job_of, learned, learned_config
from benchmarks.truth.measures import EXPLAINED, Sample, intervals, number, samples
from wrappers.credit.agentprm import GAMMA, action_targets, gains
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.distance import Distances, distance_gains

if TYPE_CHECKING:
    from baselines.learner import Learner

#: What a score is: an "advantage" or a "contribution" is step credit; the change of a "state value" over a step is; an
#: "action value" is inside one state; a "reference" is no network.
Kind = Literal["advantage", "contribution", "state value", "action value", "reference"]
#: Iterations whose batch the policy is updated on as well, to time both at the same time: a machine's speed changes.
TIMED = 10


@dataclass(frozen=True)
class Sizes:
    """Iterations after which a scorer is measured; levels per iteration and episodes of each; held-out ones."""

    iterations: list[int]
    groups: int
    group_size: int
    levels: int
    episodes: int


@dataclass(frozen=True)
class ScorersConfig:
    """The options of the command; `policy` is "" where a clone is learned first, in the folder of the results."""

    policy: str
    scorers: list[str]
    sizes: Sizes
    resamples: int
    seed: int


@dataclass(frozen=True)
class Point:
    """A scorer after some iterations: measures of its step credit, pairs of its scores, `loss` since the last point."""

    iterations: int
    measures: dict[str, Interval | None]
    agreement: float
    pairs: float
    centred_pairs: float
    loss: float | None


@dataclass(frozen=True)
class ScorerResult:
    """One scorer; seconds of the processor are medians of a batch: scoring, learning, the policy's own update."""

    name: str
    kind: str
    points: list[Point]
    score_seconds: float
    update_seconds: float
    policy_seconds: float

    @property
    def cost(self) -> float | None:
        """Scores and update, in updates of the policy; None for references."""
        return (self.score_seconds + self.update_seconds) / self.policy_seconds if self.policy_seconds else None


@dataclass(frozen=True)
class HeldOutEpisodes:
    """Share of episodes solved; steps; the share of them in a state where actions differ in worth."""

    success: float
    steps: int
    comparable: float


@dataclass(frozen=True)
class ScorersResults(Found):
    """The whole file: the episodes that were measured on, and one result per scorer."""

    config: ScorersConfig
    held_out: HeldOutEpisodes
    results: list[ScorerResult]


FULL = Sizes(iterations=[15, 60], groups=16, group_size=8, levels=96, episodes=16)
QUICK = Sizes(iterations=[1, 2], groups=4, group_size=4, levels=8, episodes=4)
#: What values are fitted to, float64 (N,): the discounted outcome that followed each step.
outcome_targets = functools.partial(action_targets, gamma=GAMMA)


@dataclass(frozen=True)
class Scored:
    """One scorer: its settings (None: `fewer_steps`), what it is fitted to, and its credit, (N,)."""

    kind: Kind
    settings: ScorerConfig | None
    targets: Callable[[StepTable], Floats] | None = None
    credit: Callable[[StepTable, Floats], Floats] = lambda table, scores: scores


def fewer_steps(table: StepTable) -> Floats:
    """Return -1 of every step: preferences between episodes by their lengths."""
    return np.full(len(table), -1.0)


_implicit = functools.partial(scorer_config, "implicit_reward")

SCORERS: dict[str, Scored] = {
    "fewer steps": Scored("reference", None),
    "implicit sum": Scored("advantage", _implicit(reduce="sum")),
    "implicit mean": Scored("advantage", _implicit(reduce="mean")),
    "implicit ce": Scored("advantage", _implicit(loss="ce", reduce="sum")),
    "implicit centred": Scored("advantage", _implicit(reduce="sum", centre=True)),
    "contribution": Scored("contribution", scorer_config("contribution")),
    # Scores are ratios of probabilities.
    "hindsight": Scored("advantage", scorer_config("hindsight"), credit=lambda table, scores: np.log(scores)),
    "action value": Scored("action value", scorer_config("action_value")),
    "critic": Scored("state value", scorer_config("critic", level="turn"), outcome_targets, gains),
}


def step_scores(scores: Floats) -> Floats:
    """Return one score per step, float64 (N,): those of a reply's tokens (N, K) are added up.

    >>> step_scores(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([3., 3.])
    """
    return scores if scores.ndim == 1 else scores.sum(axis=1)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Episodes in groups of a training's size, what is compared in them, and weights of the bootstrap over levels."""

    table: StepTable
    sample: Sample
    weights: Floats

    @classmethod
    def of(cls, played: StepTable, truth: Floats, group_size: int, resamples: int, seed: int) -> HeldOut:
        """Cut episodes, with the gains of their steps, float64 (N,), into groups."""
        parts = samples(played, truth, (group_size, 2))
        return cls(*parts[group_size], bootstrap_weights(played.n_groups, resamples, seed))

    def measures(self, credit: Floats) -> dict[str, Interval | None]:
        return intervals(self.sample.sums(credit), self.weights)

    @property
    def truth(self) -> Floats:
        """Float64 (N,), what every step gained."""
        return self.sample.own.truth


class FixedPolicy:
    """The policy of a learning benchmark's job, whose weights stay as they are, and its episodes."""

    def __init__(self, job: Path, sizes: Sizes, seed: int) -> None:
        self.learned, self.policy = learned(job)
        self._job, self._sizes, self._seed = job, sizes, seed
        self._levels = training_tasks(self.learned)
        self._kept: dict[int, StepTable] = {}

    def batch(self, iteration: int) -> StepTable:
        """Return the episodes of a training iteration, counted from 0; the same for every scorer."""
        if iteration not in self._kept:
            sizes, count = self._sizes, len(self._levels)
            chosen = [self._levels[(iteration * sizes.groups + i) % count] for i in range(sizes.groups)]
            envs = make_envs(self.learned, sizes.groups * sizes.group_size)
            self._kept[iteration] = collect(
                envs, self.policy, tasks=chosen, group_size=sizes.group_size, seed=_seed(self._seed, iteration + 1)
            )
        return self._kept[iteration]

    def held_out(self, resamples: int) -> HeldOut:
        """Play the held-out levels, which are those of the learning curve."""
        sizes = self._sizes
        envs = Distances(make_envs(self.learned, sizes.levels * sizes.episodes))
        played = collect(
            envs, self.policy,
            tasks=tasks(self.learned.setup.validation, sizes.levels), group_size=sizes.episodes,
            seed=_seed(self._seed, 0),
        )  # fmt: skip
        return HeldOut.of(played, distance_gains(played, envs.found), sizes.group_size, resamples, self._seed)

    def learner(self) -> Learner:
        """Return what trains another copy of the policy by the reference, with the settings of its benchmark."""
        from baselines.learner import Learner

        method = recipe(REFERENCE)
        return Learner(learned(self._job)[1], method, trainer_config(self.learned, self._seed, method))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def learn(
    name: str,
    scored: Scored,
    fixed: FixedPolicy,
    held_out: HeldOut,
    sizes: Sizes,
    seed: int,
    progress: Progress = lambda done, total, words: None,
) -> ScorerResult:
    """Train a scorer and measure it after each of `sizes.iterations`; a reference only once."""
    if scored.settings is None:
        return ScorerResult(name, scored.kind, [_examined(fewer_steps, scored, held_out, 0, [])], 0.0, 0.0, 0.0)
    scorer, learner = scored.settings.make(fixed.policy), fixed.learner()
    rate: float = fixed.learned.training["learning_rate"]
    rng, timing = np.random.default_rng(_seed(seed)), np.random.default_rng(_seed(seed))
    points = [_examined(scorer.scores, scored, held_out, 0, [])]
    losses: list[float] = []
    scoring, updating, policy = list[float](), list[float](), list[float]()
    for iteration in range(sizes.iterations[-1]):
        table = fixed.batch(iteration)
        targets = None if scored.targets is None else scored.targets(table)
        begin = time.process_time()
        scores = scorer.scores(table)
        between = time.process_time()
        row = scorer.update(table, scores, targets, rng, rate)
        end = time.process_time()
        losses += [value for key, value in row.items() if key.endswith("_loss")]
        if iteration < TIMED:
            scoring.append(between - begin)
            updating.append(end - between)
            begin = time.process_time()
            learner.learn(table, 0, timing)
            policy.append(time.process_time() - begin)
        if iteration + 1 in sizes.iterations:
            points.append(_examined(scorer.scores, scored, held_out, iteration + 1, losses))
            losses = []
        if iteration + 1 in sizes.iterations or (iteration + 1) % 10 == 0:
            progress(iteration + 1, sizes.iterations[-1], "iterations")
    seconds = (float(np.median(spent)) if spent else 0.0 for spent in (scoring, updating, policy))
    return ScorerResult(name, scored.kind, points, *seconds)


def _examined(
    scores_of: Callable[[StepTable], Floats], scored: Scored, held_out: HeldOut, iterations: int, losses: list[float]
) -> Point:
    table = held_out.table
    scores = step_scores(scores_of(table))
    credit = scored.credit(table, scores)
    return Point(
        iterations=iterations,
        measures=held_out.measures(credit),
        agreement=agreement(table, credit),
        pairs=pair_accuracy(table, scores),
        centred_pairs=pair_accuracy(table, scores, centred=True),
        loss=float(np.mean(losses)) if losses else None,
    )


def make_config(
    policy: Path | None = None, scorers: Sequence[str] = (), *, sizes: Sizes = FULL, seed: int = 0
) -> ScorersConfig:
    """Put a configuration together; without a policy, a job folder of Sokoban, one is cloned."""
    check_known("scorer", scorers, SCORERS)
    job = str(job_of(policy) or "")
    if job and (found := learned_config(Path(job)).env) != SOKOBAN.id:
        raise ResultsError(f"{job}: a policy for {found}; only in {SOKOBAN.id} is the worth of a step known")
    return ScorersConfig(job, list(dict.fromkeys(scorers or SCORERS)), sizes, 1000, seed)


def configure(
    quick: Annotated[bool, option("Two small iterations, a minute; for CI.", "--quick")] = False,
    only: Annotated[str | None, option(f"Scorers, separated by commas: {', '.join(SCORERS)}.")] = None,
    policy: Annotated[
        Path | None, option("Job folder such as runs/learning/clone-seed0, whose policy plays. Default: a clone.")
    ] = None,
    seed: Annotated[int, option("Seed of episodes, mini-batches and intervals.", min=0)] = 0,
) -> ScorersConfig:
    """Train step scorers for a fixed policy, and measure how well they rank actions in Sokoban.

    All learn from the same episodes. On held-out levels their scores become step credit, which is compared with the
    exact gains of the steps.
    """
    names = [name.strip() for name in only.split(",") if name.strip()] if only else ()
    return make_config(policy, names, sizes=QUICK if quick else FULL, seed=seed)


@contextlib.contextmanager
def prepare(config: ScorersConfig, folder: Path, tell: Tell) -> Iterator[tuple[FixedPolicy, HeldOut]]:
    """Clone a policy where none is given, and play the held-out levels."""
    import torch

    # Processor time counts every thread's, and a policy of this size is fastest in one.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        job = Path(config.policy)
        if not config.policy:
            job = cloned_for(SOKOBAN, folder / "learning", config.seed, tell, quick=config.sizes == QUICK)
        fixed = FixedPolicy(job, config.sizes, config.seed)
        tell(f"playing {config.sizes.levels} x {config.sizes.episodes} held-out episodes")
        yield fixed, fixed.held_out(config.resamples)
    finally:
        torch.set_num_threads(threads)


def _summary(
    config: ScorersConfig, results: list[ScorerResult], context: tuple[FixedPolicy, HeldOut]
) -> Mapping[str, Any]:
    table, sample = context[1].table, context[1].sample
    comparable = float(sample.own.comparable.mean())
    episodes = HeldOutEpisodes(float(table.trajectory_won.mean()), len(table), comparable)
    return {"held_out": episodes, "results": results}


_SHOWN = ("within", "same", "overall")
HEADS = ("scorer", "after", "rank", "same", "overall", "graph", "pairs", "centred", "loss", "cost")


def page(found: ScorersResults) -> Page:
    """One line per scorer and number of iterations."""
    config, sizes, held_out = found.config, found.config.sizes, found.held_out
    caption = (
        f"{sizes.groups} training levels x {sizes.group_size} episodes per iteration, at the policy's learning rate. "
        f"Measured on {sizes.levels} held-out levels x {sizes.episodes} episodes in groups of {sizes.group_size}: "
        f"{held_out.steps} steps, {100 * held_out.success:.1f} % of episodes solved, {100 * held_out.comparable:.0f} % "
        "of steps in a state where the group took actions of different worth. Scores of states become credit as their "
        "change over a step, with the outcome after the last one; other scores are credit themselves."
    )
    beside = {result.name: [result.name, f"({result.kind})"] + [""] * len(result.points) for result in found.results}
    rows = ruled(
        (result.name, _line(words, result, point))
        for result in found.results
        for words, point in zip(beside[result.name], result.points, strict=False)
    )
    explained = {
        "after": "iterations of learning.",
        "rank": EXPLAINED["within"][1],
        "same": EXPLAINED["same"][1],
        "overall": EXPLAINED["overall"][1],
        "graph": "rank correlation within states with the state graph's credit, on the steps that it credits.",
        "pairs": "share of pairs of a won and a lost episode of a group in which the won one has the higher score.",
        "centred": "the same with scores minus the group's mean, so that short episodes have no advantage.",
        "loss": "the scorer's training loss, mean over the iterations since the row above.",
        "cost": "processor time of scores and update, in policy updates on the same batch.",
    }
    return Page(
        "Do learned step scores rank actions?",
        "Step scores learned for a policy with fixed weights, compared with the exact gains of steps on held-out "
        "Sokoban levels.",
        [Table("Scores learned for a fixed policy", HEADS, rows, caption, explained)],
        chips=[
            ("policy", config.policy or "a clone"),
            ("iterations", ", ".join(map(str, config.sizes.iterations))),
            ("held out", f"{config.sizes.levels} levels x {config.sizes.episodes} episodes"),
            ("seed", str(config.seed)),
        ],
        about=[("intervals", f"{config.resamples:,} resamples of the held-out levels")],
    )


def _line(words: str, result: ScorerResult, point: Point) -> list[Cell]:
    return [
        words,
        str(point.iterations),
        *(number(point.measures[measure], measure) for measure in _SHOWN),
        f"{point.agreement:.2f}".replace("0.", ".", 1),
        *(f"{100 * share:.0f} %" for share in (point.pairs, point.centred_pairs)),
        NONE if point.loss is None else f"{point.loss:.3f}",
        NONE if result.cost is None or words != result.name else f"{result.cost:.2f}",
    ]


STUDY = Study(
    name="scorers", file="scorers.json", version=1, part="scorer", record=ScorerResult, results=ScorersResults,
    configure=configure, parts=lambda config: config.scorers, summary=_summary, page=page, prepare=prepare,
    run=lambda config, part, context, progress: learn(
        part, SCORERS[part], context[0], context[1], config.sizes, config.seed, progress
    ),
)  # fmt: skip
