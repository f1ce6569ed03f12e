"""Intervals, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics import (
    Interval,
    even_difference,
    over_tasks,
    paired_comparison,
    paired_difference,
    paired_t,
    seed_band,
    seeds_needed,
    success_interval,
    wilson_interval,
)
from tests.refusals import refuses


def test_intervals_and_pairing_by_hand() -> None:
    # As numbers they would be a hundred and ten, and a hundred: two levels of one seed.
    refuses(ValueError, "`bits`", paired_comparison, ["110", "100"], ["100", "100"])
    for successes, trials in ((0, 0), (-1, 4), (5, 4)):
        refuses(ValueError, "0 <= successes <= trials", wilson_interval, successes, trials)
    # n = 4, share 1/2, z = 1.959964: z^2 = 3.841459; centre 1/2; half = z/(1+z^2/4) sqrt(1/16 + z^2/64)
    # = 1.959964 / 1.960365 * sqrt(0.0625 + 0.0600228) = 0.999795 * 0.350033 = 0.349962.
    interval = wilson_interval(2, 4)
    assert (interval.mean, interval.low) == (0.5, pytest.approx(0.150038, abs=1e-5))
    assert interval.high == pytest.approx(0.849962, abs=1e-5)
    # Differences 1, 0, 0, 1: mean 1/2, variance 1/3, standard error sqrt(1/12) = 0.288675, t(0.975, 3) = 3.182446.
    interval = paired_difference(["1101"], ["0100"])
    assert (interval.mean, interval.low) == (0.5, pytest.approx(0.5 - 3.182446 * 0.288675, abs=1e-5))
    assert not interval.excludes_zero
    # The same number of successes everywhere, but on other tasks: no difference on average, and a wide interval.
    same = paired_difference(["1100", "1100"], ["1100", "1100"])
    other = paired_difference(["1100", "1100"], ["0011", "0011"])
    assert same.mean == other.mean == 0
    assert 0 < same.high < 0.5 < other.high
    tasks = "10" * 50
    agree = paired_difference([tasks, tasks, tasks], ["0" * 100] * 3)
    disagree = paired_difference(["1" * 100, tasks, "0" * 100], ["0" * 100] * 3)
    assert agree.mean == disagree.mean == 0.5
    assert disagree.high - disagree.low > 3 * (agree.high - agree.low)
    refuses(ValueError, "equal shapes", paired_difference, ["110"], ["11"])
    assert success_interval(["1111", "1111"]).high == 1.0
    assert success_interval(["1111", "1111"]).low < 1.0
    interval = success_interval(["1000", "0100", "0010"])
    assert 0 <= interval.low <= interval.mean == 0.25 <= interval.high <= 1


def test_bands_over_seeds_and_tasks_that_agree_or_not() -> None:
    # Rates 0.4, 0.5, 0.6: mean 0.5, standard deviation 0.1, t(0.975, 2) = 4.302653.
    band = seed_band([0.4, 0.5, 0.6], 100)
    assert band.mean == pytest.approx(0.5)
    assert band.high - band.mean == pytest.approx(4.302653 * 0.1 / math.sqrt(3), abs=1e-6)
    assert seed_band([0.25], 8) == wilson_interval(2, 8)
    first, second = [1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 1]
    found = paired_comparison(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(1 / 6)
    assert not found.excludes_zero
    # d = [[4, 2], [2, 0]]: seed means 3 and 1, level means 3 and 1, mean 2, nothing left over.
    # MS_seeds = 2 * var(3, 1) = 4 = MS_levels, MS_rest = 0; variance (4 + 4 - 0) / 4 = 2;
    # degrees of freedom 8^2 / (4^2/1 + 4^2/1) = 2; t = 4.3027.
    found = paired_comparison([[4, 2], [2, 0]], np.zeros((2, 2)))
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.30265 * 2**0.5, rel=1e-5)
    assert Interval(0.9, 0.7, 1.1).within(0.0, 1.0) == Interval(0.9, 0.7, 1.0)
    assert Interval(0.0, -1.5, 1.5).within(-1.0, 1.0) == Interval(0.0, -1.0, 1.0)
    refuses(ValueError, r"got \(2, 3\) and \(3, 2\)", paired_comparison, np.zeros((2, 3)), np.zeros((3, 2)))
    refuses(ValueError, "at least two scores", paired_comparison, [1.0], [0.0])
    refuses(ValueError, "finite", paired_comparison, [1.0, np.nan], [0.0, 1.0])
    refuses(ValueError, "between 0 and 1, got 95", paired_comparison, [1, 0], [0, 0], confidence=95)
    first, second = np.array([0.3, 0.8, 1.0]), np.array([0.2, 0.7, 0.9])
    assert np.ptp(first - second) > 0
    assert not paired_comparison(first, second).excludes_zero
    # d = [[1, 0], [0, 1]]: seeds and levels have the mean 1/2 each, so both mean squares are 0, whatever is left over.
    found = paired_comparison(np.eye(2), np.zeros((2, 2)))
    # 3.841459 / (2 + 3.841459) = 0.657620
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, -0.157620, 1.0), abs=1e-6)
    # Four tasks, one of two samples won in each: 1/2 +- 3.841459 / (4 + 3.841459).
    found = over_tasks([[1, 0], [0, 1], [1, 0], [0, 1]])
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.010109, 0.989891), abs=1e-6)
    # d = [[1, 1, 0, 0], [1, 0, 1, 0]]: seed means 1/2 and 1/2, level means 1, 1/2, 1/2, 0, mean 1/2.
    # MS_seeds = 0, MS_levels = 2 * (2/4) / 3 = 1/3, MS_rest = 4 * (1/2)^2 / 3 = 1/3: a sum of 0.
    # MS_levels alone: variance (1/3) / 8 = 1/24, 3 degrees of freedom, t = 3.182446: the t interval of the level means.
    found = paired_comparison([[1, 1, 0, 0], [1, 0, 1, 0]], np.zeros((2, 4)))
    assert found.high - found.mean == pytest.approx(3.182446 / 24**0.5, abs=1e-5)
    alone = paired_comparison([1, 0.5, 0.5, 0], np.zeros(4))
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))
    # One of three seeds gains 30 points on every level: surely positive over levels, not over seeds.
    first = np.zeros((3, 500))
    first[0] = 0.3
    found = paired_comparison(first, np.zeros((3, 500)))
    assert found.mean == pytest.approx(0.1)
    assert not found.excludes_zero


@pytest.mark.parametrize("first", [np.ones(4), np.ones((3, 4)), np.ones((4, 1)), np.full((3, 4), 0.1 + 0.2)])
def test_equal_differences_leave_room_for_other_tasks(first: np.ndarray) -> None:
    # Four tasks (four seeds, of one task). Wilson's width at 4 of 4: 3.841459 / (4 + 3.841459) = 0.489891.
    none = paired_comparison(first, first)
    assert (none.mean, none.low, none.high) == pytest.approx((0.0, -0.489891, 0.489891), abs=1e-6)
    some = paired_comparison(first, np.zeros_like(first))
    share = first.flat[0]
    assert (some.low, some.high) == pytest.approx((share - 0.489891, min(1.0, share + 0.489891)), abs=1e-6)
    assert even_difference(share, 4)[1] == 2 / 16  # all swapped or none, of 2^4
    assert paired_comparison(first, first, confidence=0.5).high < 0.2


def test_coverage_over_new_seeds_and_levels() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        d = 0.2 + rng.normal(0, 0.1, (4, 1)) + rng.normal(0, 0.5, (1, 40)) + rng.normal(0, 0.5, (4, 40))
        found = paired_comparison(d, np.zeros_like(d))
        covered += found.low <= 0.2 <= found.high
    assert 0.93 <= covered / 1000 <= 0.98  # binomial standard error 0.007


def test_paired_t_and_power() -> None:
    first, second = np.array([0.5, 0.7, 0.2, 0.9]), np.array([0.4, 0.5, 0.3, 0.5])
    interval, p = paired_t(first - second)
    expected = stats.ttest_rel(first, second)
    assert p == pytest.approx(expected.pvalue)
    assert (interval.low, interval.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert paired_t([0.0, 0.0])[1] == 1.0
    assert paired_t([0.1, 0.1, 0.1])[1] == 0.25  # all three heads or all three tails
    refuses(ValueError, "at least two differences", paired_t, [0.1])
    # Effect size 1: G*Power's ten pairs. Simulated: about 80 % of ten pairs are below .05.
    assert seeds_needed([0.0, 1.0, 2.0]) == 10
    found = np.mean(stats.ttest_1samp(np.random.default_rng(0).normal(1.0, 1.0, (4000, 10)), 0.0, axis=1).pvalue < 0.05)
    assert 0.78 < found < 0.83
    assert (seeds_needed([0.0, 1.0, 2.0], level=0.01), seeds_needed([-0.1, 0.1])) == (16, None)
