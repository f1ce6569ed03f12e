"""Confidence intervals of success rates that were measured on the same tasks with several training seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from baselines.comparison import Interval, paired_comparison

#: Coverage of every interval in tables and figures.
CONFIDENCE = 0.95


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
    """Success rate of a policy over seeds and tasks, from its success strings (one per seed).

    One seed: Wilson over tasks. Several: for new seeds and new tasks, as `paired_difference`, cut to 0..1; Wilson
    over tasks where all seeds and tasks agree.
    """
    matrix = bits(success)
    if matrix.shape[0] == 1 or matrix.min() == matrix.max():
        return wilson_interval(float(matrix.mean(axis=0).sum()), matrix.shape[1])
    return paired_comparison(matrix, np.zeros_like(matrix), confidence=CONFIDENCE).within(0.0, 1.0)


def paired_difference(success: Sequence[str], other: Sequence[str]) -> Interval:
    """Success minus the other policy's success, paired over tasks and seeds (strings in the same order).

    The interval is that of `baselines.comparison.paired_comparison`: for new seeds and new tasks.

    Raises:
        ValueError: when the two differ in the number of seeds or tasks.

    >>> paired_difference(["1110"], ["1100"]).mean
    0.25
    """
    return paired_comparison(bits(success), bits(other), confidence=CONFIDENCE)


def seed_band(values: Sequence[float], trials: int) -> Interval:
    """One point of a learning curve with its 95 % band.

    Args:
        values: one success rate per seed.
        trials: validation tasks behind each.

    Returns:
        Several seeds: t interval of their mean, cut to 0..1. One seed: Wilson interval over its tasks.
    """
    rates = np.asarray(values, dtype=np.float64)
    if len(rates) == 1:
        return wilson_interval(float(rates[0]) * trials, trials)
    half = float(t.ppf(0.5 + CONFIDENCE / 2, len(rates) - 1)) * float(rates.std(ddof=1)) / len(rates) ** 0.5
    mean = float(rates.mean())
    return Interval(mean, mean - half, mean + half).within(0.0, 1.0)
