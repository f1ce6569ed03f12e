"""Whether one policy beats another: a difference paired over levels and seeds, with its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval, `low <= mean <= high`."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0

    def within(self, least: float, most: float) -> Interval:
        """Return the interval cut to what is possible, such as 0..1 for a share."""
        return Interval(self.mean, max(least, self.low), min(most, self.high))


def paired_comparison(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return the mean of first - second, of two policies that played the same levels with the same training seeds.

    The differences d[s, l] (seed s, level l) are taken as mean + seed effect + level effect + rest, with seeds and
    levels both drawn at random, so the answer speaks about new seeds and new levels. With the mean squares of the
    two-way analysis of variance without replication, the variance of the mean over S seeds and L levels is

        (MS_seeds + MS_levels - MS_rest) / (S L),

    with Satterthwaite's degrees of freedom for the t interval (Searle, Casella, McCulloch 1992, chapter 4). Where
    chance makes MS_rest the largest, the larger of the other two stands alone. With one seed only levels are drawn,
    and the interval speaks about that seed alone; likewise with one level.

    Args:
        first: scores (S, L) or (L,), for instance success as booleans, or success shares over repeats.
        second: the same shape; row s is what row s of `first` is compared with.
        confidence: of the interval, in (0, 1).

    Raises:
        ValueError: shapes differ, a single score, a score that is not finite, or a confidence outside (0, 1).

    >>> result = paired_comparison([[1, 1, 0, 1], [1, 1, 1, 1]], [[0, 1, 0, 0], [0, 1, 0, 1]])
    >>> result.mean, round(result.low, 3), round(result.high, 3), result.excludes_zero
    (0.5, -0.15, 1.15, False)
    """
    a, b = np.atleast_2d(np.asarray(first, np.float64)), np.atleast_2d(np.asarray(second, np.float64))
    if a.shape != b.shape or a.ndim != 2 or a.size < 2:
        raise ValueError(
            f"expected two equal shapes (seeds, levels) with at least two scores, got {a.shape} and {b.shape}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    d = a - b
    if not np.isfinite(d).all():
        raise ValueError("scores must be finite numbers; leave out levels that were not played by both")
    seeds, levels = d.shape
    mean = float(d.mean())
    if min(seeds, levels) == 1:
        variance, freedom = float(d.var(ddof=1)) / d.size, d.size - 1.0
    else:
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
        variance, freedom = total / d.size, total**2 / scale if scale > 0 else math.inf
    reach = float(stats.t.ppf(0.5 + confidence / 2, freedom)) * math.sqrt(variance) if variance > 0 else 0.0
    return Interval(mean, mean - reach, mean + reach)
