"""One scorer beside a policy that stands still: it learns from the policy's episodes and is examined on others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.environments.settings import tasks
from baselines.evaluation import at_temperature
from benchmarks.config import Config
from benchmarks.learning.stack import learned_config, make_envs, trainer_config, training_tasks
from benchmarks.scorers.held_out import HeldOut
from benchmarks.scorers.registry import Scored, step_scores
from benchmarks.scorers.results import Point, ScorerResult, Sizes
from wrappers.credit.evidence import agreement, pair_accuracy

if TYPE_CHECKING:
    from baselines.learner import Learner
    from baselines.scorers.scorer import StepScorer

#: Iterations whose batch the policy is updated on as well, to time both at the same time: a machine's speed changes.
TIMED = 10

#: Called with the number of iterations done.
Progress = Callable[[int], None]


class FixedPolicy:
    """A trained policy whose weights stay as they are, and its episodes.

    Args:
        job: job folder of a learning benchmark.
        sizes: how many episodes.
        seed: of the episodes.

    Raises:
        ResultsError: the folder holds no policy.
    """

    def __init__(self, job: Path, sizes: Sizes, seed: int) -> None:
        self.learned: Config = learned_config(job)
        self._folder, self._sizes, self._seed = job / "model", sizes, seed
        self.policy: Any = at_temperature(self._load(), self.learned.temperature)
        self._levels = training_tasks(self.learned)
        self._kept: dict[int, StepTable] = {}

    def _load(self) -> Any:
        import transformers

        from policies.huggingface import HuggingFacePolicy

        transformers.utils.logging.disable_progress_bar()
        return HuggingFacePolicy.from_pretrained(self._folder, device="cpu")

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
        played = collect(
            make_envs(self.learned, sizes.levels * sizes.episodes), self.policy,
            tasks=tasks(self.learned.setup.validation, sizes.levels), group_size=sizes.episodes,
            seed=_seed(self._seed, 0),
        )  # fmt: skip
        return HeldOut.of(played, sizes.group_size, resamples, self._seed)

    def learner(self) -> Learner:
        """Return what trains another copy of the policy by GRPO, with the settings of its benchmark."""
        from baselines.learner import Learner
        from baselines.recipes import recipe

        grpo = recipe("grpo")
        return Learner(self._load(), grpo, trainer_config(self.learned, self._seed, grpo))


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def learn(
    name: str,
    scored: Scored,
    fixed: FixedPolicy,
    held_out: HeldOut,
    sizes: Sizes,
    seed: int,
    progress: Progress = lambda done: None,
) -> ScorerResult:
    """Train a scorer and measure it after every number of iterations that is asked for; a reference only once.

    Args:
        name: of the scorer.
        scored: the scorer.
        fixed: the policy that plays.
        held_out: what it is measured on.
        sizes: how long.
        seed: of mini-batches.
        progress: called after every iteration.
    """
    scorer, learner = scored.make(fixed.policy), fixed.learner() if scored.kind != "reference" else None
    rate: float = fixed.learned.training["learning_rate"]
    rng, timing = np.random.default_rng(_seed(seed)), np.random.default_rng(_seed(seed))
    points = [_examined(scorer, scored, held_out, 0, [])]
    losses: list[float] = []
    scoring, updating, policy = list[float](), list[float](), list[float]()
    for iteration in range(sizes.iterations[-1] if learner else 0):
        table = fixed.batch(iteration)
        targets = None if scored.targets is None else scored.targets(table)
        begin = time.process_time()
        scores = scorer.scores(table)
        between = time.process_time()
        row = scorer.update(table, scores, targets, rng, rate)
        end = time.process_time()
        losses += [value for key, value in row.items() if key.endswith("_loss")]
        if learner and iteration < TIMED:
            scoring.append(between - begin)
            updating.append(end - between)
            begin = time.process_time()
            learner.learn(table, 0, timing)
            policy.append(time.process_time() - begin)
        if iteration + 1 in sizes.iterations:
            points.append(_examined(scorer, scored, held_out, iteration + 1, losses))
            losses = []
        progress(iteration + 1)
    seconds = (float(np.median(spent)) if spent else 0.0 for spent in (scoring, updating, policy))
    return ScorerResult(name, scored.kind, points, *seconds)


def _examined(scorer: StepScorer, scored: Scored, held_out: HeldOut, iterations: int, losses: list[float]) -> Point:
    table = held_out.table
    scores = step_scores(scorer.scores(table))
    credit = scored.credit(table, scores)
    return Point(
        iterations=iterations,
        measures=held_out.measures(credit),
        agreement=agreement(table, credit),
        pairs=pair_accuracy(table, scores),
        centred_pairs=pair_accuracy(table, scores, centred=True),
        loss=float(np.mean(losses)) if losses else None,
    )
