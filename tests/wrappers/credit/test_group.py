"""What is compared in groups: statistics, returns and penalties; GRPO, RLOO and GiGPO by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo
from wrappers.credit.group import counting_sort, number_pairs, standardise, visit_advantages
from wrappers.credit.grpo import PRESETS, grpo
from wrappers.credit.returns import discounted_returns, episode_scores, penalties
from wrappers.credit.rloo import rloo


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60))
@settings(deadline=None)
def test_number_pairs_equals_sorting(pairs):
    first, second = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    ids, example = number_pairs(first, 6, second, 8)
    distinct = sorted(set(pairs))
    assert ids.tolist() == [distinct.index(pair) for pair in pairs]
    assert example.tolist() == [pairs.index(pair) for pair in distinct]


@pytest.mark.parametrize("bounds", [(1, 1), (300, 70_000), (70_000, 3), (2**33, 2**40)])
def test_pairs_of_any_range_equal_sorting(bounds):
    # Few possible pairs are numbered in a table of them, others are sorted 16 bits at a time.
    rng = np.random.default_rng(bounds[0])
    first, second = (rng.choice(rng.integers(0, bound, 9), 200) for bound in bounds)
    ids, example = number_pairs(first, bounds[0], second, bounds[1])
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    distinct = sorted(set(pairs))
    assert ids.tolist() == [distinct.index(pair) for pair in pairs]
    assert example.tolist() == [pairs.index(pair) for pair in distinct]


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
    np.testing.assert_allclose(standardise(values, groups, 2, eps=0.0), expected)
    # population: sqrt(14 / 3); none: the deviations; batch: all five deviations, 14 / (5 - 1).
    expected *= np.sqrt(7) / np.sqrt(14 / 3)
    np.testing.assert_allclose(standardise(values, groups, 2, eps=0.0, ddof=0), expected)
    np.testing.assert_allclose(standardise(values, groups, 2, std="none"), [-2, 0, -1, 0, 3])
    np.testing.assert_allclose(
        standardise(values, groups, 2, eps=0.0, std="batch"), np.array([-2, 0, -1, 0, 3]) / np.sqrt(3.5)
    )
    # Two trajectories, of two rows worth 1 and one row worth 4; over trajectories: mean 2.5, over rows: mean 2.
    values, groups = np.array([1.0, 1.0, 4.0]), np.zeros(3, np.int64)
    np.testing.assert_allclose(standardise(values, groups, 1, members=np.array([0, 2]), std="none"), [-1.5, -1.5, 1.5])
    np.testing.assert_allclose(standardise(values, groups, 1, std="none"), [-1, -1, 2])
    # 0.1 + 0.2 and 0.3 differ by one unit in the last place, which a std of 1e-17 + 1e-6 would keep tiny, but a mean
    # of many such values divided by eps would not.
    values = np.array([0.1 + 0.2, 0.3, 0.3] * 40) * 1e8
    scores = standardise(values, np.zeros(120, np.int64), 1, std="group")
    assert (scores == 0).all()
    assert (standardise(values, np.zeros(120, np.int64), 1, std="none") == 0).all()
    # Small values with real contrast keep it.
    assert standardise(np.array([1e-9, 2e-9]), np.zeros(2, np.int64), 1, eps=0.0) == pytest.approx(
        [-(0.5**0.5), 0.5**0.5]
    )
    # Both trajectories are worth 1; the second row of the first is penalised to 0.9.
    values, members = np.array([1.0, 0.9, 1.0]), np.array([0, 2])
    groups = np.zeros(3, np.int64)
    np.testing.assert_allclose(standardise(values, groups, 1, members=members, std="none"), [0, -0.1, 0])
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


def _table():
    return StepTable.from_arrays(
        group=[0] * 4, trajectory=["a", "b", "a", "a"], t=[0, 0, 1, 2], state=list("suvw"), action=["x"] * 4,
        next_state=list("vtwz"), reward=[1.0, 8.0, 2.0, 4.0], won=[True, False, True, True],
        valid=[True, False, False, True],
    )  # fmt: skip


def test_returns_and_penalties_by_hand() -> None:
    # a: 4; 2 + 4/2 = 4; 1 + 4/2 = 3. b: 8.
    assert discounted_returns(_table(), 0.5).tolist() == [3.0, 8.0, 4.0, 4.0]
    assert discounted_returns(_table(), 1.0).tolist() == [7.0, 8.0, 6.0, 4.0]
    assert discounted_returns(_table(), 0.0).tolist() == [1.0, 8.0, 2.0, 4.0]
    assert discounted_returns(_table(), 0.5, np.array([0.0, 0.0, 0.0, 1.0])).tolist() == [0.25, 0.0, 0.5, 1.0]
    table = random_table(0, groups=6)
    reward = np.random.default_rng(0).normal(size=len(table))
    expected = np.zeros(len(table))
    for i in range(table.n_trajectories):
        ahead = 0.0
        for row in reversed(table.order[table.offsets[i] : table.offsets[i + 1]]):
            ahead = expected[row] = reward[row] + 0.9 * ahead
    np.testing.assert_allclose(discounted_returns(table, 0.9, reward), expected, atol=1e-12)
    # a is worth 1 + 2 + 4 = 7 and has one invalid step, b is worth 8 and is invalid.
    options = {**PRESETS["paper"], "invalid_penalty": 0.5}
    assert episode_scores(_table(), {**options, "penalty": "row"}).tolist() == [7.0, 7.5, 6.5, 7.0]
    assert episode_scores(_table(), {**options, "penalty": "discounted"}).tolist() == [6.5, 7.5, 6.5, 6.5]
    assert episode_scores(_table(), {**options, "penalty": "advantage"}).tolist() == [7.0, 8.0, 7.0, 7.0]
    assert episode_scores(_table(), {**options, "outcome": "won"}).tolist() == [1.0, -0.5, 0.5, 1.0]
    assert penalties(_table(), {**options, "penalty": "row"}, "row").tolist() == [0.0, 0.5, 0.5, 0.0]
    assert penalties(_table(), {**options, "penalty": "row"}, "discounted").tolist() == [0.0] * 4


# Returns 1, 0, 0 over episodes of 1, 1 and 3 steps.
TABLE = episodes("s -a-> goal +", "s -b-> pit", "s -c-> u -c-> v -c-> w")


def test_grpo_by_hand() -> None:
    # mean 1/3, deviations 2/3 -1/3 -1/3, sample variance (4 + 1 + 1) / 9 / 2 = 1/3: 2/3 * sqrt(3) = 1.154701.
    assert grpo(TABLE, eps=0.0) == pytest.approx([1.154701, *[-0.577350] * 4], abs=1e-6)
    assert grpo(TABLE) == pytest.approx(np.array([1.154701, *[-0.577350] * 4]) / (1 + 1e-6 * 3**0.5), abs=1e-6)
    assert grpo(TABLE, std="none") == pytest.approx([2 / 3, *[-1 / 3] * 4])
    # population variance 6 / 9 / 3 = 2/9: 2/3 / sqrt(2/9) = sqrt(2).
    assert grpo(TABLE, ddof=0, eps=0.0) == pytest.approx([2**0.5, *[-(0.5**0.5)] * 4])
    # Five rows worth 1 0 0 0 0: mean 1/5.
    assert grpo(TABLE, over="steps", std="none") == pytest.approx([0.8, *[-0.2] * 4])
    rich = episodes("s -a-> goal +", "s -b-> pit", reward=50.0)
    assert grpo(rich, std="none") == pytest.approx([25, -25])
    assert grpo(rich, std="none", outcome="won") == pytest.approx([0.5, -0.5])
    # Rows worth 1, -0.1, 0 (the second step of the failure is valid): mean 0.3.
    table = episodes("s -a-> goal +", "s -b!-> s -b-> pit")
    assert grpo(table, preset="authors", std="none") == pytest.approx([0.7, -0.4, -0.3])


RLOO_TABLE = episodes("s -a-> goal +", "s -b-> goal +", "s -c-> u -c-> v", reward=6.0)


def test_rloo_by_hand() -> None:
    # 6 - (6 + 0) / 2 = 3, twice; 0 - (6 + 6) / 2 = -6.
    assert rloo(RLOO_TABLE) == pytest.approx([3, 3, -6, -6])
    assert rloo(RLOO_TABLE, outcome="won") == pytest.approx([0.5, 0.5, -1, -1])
    # Rows 6 6 0 0: 6 - (6 + 0 + 0) / 3 = 4; 0 - (6 + 6 + 0) / 3 = -4, the episode's own other step among the others.
    assert rloo(RLOO_TABLE, preset="authors") == pytest.approx([4, 4, -4, -4])


# "u" is visited three times, twice by the first episode.
GIGPO_TABLE = episodes("s -a-> u -b-> s -a-> u -c-> goal +", "s -d-> u -e-> pit", reward=8.0)


def test_gigpo_by_hand() -> None:
    # gamma .5: returns 1 2 4 8 and 0 0. At s: 1 4 0, mean 5/3; at u: 2 8 0, mean 10/3. Episodes: 8 and 0, mean 4.
    expected = [1 - 5 / 3, 2 - 10 / 3, 4 - 5 / 3, 8 - 10 / 3, 0 - 5 / 3, 0 - 10 / 3]
    steps = gigpo(GIGPO_TABLE, gamma=0.5, std="none") - grpo(GIGPO_TABLE, std="none")
    assert steps == pytest.approx(expected)
    assert grpo(GIGPO_TABLE, std="none") == pytest.approx([4, 4, 4, 4, -4, -4])
    # At s the sample variance is (4/9 + 49/9 + 25/9) / 2 = 13/3.
    scaled = gigpo(GIGPO_TABLE, gamma=0.5, eps=0.0) - grpo(GIGPO_TABLE, eps=0.0)
    assert scaled[0] == pytest.approx((1 - 5 / 3) / (13 / 3) ** 0.5)
    steps = gigpo(GIGPO_TABLE) - grpo(GIGPO_TABLE)
    assert gigpo(GIGPO_TABLE, omega=0.25) == pytest.approx(grpo(GIGPO_TABLE) + 0.25 * steps)
    table = episodes("s -a-> goal +", "t -b-> pit")
    assert gigpo(table) == pytest.approx(grpo(table))
    # The second step costs 1, which the first return feels as 1/2; the rows' penalties stay where they are.
    table = episodes("s -a-> u -b!-> u", "s -a-> v")
    spread = gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="discounted")
    # s: returns -1/2 and 0, mean -1/4; episodes -1 and 0, mean -1/2.
    assert spread == pytest.approx([-0.25 - 0.5, -0.5, 0.25 + 0.5])
    # Only that row's return and score change: nothing to compare the return with, score 0 - 1 against a mean of 0.
    row = gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="row")
    assert row == pytest.approx([0, -1, 0])
