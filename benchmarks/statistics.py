"""Confidence intervals of success rates that were measured on the same tasks with several training seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import bootstrap, nct, norm, permutation_test, t

#: Coverage of every interval in tables and figures.
CONFIDENCE = 0.95
#: Means of the same scores differ by this much in floating point, at most; shares of episodes differ by more.
_ROUNDING = 1e-9
#: Resamples of tasks, their seed, and the numbers of them that are in memory at a time.
_RESAMPLES, _SEED, _NUMBERS = 9999, 0, 5_000_000
#: Power of the numbers of tasks that are reported.
_POWER = 0.8


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval, `low <= mean <= high`."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def within(self, least: float, most: float) -> Interval:
        """Return the interval cut to what is possible, such as 0..1 for a share."""
        return Interval(self.mean, max(least, self.low), min(most, self.high))


def paired_comparison(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return the mean of first - second, of two policies that played the same levels with the same training seeds.

    The differences d[s, l] (seed s, level l) are mean + seed effect + level effect + rest, with seeds and levels both
    drawn at random, so the interval is for new seeds and new levels. With the mean squares of the two-way analysis of
    variance without replication, the variance of the mean over S seeds and L levels is

        (MS_seeds + MS_levels - MS_rest) / (S L),

    with Satterthwaite's degrees of freedom for the t interval (Searle, Casella, McCulloch 1992, chapter 4). Where the
    sum is below the larger of MS_seeds and MS_levels, only the larger one is used. With few seeds this happens often by
    chance: if seeds happen to agree, the interval is for new levels only, and too narrow for new seeds. With one seed
    (or one level) only the others are drawn. Where the variance is 0 the interval is that of `even_difference`.

    Args:
        first: scores (S, L) or (L,) within 0..1, for instance success as booleans, or success shares over repeats.
        second: the same shape; row s is what row s of `first` is compared with.
        confidence: of the interval, in (0, 1).

    Raises:
        ValueError: shapes differ, a single score, scores that are texts or not finite, or a confidence outside (0, 1).

    >>> result = paired_comparison([[1, 1, 0, 1], [1, 1, 1, 1]], [[0, 1, 0, 0], [0, 1, 0, 1]])
    >>> result.mean, round(result.low, 3), round(result.high, 3), result.excludes_zero
    (0.5, -0.15, 1.15, False)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    mean, variance, freedom, drawn = _paired(first, second)
    if variance <= _ROUNDING**2:
        return even_difference(mean, drawn, confidence)[0]
    reach = float(t.ppf(0.5 + confidence / 2, freedom)) * math.sqrt(variance)
    return Interval(mean, mean - reach, mean + reach)


def paired_t(differences: ArrayLike) -> tuple[Interval, float]:
    """Return the mean of differences, one per seed, with the interval of a paired t test, and its two-sided p value.

    Differences without any spread have their mean as interval; p is then that of a sign test, 2^(1 - seeds), or 1 where
    they are 0.

    Raises:
        ValueError: fewer than two differences.

    >>> interval, p = paired_t([0.1, 0.2, 0.3])
    >>> round(interval.mean, 3), round(interval.low, 3), round(p, 3)  # .2 / (.1 / 3^.5) = 3.46 with 2 degrees
    (0.2, -0.048, 0.074)
    """
    d = np.asarray(differences, np.float64)
    if d.ndim != 1 or len(d) < 2:
        raise ValueError(f"expected at least two differences, one per seed, got shape {d.shape}")
    mean, error = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(len(d))
    if error <= _ROUNDING:
        return Interval(mean, mean, mean), 1.0 if abs(mean) <= _ROUNDING else 2.0 ** (1 - len(d))
    reach = float(t.ppf(0.5 + CONFIDENCE / 2, len(d) - 1)) * error
    return Interval(mean, mean - reach, mean + reach), float(2 * t.sf(abs(mean) / error, len(d) - 1))


def seeds_needed(differences: ArrayLike, *, level: float = 0.05) -> int | None:
    """Return how many seeds give a paired t test 80 % power for the mean difference seen, given the spread seen.

    Args:
        differences: one per seed, at least two.
        level: of the two-sided test.

    Returns:
        At least 2; None if the mean is 0 or 10,000 seeds are not enough.

    >>> seeds_needed([0.0, 1.0, 2.0])  # effect size 1: ten pairs
    10
    """
    d = np.asarray(differences, np.float64)
    mean, spread = abs(float(d.mean())), float(d.std(ddof=1))
    if mean <= _ROUNDING:
        return None
    for count in range(2, 10_000):
        if spread <= _ROUNDING:
            return count
        shift, limit = mean / spread * math.sqrt(count), float(t.ppf(1 - level / 2, count - 1))
        if float(nct.sf(limit, count - 1, shift)) >= 0.8:
            return count
    return None


def paired_bootstrap(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[Interval, float]:
    """Return the mean of one - other, both float64 (tasks,), with its interval and the p value of no difference.

    Where all tasks differ alike, resampling has no spread, and both are those of `even_difference`.
    """
    apart = one - other
    mean = float(apart.mean())
    if alike(apart):
        return even_difference(mean, len(apart))
    rng, batch = np.random.default_rng(_SEED), max(1, _NUMBERS // len(apart))
    drawn = bootstrap(
        (apart,), np.mean, n_resamples=_RESAMPLES, confidence_level=CONFIDENCE, method="percentile", batch=batch,
        random_state=rng,
    ).confidence_interval  # fmt: skip
    tested = permutation_test(
        (one, other), lambda a, b, axis: (a - b).mean(axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=_RESAMPLES, batch=batch, random_state=rng,
    )  # fmt: skip
    return Interval(mean, min(mean, float(drawn.low)), max(mean, float(drawn.high))), float(tested.pvalue)


def tasks_needed(apart: NDArray[np.float64]) -> tuple[int | None, float]:
    """Return how many tasks would detect the mean of these differences, and which mean these tasks would detect.

    With the normal approximation of the paired test: n = ((z_.975 + z_.8) s / d)^2 for a mean d and a deviation s.
    """
    spread = float(apart.std(ddof=1)) if len(apart) > 1 else 0.0
    factor = float(norm.ppf(0.5 + CONFIDENCE / 2) + norm.ppf(_POWER)) * spread
    mean = abs(float(apart.mean()))
    return (math.ceil((factor / mean) ** 2) if mean and spread else None), factor / math.sqrt(len(apart))


def bootstrap_weights(n_tasks: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """Return float64 (resamples, n_tasks): how often each task is drawn when all are resampled with replacement."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n_tasks, np.full(n_tasks, 1 / n_tasks), size=resamples).astype(np.float64)


