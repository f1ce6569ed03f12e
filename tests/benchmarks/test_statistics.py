"""Intervals, by hand."""

import math

import pytest

from benchmarks.statistics import paired_difference, seed_band, success_interval, wilson_interval


def test_wilson_interval_by_hand():
    # n = 4, share 1/2, z = 1.959964: z^2 = 3.841459; centre 1/2; half = z/(1+z^2/4) sqrt(1/16 + z^2/64)
    # = 1.959964 / 1.960365 * sqrt(0.0625 + 0.0600228) = 0.999795 * 0.350033 = 0.349962.
    interval = wilson_interval(2, 4)
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.150038, abs=1e-5)
    assert interval.high == pytest.approx(0.849962, abs=1e-5)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (-1, 4), (5, 4)])
def test_wilson_interval_refuses_impossible_counts(successes, trials):
    with pytest.raises(ValueError, match="0 <= successes <= trials"):
        wilson_interval(successes, trials)


def test_one_seed_pairs_tasks():
    # Differences 1, 0, 0, 1: mean 1/2, variance 1/3, standard error sqrt(1/12) = 0.288675, t(0.975, 3) = 3.182446.
    interval = paired_difference(["1101"], ["0100"])
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.5 - 3.182446 * 0.288675, abs=1e-5)
    assert not interval.excludes_zero


def test_pairing_is_by_task_and_seed():
    # The same number of successes everywhere, but on other tasks: no difference on average, and a wide interval.
    same = paired_difference(["1100", "1100"], ["1100", "1100"])
    other = paired_difference(["1100", "1100"], ["0011", "0011"])
    assert same.mean == other.mean == 0
    assert same.high == 0 < other.high


def test_seeds_that_disagree_widen_the_interval():
    tasks = "10" * 50
    agree = paired_difference([tasks, tasks, tasks], ["0" * 100] * 3)
    disagree = paired_difference(["1" * 100, tasks, "0" * 100], ["0" * 100] * 3)
    assert agree.mean == disagree.mean == 0.5
    assert disagree.high - disagree.low > 3 * (agree.high - agree.low)


def test_different_shapes_are_not_paired():
    with pytest.raises(ValueError, match="equal shapes"):
        paired_difference(["110"], ["11"])


def test_success_interval_stays_within_zero_and_one():
    assert success_interval(["1111", "1111"]).high == 1.0
    assert success_interval(["1111", "1111"]).low < 1.0
    interval = success_interval(["1000", "0100", "0010"])
    assert 0 <= interval.low <= interval.mean == 0.25 <= interval.high <= 1


def test_seed_band_by_hand():
    # Rates 0.4, 0.5, 0.6: mean 0.5, standard deviation 0.1, t(0.975, 2) = 4.302653.
    band = seed_band([0.4, 0.5, 0.6], 100)
    assert band.mean == pytest.approx(0.5)
    assert band.high - band.mean == pytest.approx(4.302653 * 0.1 / math.sqrt(3), abs=1e-6)
    assert seed_band([0.25], 8) == wilson_interval(2, 8)
