"""`scorers.json`: how well learned scores rank actions, as documented dataclasses that are validated on load.

A `Study` holds what was asked (`config`), where it ran (`machine`), the episodes it was measured on (`held_out`), and
one `ScorerResult` per scorer, measured after every number of iterations that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.ranking.measures import MEASURES
from benchmarks.statistics import Interval

VERSION = 1


@dataclass(frozen=True)
class Sizes:
    """How much is played and how long is learned.

    Attributes:
        iterations: after how many a scorer is measured, rising; the last is how many there are.
        groups: training levels per iteration.
        group_size: episodes per training level.
        levels: held-out levels.
        episodes: per held-out level, a multiple of `group_size`: they are cut into groups of that many.
    """

    iterations: list[int]
    groups: int
    group_size: int
    levels: int
    episodes: int


@dataclass(frozen=True)
class ScorersConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        policy: job folder of a learning benchmark; "": a clone is learned first, in the folder of the results.
        scorers: names in `benchmarks.scorers.registry.SCORERS`.
        sizes: how much.
        resamples: of the bootstrap over held-out levels.
        seed: of episodes, mini-batches and bootstrap.
    """

    policy: str
    scorers: list[str]
    sizes: Sizes
    resamples: int
    seed: int


@dataclass(frozen=True)
class Point:
    """A scorer after some iterations, on the held-out levels.

    Attributes:
        iterations: how many it has learned for.
        measures: of its step credit, as `benchmarks.ranking.results.Score` has them.
        agreement: of its step credit with the state graph's, see `wrappers.credit.evidence.agreement`.
        pairs: how often the sums of its scores tell won from lost trajectories of a group, see
            `wrappers.credit.evidence.pair_accuracy`.
        centred_pairs: the same, centred: a trajectory gains nothing by being short or long.
        loss: mean over the iterations since the point before, as the scorer reports it; None: not yet learned.
    """

    iterations: int
    measures: dict[str, Interval | None]
    agreement: float
    pairs: float
    centred_pairs: float
    loss: float | None


@dataclass(frozen=True)
class ScorerResult:
    """One scorer beside the policy.

    Attributes:
        name: of the scorer.
        kind: what its scores are, see `benchmarks.scorers.registry.Scored`.
        points: one before it has learned, then, but for references, one per number of iterations asked for.
        score_seconds: processor time of the scores of a training batch, median over iterations.
        update_seconds: of learning from it.
        policy_seconds: of a policy's update on the same batches. All three are 0 for references.
    """

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
    """What scorers are measured on.

    Attributes:
        success: share of episodes solved.
        steps: number of rows.
        comparable: share of rows in a state where the group took actions of different true worth.
    """

    success: float
    steps: int
    comparable: float


@dataclass(frozen=True)
class Study:
    """The whole file; see the module."""

    version: int
    created: str
    config: ScorersConfig
    machine: Machine
    held_out: HeldOutEpisodes
    results: list[ScorerResult]


def save(study: Study, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(study, path)


def load(path: Path) -> Study:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes.
    """
    study = json_files.load(Study, path)
    if study.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {study.version}; run it again")
    for result in study.results:
        for point in result.points:
            if set(point.measures) != set(MEASURES):
                raise ResultsError(f"{path}: {result.name}: expected the measures {MEASURES}, got {[*point.measures]}")
    return study