def interval_of(estimate: float, drawn: NDArray[np.float64]) -> Interval | None:
    """Return the 95 % percentile interval of drawn estimates, nan left out; None: there is no estimate."""
    if not np.isfinite(estimate):
        return None
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2)) if len(drawn) else (estimate,) * 2
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate))


def alike(values: ArrayLike) -> bool:
    """Return whether all values are the same but for rounding."""
    return float(np.ptp(np.asarray(values, np.float64))) <= _ROUNDING


def even_difference(mean: float, tasks: int, confidence: float = CONFIDENCE) -> tuple[Interval, float]:
    """Return interval and p value of a difference, of scores within 0..1, that is the same on all of some tasks.

    No spread shows chance, so the interval reaches as far as Wilson's of as many successes, z^2 / (tasks + z^2), within
    -1..1; p is that of the two of 2^tasks ways to swap the results of tasks that bring as much, 1 without a difference.

    >>> interval, p = even_difference(1.0, 4)
    >>> round(interval.low, 3), interval.high, p
    (0.51, 1.0, 0.125)
    """
    z = float(norm.ppf(0.5 + confidence / 2))
    reach, most = z * z / (tasks + z * z), max(1.0, abs(mean))
    even = Interval(mean, mean - reach, mean + reach).within(-most, most)
    return even, min(1.0, 2.0 ** (1 - tasks)) if abs(mean) > _ROUNDING else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number: rejecting those up to a level errs at all with at most that chance.

    Holm (1979): the smallest of m is multiplied by m, the next by m - 1 and so on, none falling below one before it.

    >>> holm([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = least
    return adjusted


def _paired(first: ArrayLike, second: ArrayLike) -> tuple[float, float, float, int]:
    if any(np.asarray(scores).dtype.kind in "US" for scores in (first, second)):
        raise ValueError("scores are numbers, and success strings are not: `bits` turns them into a matrix")
    a, b = np.atleast_2d(np.asarray(first, np.float64)), np.atleast_2d(np.asarray(second, np.float64))
    if a.shape != b.shape or a.ndim != 2 or a.size < 2:
        raise ValueError(
            f"expected two equal shapes (seeds, levels) with at least two scores, got {a.shape} and {b.shape}"
        )
    d = a - b
    if not np.isfinite(d).all():
        raise ValueError("scores must be finite numbers; leave out levels that were not played by both")
    seeds, levels = d.shape
    mean = float(d.mean())
    if min(seeds, levels) == 1:
        return mean, float(d.var(ddof=1)) / d.size, d.size - 1.0, d.size
    by_seed, by_level = d.mean(1), d.mean(0)
    ms_seeds = levels * float(by_seed.var(ddof=1))
    ms_levels = seeds * float(by_level.var(ddof=1))
    rest = d - by_seed[:, None] - by_level[None, :] + mean
    ms_rest = float((rest**2).sum()) / ((seeds - 1) * (levels - 1))
    total = ms_seeds + ms_levels - ms_rest
    parts = [(ms_seeds, seeds - 1), (ms_levels, levels - 1), (ms_rest, (seeds - 1) * (levels - 1))]
    if total < max(ms_seeds, ms_levels):
        parts = [max(parts[:2])]
        total = parts[0][0]
    scale = sum(square**2 / degrees for square, degrees in parts)
    return mean, total / d.size, total**2 / scale if scale > 0 else math.inf, levels


def bits(success: Sequence[str]) -> NDArray[np.float64]:
    """Turn success strings into a float64 matrix (seeds, tasks).

    >>> bits(["10", "11"]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return np.array([[character == "1" for character in row] for row in success], dtype=np.float64)


def wilson_interval(successes: float, trials: int) -> Interval:
    """Wilson score interval of a share, sensible at 0 % and 100 % too.

    >>> wilson_interval(10, 10).high, round(wilson_interval(10, 10).low, 3)
    (1.0, 0.722)
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    z = float(norm.ppf(0.5 + CONFIDENCE / 2))
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * (share * (1 - share) / trials + z * z / (4 * trials * trials)) ** 0.5
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def success_interval(success: Sequence[str]) -> Interval:
    """Success rate over seeds and tasks, from one success string per seed, as `paired_comparison` with 0, cut to 0..1.

    Wilson over tasks with one seed, and where all seeds and tasks agree.
    """
    matrix = bits(success)
    if matrix.shape[0] == 1 or matrix.min() == matrix.max():
        return wilson_interval(float(matrix.mean(axis=0).sum()), matrix.shape[1])
    return paired_comparison(matrix, np.zeros_like(matrix), confidence=CONFIDENCE).within(0.0, 1.0)


def paired_difference(success: Sequence[str], other: Sequence[str]) -> Interval:
    """Success minus the other policy's as `paired_comparison` has it, of strings in the same order of seeds.

    >>> paired_difference(["1110"], ["1100"]).mean
    0.25
    """
    return paired_comparison(bits(success), bits(other), confidence=CONFIDENCE)


def seed_band(values: Sequence[float], trials: int) -> Interval:
    """One point of a learning curve with its 95 % band: success rates, one per seed, over `trials` tasks each.

    Several seeds: t interval of their mean, cut to 0..1. One seed: Wilson interval over its tasks.
    """
    rates = np.asarray(values, dtype=np.float64)
    if len(rates) == 1:
        return wilson_interval(float(rates[0]) * trials, trials)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, len(rates) - 1)) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    mean = float(rates.mean())
    return Interval(mean, mean - half, mean + half).within(0.0, 1.0)


