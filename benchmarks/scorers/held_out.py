"""The examination of a scorer: episodes of levels that it has not learned from, and their true worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agentgym.trajectory import Floats, StepTable
from benchmarks.ranking.distance import distance_changes, state_distances
from benchmarks.ranking.measures import Sample, bootstrap_weights, intervals
from benchmarks.ranking.rollouts import comparisons, split_groups
from benchmarks.statistics import Interval


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Episodes in groups, and what their steps are worth.

    Attributes:
        table: the episodes, in groups of a training's size.
        sample: what is compared with what, see `benchmarks.ranking.measures`.
        weights: of the bootstrap over levels.
    """

    table: StepTable
    sample: Sample
    weights: Floats

    @classmethod
    def of(cls, played: StepTable, group_size: int, resamples: int, seed: int) -> HeldOut:
        """Cut episodes of Sokoban levels into groups and ask the solver."""
        truth = distance_changes(played, state_distances(played))
        parts = [split_groups(played, size) for size in (group_size, 2)]
        compared = [comparisons(part, played.group, truth) for part in parts]
        return cls(parts[0], Sample(*compared), bootstrap_weights(played.n_groups, resamples, seed))

    def measures(self, credit: Floats) -> dict[str, Interval | None]:
        """How well step credit (N,) ranks, with 95 % intervals over levels."""
        return intervals(self.sample.sums(credit), self.weights)

    @cached_property
    def truth(self) -> Floats:
        """Float64 (N,), what every step gained."""
        return self.sample.own.truth
