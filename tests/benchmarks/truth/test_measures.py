"""The measures: by hand, and against naive twins; groups that are cut into parts."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from benchmarks.statistics import bootstrap_weights
from benchmarks.truth.measures import MEASURES, Comparisons, Sample, centred_ranks, intervals, measures
from tests.playing import filled
from tests.refusals import refuses
from wrappers.credit.group import split_groups


def comparisons(truth, sets, task=None):
    task = [0] * len(truth) if task is None else task
    rows = np.arange(len(truth))
    return Comparisons(rows, np.array(truth, float), np.array(task), np.array(sets), max(task) + 1, max(sets) + 1)


def found(truth, credit, sets, task=None, smallest=None):
    own = comparisons(truth, sets, task)
    sample = Sample(own, own if smallest is None else comparisons(truth, smallest, task))
    return dict(zip(MEASURES, measures(sample.sums(np.array(credit, float)).sum(0)).tolist(), strict=True))


def test_measures_by_hand() -> None:
    # Set 0: truth 1, 0, -1 with credit .5, .5, -1. Ranks of the truth 3, 2, 1; of the credit 2.5, 2.5, 1. Centred:
    # (1, 0, -1) and (.5, .5, -1): product 1.5, squares 2 and 1.5, correlation 1.5 / sqrt(3) = .866025.
    # Set 1: truth 1, -inf with credit -1, 1: correlation -1. Set 2: truth 1, 1: nothing to rank.
    truth, credit = [1, 0, -1, 1, -math.inf, 1, 1], [0.5, 0.5, -1, -1, 1, 0, 2]
    result = found(truth, credit, [0, 0, 0, 1, 1, 2, 2])
    # Weighted by rows: (3 * .866025 - 2) / 5.
    assert result["within"] == result["same"] == pytest.approx((3 * 1.5 / math.sqrt(3) - 2) / 5)
    # Truth is not 0 in six rows; their credits .5 right, -1 right, -1 wrong, 1 wrong, 0, 2 right.
    assert (result["sign"], result["sign_all"]) == (pytest.approx(3 / 5), pytest.approx(3.5 / 6))
    assert result["coverage"] == pytest.approx(6 / 7)
    # Overall ranks of the truth: -inf 1, -1 2, 0 3, the four 1s 5.5; of the credit: -1 twice 1.5, 0 3, .5 twice 4.5,
    # 1 6, 2 7.
    assert result["overall"] == pytest.approx(
        np.corrcoef([5.5, 3, 2, 5.5, 1, 5.5, 5.5], [4.5, 4.5, 1.5, 1.5, 6, 3, 7])[0, 1]
    )
    result = found([1, -1], [0, 0], [0, 0])
    assert (result["within"], result["overall"], result["coverage"], result["sign_all"]) == (0, 0, 0, 0.5)
    assert math.isnan(result["sign"])
    result = found([1, 1], [1, 2], [0, 0])
    assert math.isnan(result["within"])
    assert math.isnan(result["overall"])
    assert result["sign"] == 1
    assert found([1, -1], [0.1 + 0.2, 0.3], [0, 0])["within"] == 0
    assert found([1, -1], [1e-12, -1e-12], [0, 0])["coverage"] == 0
    assert found([1, -1], [math.nan, -1], [0, 0]) == found([1, -1], [0, -1], [0, 0])
    # In groups of two, rows 0-1 and 2-3 are compared; the credit ranks both pairs right, and only the larger group
    # sees that -1 got more than 1: truth ranks 3.5, 1.5, 3.5, 1.5, credit ranks 2, 1, 4, 3: centred products
    # -.5 + 1.5 + 1.5 - .5 = 2 over sqrt(4 * 5).
    result = found([1, -1, 1, -1], [2, 1, 4, 3], [0, 0, 0, 0], smallest=[0, 0, 1, 1])
    assert (result["same"], result["within"]) == (1, pytest.approx(2 / math.sqrt(20)))


def naive(truth, credit, sets):
    """The measures by loops over rows and sets."""
    credit = [0.0 if math.isnan(c) else round(c, 9) for c in credit]
    weighted = rows = 0.0
    for name in sorted(set(sets)):
        x = [c for c, s in zip(credit, sets, strict=True) if s == name]
        y = [t for t, s in zip(truth, sets, strict=True) if s == name]
        if len(set(y)) > 1:
            rows += len(x)
            weighted += len(x) * (spearmanr(x, y).statistic if len(set(x)) > 1 else 0.0)
    both = [(c, t) for c, t in zip(credit, truth, strict=True) if c != 0 and t != 0]
    points = [0.5 if c == 0 else float((c > 0) == (t > 0)) for c, t in zip(credit, truth, strict=True) if t != 0]
    return {
        "within": weighted / rows,
        "overall": spearmanr(credit, truth).statistic,
        "sign": sum((c > 0) == (t > 0) for c, t in both) / len(both),
        "coverage": sum(c != 0 for c in credit) / len(credit),
        "sign_all": sum(points) / len(points),
    }


@pytest.mark.parametrize("seed", range(2))
def test_agreement_with_loops(seed):
    rng = np.random.default_rng(seed)
    n = 200
    sets = rng.integers(0, 40, n)
    truth = rng.choice([-math.inf, -3, -1, 0, 1], n)
    credit = rng.choice([-1.5, -1, 0, 0.5, 2, math.nan], n) + rng.choice([0, 1e-13], n)
    task = sets // 8
    result = found(truth.tolist(), credit, sets.tolist(), task.tolist())
    for name, value in naive(truth.tolist(), credit.tolist(), sets.tolist()).items():
        assert result[name] == pytest.approx(value, abs=1e-12), name


def test_rankings_and_differences() -> None:
    rng = np.random.default_rng(1)
    truth, credit = rng.choice([-math.inf, -1, 0, 1], 60), rng.choice([-2.0, -1, 0, 1, 3], 60)
    sets = rng.integers(0, 10, 60).tolist()
    one, other = found(truth, credit, sets), found(truth, np.sign(credit) * credit**2, sets)
    assert one == pytest.approx(other)
    assert centred_ranks(np.array([3.0, 1.0, 3.0, 9.0]), np.array([1, 1, 1, 0]), 2).tolist() == [0.5, -1, 0.5, 0]
    # Two tasks, credit right in one and wrong in the other: a resample holds the right one 0, 1 or 2 times of 2.
    sample = comparisons([1, -1, 1, -1], [0, 0, 1, 1], [0, 0, 1, 1])
    sums = Sample(sample, sample).sums(np.array([1.0, -1, -1, 1]))
    weights = bootstrap_weights(2, 400, seed=0)
    assert (weights.sum(1) == 2).all()
    assert set(measures(weights @ sums)[:, 0].tolist()) == {-1, 0, 1}
    interval = intervals(sums, weights)["within"]
    assert (interval.low, interval.mean, interval.high) == (-1, 0, 1)
    assert np.array_equal(weights, bootstrap_weights(2, 400, seed=0))
    sample = comparisons([1, -1, 1, -1], [0, 0, 1, 1], [0, 0, 1, 1])
    sample = Sample(sample, sample)
    one, other = sample.sums(np.array([1.0, -1, -1, 1])), sample.sums(np.array([2.0, -3, -4, 5]))
    weights = bootstrap_weights(2, 100, seed=0)
    difference = intervals(one, weights, other)["within"]
    assert (difference.low, difference.mean, difference.high) == (0, 0, 0)
    sample = comparisons([1, 1], [0, 0])
    sums = Sample(sample, sample).sums(np.zeros(2))
    result = intervals(sums, bootstrap_weights(1, 10, 0))
    assert (result["within"], result["sign"], result["coverage"].mean) == (None, None, 0)
    halves = split_groups(GROUPS, 2)
    assert (halves.group.tolist(), halves.groups) == ([0, 2, 0, 2, 1, 3, 1, 3], ((0, 0), (0, 1), (1, 0), (1, 1)))
    assert np.array_equal(split_groups(GROUPS, 4).group, GROUPS.group)
    refuses(ValueError, "cannot be cut into parts of 3", split_groups, GROUPS, 3)
    truth = np.array([1.0, 2.0, 3.0, 4.0, math.nan, 5.0, 6.0, 7.0])
    known = Comparisons.of(GROUPS, GROUPS.group, truth)
    assert known.rows.tolist() == [0, 1, 2, 3, 5, 6, 7]
    # The credit of the row that is left out does not count.
    one, other = np.arange(8.0), np.array([0, 1, 2, 3, 99, 5, 6, 7.0])
    assert np.array_equal(Sample(known, known).sums(one), Sample(known, known).sums(other))


# Two groups of four episodes of one step, in mixed order.
GROUPS = filled(group=[0, 1] * 4, trajectory=range(8), won=[1, 0, 0, 0, 1, 0, 1, 0])