def over_tasks(scores: ArrayLike) -> Interval:
    """Mean of scores (tasks, samples) within 0..1, for new tasks and new samples of them, cut to 0..1.

    The t interval of the tasks' means, as samples of a task depend on each other. Where every score is 0, or every
    score is 1, Wilson's over the tasks; where all tasks have the same mean between them, that of `even_difference`.

    >>> over_tasks([[1, 1], [0, 1], [0, 0], [1, 1]]).mean
    0.625
    """
    means = np.asarray(scores, np.float64).mean(axis=1)
    mean, tasks = float(means.mean()), len(means)
    if mean in (0.0, 1.0) or tasks == 1 or (np.shape(scores)[1] == 1 and set(means.tolist()) <= {0.0, 1.0}):
        return wilson_interval(mean * tasks, tasks)
    if alike(means):
        return even_difference(mean, tasks)[0].within(0.0, 1.0)
    reach = float(t.ppf(0.5 + CONFIDENCE / 2, tasks - 1)) * float(means.std(ddof=1)) / tasks**0.5
    return Interval(mean, mean - reach, mean + reach).within(0.0, 1.0)


def over_samples(scores: ArrayLike) -> Interval | None:
    """Mean of scores (tasks, samples) within 0..1, for new samples of the same tasks; None with one sample each.

    How far another evaluation on the same tasks may come out: a normal interval of the variance within tasks.
    """
    given = np.asarray(scores, np.float64)
    tasks, samples = given.shape
    if samples < 2:
        return None
    variance = float(given.var(axis=1, ddof=1).sum()) / (samples * tasks**2)
    reach = float(norm.ppf(0.5 + CONFIDENCE / 2)) * variance**0.5
    mean = float(given.mean())
    return Interval(mean, mean - reach, mean + reach).within(0.0, 1.0)


def percent(interval: Interval | None) -> str:
    """A success rate with its interval.

    >>> percent(Interval(0.5, 0.45, 0.55))
    '50.0 [45.0, 55.0]'
    """
    if interval is None:
        return "-"
    return f"{100 * interval.mean:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def points(interval: Interval | None) -> str:
    """A difference of success rates in percentage points, with sign.

    >>> points(Interval(0.05, -0.01, 0.11))
    '+5.0 [-1.0, +11.0]'
    """
    if interval is None:
        return "-"
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
