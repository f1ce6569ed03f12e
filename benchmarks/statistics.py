"""Confidence intervals of success rates that were measured on the same levels with several training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, t

#: Coverage of every interval in tables and figures.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval, `low <= mean <= high`."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def bits(success: Sequence[str]) -> np.ndarray:
    """Turn success strings into a float64 matrix (seeds, levels).

    >>> bits(["10", "11"]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return np.array([[character == "1" for character in row] for row in success], dtype=np.float64)


def crossed_interval(values: ArrayLike) -> Interval:
    """Mean of a (seeds, levels) matrix with a 95 % interval for new seeds *and* new levels.

    Both factors are random and crossed, `x[s, l] = mean + seed[s] + level[l] + rest[s, l]`, so the variance of the mean is
    `(MS_seed + MS_level - MS_rest) / (S L)` with the mean squares of the two-way analysis of variance, and its degrees
    of freedom follow Satterthwaite. Where seeds differ no more than chance makes them, this is the interval over
    levels; where they differ, few seeds make it wide. With one seed it is the t interval over levels.

    Give it differences (method minus clone, level by level, seed by seed) and the comparison is paired.

    Args:
        values: shape (S, L) with L >= 2.

    Raises:
        ValueError: on another shape.

    >>> crossed_interval([[0, 0, 1, 1], [0, 0, 1, 1]]).mean
    0.5
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] < 1 or x.shape[1] < 2:
        raise ValueError(f"expected a matrix (seeds, levels) with at least two levels, got shape {x.shape}")
    seeds, levels = x.shape
    mean = float(x.mean())
    by_level = float(x.mean(axis=0).var(ddof=1)) * seeds
    total, freedom = by_level, levels - 1.0
    if seeds > 1:
        by_seed = float(x.mean(axis=1).var(ddof=1)) * levels
        rest = x - x.mean(axis=0, keepdims=True) - x.mean(axis=1, keepdims=True) + mean
        by_rest = float((rest**2).sum()) / ((seeds - 1) * (levels - 1))
        # A factor whose component would be negative is taken as absent, never as a credit.
        if by_seed > by_rest and by_level <= by_rest:
            total, freedom = by_seed, seeds - 1.0
        elif by_seed > by_rest:
            total = by_seed + by_level - by_rest
            squares = by_seed**2 / (seeds - 1) + by_level**2 / (levels - 1)
            squares += by_rest**2 / ((seeds - 1) * (levels - 1))
            freedom = total**2 / squares
    variance = total / (seeds * levels)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, freedom)) * variance**0.5 if variance > 0 else 0.0
    return Interval(mean, mean - half, mean + half)


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
    """Success rate of a policy over seeds and levels, from its success strings (one per seed).

    One seed: Wilson over levels. Several: `crossed_interval`, cut to 0..1; Wilson over levels where all seeds and
    levels agree.
    """
    matrix = bits(success)
    if matrix.shape[0] == 1 or matrix.min() == matrix.max():
        return wilson_interval(float(matrix.mean(axis=0).sum()), matrix.shape[1])
    interval = crossed_interval(matrix)
    return Interval(interval.mean, max(0.0, interval.low), min(1.0, interval.high))


def paired_difference(success: Sequence[str], other: Sequence[str]) -> Interval:
    """Success minus the other policy's success, paired over levels and seeds (strings in the same order).

    Raises:
        ValueError: when the two differ in the number of seeds or levels.

    >>> paired_difference(["1110"], ["1100"]).mean
    0.25
    """
    left, right = bits(success), bits(other)
    if left.shape != right.shape:
        raise ValueError(f"not paired: (seeds, levels) are {left.shape} and {right.shape}")
    return crossed_interval(left - right)


def seed_band(values: Sequence[float], trials: int) -> Interval:
    """One point of a learning curve with its 95 % band.

    Args:
        values: one success rate per seed.
        trials: validation levels behind each.

    Returns:
        Several seeds: t interval of their mean, cut to 0..1. One seed: Wilson interval over its levels.
    """
    rates = np.asarray(values, dtype=np.float64)
    if len(rates) == 1:
        return wilson_interval(float(rates[0]) * trials, trials)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, len(rates) - 1)) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    mean = float(rates.mean())
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))
