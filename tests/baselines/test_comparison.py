"""paired_comparison: by hand, against scipy where it is the same thing, and its coverage."""

import numpy as np
import pytest
from scipy import stats

from baselines.comparison import Interval, paired_comparison


def test_one_seed_is_the_paired_t_interval() -> None:
    first, second = [1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 1]
    found = paired_comparison(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx(1 / 6)
    assert not found.excludes_zero


def test_two_seeds_by_hand() -> None:
    # d = [[4, 2], [2, 0]]: seed means 3 and 1, level means 3 and 1, mean 2, nothing left over.
    # MS_seeds = 2 * var(3, 1) = 4 = MS_levels, MS_rest = 0; variance (4 + 4 - 0) / 4 = 2;
    # degrees of freedom 8^2 / (4^2/1 + 4^2/1) = 2; t = 4.3027.
    found = paired_comparison([[4, 2], [2, 0]], np.zeros((2, 2)))
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.30265 * 2**0.5, rel=1e-5)


def test_equal_scores_have_no_width() -> None:
    found = paired_comparison(np.ones((3, 5)), np.ones((3, 5)))
    assert (found.mean, found.low, found.high, found.excludes_zero) == (0.0, 0.0, 0.0, False)


def test_a_lucky_seed_does_not_count_as_many_levels() -> None:
    # One of three seeds gains 30 points on every level: surely positive over levels, not over seeds.
    first = np.zeros((3, 500))
    first[0] = 0.3
    found = paired_comparison(first, np.zeros((3, 500)))
    assert found.mean == pytest.approx(0.1)
    assert not found.excludes_zero


def test_coverage_over_new_seeds_and_levels() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        d = 0.2 + rng.normal(0, 0.1, (4, 1)) + rng.normal(0, 0.5, (1, 40)) + rng.normal(0, 0.5, (4, 40))
        found = paired_comparison(d, np.zeros_like(d))
        covered += found.low <= 0.2 <= found.high
    assert 0.93 <= covered / 1000 <= 0.98  # binomial standard error 0.007


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), r"got \(2, 3\) and \(3, 2\)"),
        ([1.0], [0.0], "at least two scores"),
        ([1.0, np.nan], [0.0, 1.0], "finite"),
    ],
)
def test_wrong_input_is_named(first: object, second: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        paired_comparison(first, second)  # type: ignore[arg-type]


def test_an_interval_is_cut_to_what_is_possible() -> None:
    assert Interval(0.9, 0.7, 1.1).within(0.0, 1.0) == Interval(0.9, 0.7, 1.0)
    assert Interval(0.0, -1.5, 1.5).within(-1.0, 1.0) == Interval(0.0, -1.0, 1.0)


def test_confidence_is_a_share() -> None:
    with pytest.raises(ValueError, match="between 0 and 1, got 95"):
        paired_comparison([1, 0], [0, 0], confidence=95)
