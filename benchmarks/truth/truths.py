"""What every step was worth: its exact change of distance, or its value to the player, see `baselines.play.values`."""

from dataclasses import dataclass

import numpy as np

from agentgym.trajectory import Floats, StepTable
from baselines.play.values import Played, monte_carlo
from benchmarks.processes import Progress
from benchmarks.statistics import Interval
from benchmarks.truth.episodes import TruthConfig, scripted_of
from benchmarks.truth.measures import Comparisons, Sample, intervals
from wrappers.distance import Distances, distance_gains

#: Truths: the exact change of the number of commands to success; Q - V by Monte-Carlo, with and without discount.
DISTANCE, VALUE, UNDISCOUNTED = "distance", "value", "undiscounted value"


@dataclass(frozen=True, eq=False)
class Truth:
    """What every step was worth, float64 (N,): nan not known; by halves of the continuations; standard errors."""

    name: str
    values: Floats
    halves: tuple[Floats, Floats] | None
    errors: Floats


def truths_of(
    config: TruthConfig, env: str, played: Played, progress: Progress = lambda done, total, words: None
) -> tuple[list[Truth], int]:
    """Return all truths of a player's steps, the main one first, and the steps of continuations that they took."""
    table, found = played.table, list[Truth]()
    if isinstance(played.envs, Distances):
        found.append(Truth(DISTANCE, distance_gains(table, played.envs.found), None, np.zeros(len(table))))
        if not config.check:
            return found, 0
    outcome = scripted_of(env).outcome
    values = monte_carlo(played, config.continuations, (config.gamma, 1.0), outcome, config.seed, progress)
    for i, name in enumerate((VALUE, UNDISCOUNTED)):
        halves = values.advantages(i, slice(0, None, 2)), values.advantages(i, slice(1, None, 2))
        found.append(Truth(name, values.advantages(i), halves, values.errors(i)))
    return found, values.steps


def agreement(truth: Truth, part: StepTable, table: StepTable, weights: Floats) -> dict[str, Interval | None]:
    """Return the measures of one half of the continuations as a credit against the other half; {} of an exact truth."""
    if truth.halves is None:
        return {}
    sums = []
    for one, other in (truth.halves, truth.halves[::-1]):
        compared = Comparisons.of(part, table.group, one)
        sums.append(Sample(compared, compared).sums(other))
    return intervals(np.mean(sums, axis=0), weights)


def ceiling(halves: Interval | None) -> Interval | None:
    """Return the rank correlation within states that a perfect credit would have with an estimated truth.

    The correlation r of two halves gives the reliability of the whole, 2 r / (1 + r) (Spearman and Brown), whose square
    root bounds any correlation with the mean. Among the few steps of a state it is some hundredths too high.

    >>> ceiling(Interval(0.5, -0.1, 1.0))
    Interval(mean=0.816496580927726, low=0.0, high=1.0)
    """
    if halves is None:
        return None
    r = [max(each, 0.0) for each in (halves.mean, halves.low, halves.high)]
    return Interval(*(float(np.sqrt(2 * each / (1 + each))) for each in r))
