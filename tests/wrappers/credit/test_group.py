import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import close, random_table
from wrappers.credit.group import counting_sort, number_pairs, standardise, visit_advantages
from wrappers.credit.grpo import PRESETS


def check_pairs(pairs, n_first, n_second):
    first, second = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    ids, example = number_pairs(first, n_first, second, n_second)
    distinct = sorted(set(pairs))
    assert ids.tolist() == [distinct.index(pair) for pair in pairs]
    assert example.tolist() == [pairs.index(pair) for pair in distinct]


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60))
def test_number_pairs_equals_sorting(pairs):
    check_pairs(pairs, 6, 8)


@pytest.mark.parametrize("bounds", [(1, 1), (300, 70_000), (70_000, 3), (2**33, 2**40)])
def test_pairs_of_any_range_equal_sorting(bounds):
    # Few possible pairs are numbered in a table of them, others are sorted 16 bits at a time.
    rng = np.random.default_rng(bounds[0])
    first, second = (rng.choice(rng.integers(0, bound, 9), 200).tolist() for bound in bounds)
    check_pairs(list(zip(first, second, strict=True)), *bounds)


@pytest.mark.parametrize("n_keys", [1, 2, 65_536, 65_537, 2**32 + 1])
def test_counting_sort_is_stable(n_keys):
    keys = np.random.default_rng(0).integers(0, n_keys, 300)
    keys[::7] = n_keys - 1
    keys[::5] = 0
    assert counting_sort(keys, n_keys).tolist() == sorted(range(300), key=lambda i: keys[i])


def test_statistics_by_hand() -> None:
    # group 0: 0, 1, 5: mean 2, deviations -2 -1 3, sum of squares 14, sample std sqrt(7); group 1: 4, 4: no contrast.
    values, groups = np.array([0.0, 4.0, 1.0, 4.0, 5.0]), np.array([0, 1, 0, 1, 0])
    expected = np.array([-2, 0, -1, 0, 3]) / np.sqrt(7)
    close(standardise(values, groups, 2, eps=0.0), expected)
    # population: sqrt(14 / 3); none: the deviations; batch: all five deviations, 14 / (5 - 1).
    expected *= np.sqrt(7) / np.sqrt(14 / 3)
    close(standardise(values, groups, 2, eps=0.0, ddof=0), expected)
    close(standardise(values, groups, 2, std="none"), [-2, 0, -1, 0, 3])
    close(standardise(values, groups, 2, eps=0.0, std="batch"), np.array([-2, 0, -1, 0, 3]) / np.sqrt(3.5))
    # Two trajectories, of two rows worth 1 and one row worth 4; over trajectories: mean 2.5, over rows: mean 2.
    values, groups = np.array([1.0, 1.0, 4.0]), np.zeros(3, np.int64)
    close(standardise(values, groups, 1, members=np.array([0, 2]), std="none"), [-1.5, -1.5, 1.5])
    close(standardise(values, groups, 1, std="none"), [-1, -1, 2])
    # 0.1 + 0.2 and 0.3 differ by one unit in the last place, which a std of 1e-17 + 1e-6 would keep tiny, but a mean
    # of many such values divided by eps would not.
    values = np.array([0.1 + 0.2, 0.3, 0.3] * 40) * 1e8
    assert (standardise(values, np.zeros(120, np.int64), 1, std="group") == 0).all()
    assert (standardise(values, np.zeros(120, np.int64), 1, std="none") == 0).all()
    # Small values with real contrast keep it.
    assert standardise(np.array([1e-9, 2e-9]), np.zeros(2, np.int64), 1, eps=0.0) == pytest.approx(
        [-(0.5**0.5), 0.5**0.5]
    )
    # Both trajectories are worth 1; the second row of the first is penalised to 0.9.
    values, members = np.array([1.0, 0.9, 1.0]), np.array([0, 2])
    groups = np.zeros(3, np.int64)
    close(standardise(values, groups, 1, members=members, std="none"), [0, -0.1, 0])
    assert standardise(values, groups, 1, members=members).tolist() == [0, 0, 0]
    table = random_table(5)
    values = np.random.default_rng(0).normal(size=len(table))
    scored = np.arange(len(table)) % 3 > 0
    result = visit_advantages(values, table.state, len(table.states), PRESETS["paper"], scored=scored)
    values[~scored] = 1e9
    assert (result == visit_advantages(values, table.state, len(table.states), PRESETS["paper"], scored=scored)).all()
    assert (result[~scored] == 0).all()
    assert np.any(result != 0)


@pytest.mark.parametrize(("std", "raw"), [("group", 7 / (1 + 1e-6)), ("none", 7.0)])
def test_a_group_of_one_scores_zero_or_raw(std, raw):
    values, groups = np.array([7.0, 1.0, 1.0]), np.array([0, 1, 1])
    assert standardise(values, groups, 2, std=std).tolist() == [0, 0, 0]
    assert standardise(values, groups, 2, std=std, singleton="raw").tolist() == [raw, 0, 0]
