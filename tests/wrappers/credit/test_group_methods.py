"""Methods that compare episodes of a group, grpo, rloo, gigpo and ragen2, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import episodes, groups_of
from wrappers.credit import gigpo, grpo, rloo
from wrappers.credit.ragen2 import ragen2, spread_groups

# Returns 1, 0, 0 over episodes of 1, 1 and 3 steps.
LOST = episodes("s -a-> goal +", "s -b-> pit", "s -c-> u -c-> v -c-> w")
# "u" is visited three times, twice by the first episode.
AGAIN = episodes("s -a-> u -b-> s -a-> u -c-> goal +", "s -d-> u -e-> pit", reward=8.0)
# Sample deviations of [x, 0] are x / sqrt(2).
SPREAD = groups_of([8, 0], [4, 0], [2, 0], [1, 0], [3, 3])


def test_grpo_by_hand() -> None:
    # mean 1/3, deviations 2/3 -1/3 -1/3, sample variance (4 + 1 + 1) / 9 / 2 = 1/3: 2/3 * sqrt(3) = 1.154701.
    assert grpo(LOST, eps=0.0) == pytest.approx([1.154701, *[-0.577350] * 4], abs=1e-6)
    assert grpo(LOST) == pytest.approx(np.array([1.154701, *[-0.577350] * 4]) / (1 + 1e-6 * 3**0.5), abs=1e-6)
    assert grpo(LOST, std="none") == pytest.approx([2 / 3, *[-1 / 3] * 4])
    # population variance 6 / 9 / 3 = 2/9: 2/3 / sqrt(2/9) = sqrt(2).
    assert grpo(LOST, ddof=0, eps=0.0) == pytest.approx([2**0.5, *[-(0.5**0.5)] * 4])
    # Five rows worth 1 0 0 0 0: mean 1/5.
    assert grpo(LOST, over="steps", std="none") == pytest.approx([0.8, *[-0.2] * 4])
    rich = episodes("s -a-> goal +", "s -b-> pit", reward=50.0)
    assert grpo(rich, std="none") == pytest.approx([25, -25])
    assert grpo(rich, std="none", outcome="won") == pytest.approx([0.5, -0.5])
    # Rows worth 1, -0.1, 0 (the second step of the failure is valid): mean 0.3.
    table = episodes("s -a-> goal +", "s -b!-> s -b-> pit")
    assert grpo(table, preset="authors", std="none") == pytest.approx([0.7, -0.4, -0.3])


def test_rloo_by_hand() -> None:
    table = episodes("s -a-> goal +", "s -b-> goal +", "s -c-> u -c-> v", reward=6.0)
    # 6 - (6 + 0) / 2 = 3, twice; 0 - (6 + 6) / 2 = -6.
    assert rloo(table) == pytest.approx([3, 3, -6, -6])
    assert rloo(table, outcome="won") == pytest.approx([0.5, 0.5, -1, -1])
    # Rows 6 6 0 0: 6 - (6 + 0 + 0) / 3 = 4; 0 - (6 + 6 + 0) / 3 = -4, the episode's own other step among the others.
    assert rloo(table, preset="authors") == pytest.approx([4, 4, -4, -4])


def test_gigpo_by_hand() -> None:
    # gamma .5: returns 1 2 4 8 and 0 0. At s: 1 4 0, mean 5/3; at u: 2 8 0, mean 10/3. Episodes: 8 and 0, mean 4.
    expected = [1 - 5 / 3, 2 - 10 / 3, 4 - 5 / 3, 8 - 10 / 3, 0 - 5 / 3, 0 - 10 / 3]
    steps = gigpo(AGAIN, gamma=0.5, std="none") - grpo(AGAIN, std="none")
    assert steps == pytest.approx(expected)
    assert grpo(AGAIN, std="none") == pytest.approx([4, 4, 4, 4, -4, -4])
    # At s the sample variance is (4/9 + 49/9 + 25/9) / 2 = 13/3.
    scaled = gigpo(AGAIN, gamma=0.5, eps=0.0) - grpo(AGAIN, eps=0.0)
    assert scaled[0] == pytest.approx((1 - 5 / 3) / (13 / 3) ** 0.5)
    steps = gigpo(AGAIN) - grpo(AGAIN)
    assert gigpo(AGAIN, omega=0.25) == pytest.approx(grpo(AGAIN) + 0.25 * steps)
    table = episodes("s -a-> goal +", "t -b-> pit")
    assert gigpo(table) == pytest.approx(grpo(table))
    # The second step costs 1, which the first return feels as 1/2; the rows' penalties stay where they are.
    table = episodes("s -a-> u -b!-> u", "s -a-> v")
    spread = gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="discounted")
    # s: returns -1/2 and 0, mean -1/4; episodes -1 and 0, mean -1/2.
    assert spread == pytest.approx([-0.25 - 0.5, -0.5, 0.25 + 0.5])
    # Only that row's return and score change: nothing to compare the return with, score 0 - 1 against a mean of 0.
    assert gigpo(table, gamma=0.5, std="none", invalid_penalty=1.0, penalty="row") == pytest.approx([0, -1, 0])


def test_ragen2_by_hand() -> None:
    # 8 + 4 + 2 + 1 = 15, all over sqrt(2): .9 of it is 13.5, which 8, 4 and 2 hold; 8 and 4 hold .75 of 16.
    assert spread_groups(SPREAD).tolist() == [True, True, True, False, False]
    assert spread_groups(SPREAD, top_p=0.8).tolist() == [True, True, False, False, False]
    assert spread_groups(SPREAD, top_p=0.5).tolist() == [True, False, False, False, False]
    # The whole is 15/sqrt(2): the margin of .01 is below what the smallest adds.
    assert spread_groups(SPREAD, top_p=1.0).tolist() == [True, True, True, True, False]
    # Variances 32 8 2 1/2: .9 of 42.5 is 38.25, which 32 and 8 hold.
    assert spread_groups(SPREAD, spread="variance").tolist() == [True, True, False, False, False]
    table = groups_of([0.01, 0], [0, 0])  # .9 * .00707 < .01
    assert not spread_groups(table).any()
    assert spread_groups(table, margin=0.0).tolist() == [True, False]
    assert not spread_groups(groups_of([1, 1], [0, 0])).any()
    assert not spread_groups(groups_of([0.1] * 3, [0.7] * 3), margin=0.0).any()  # rounding is no spread
    assert not spread_groups(groups_of([5]), margin=0.0).any()
    # .6 of 3 needs two of the three.
    assert spread_groups(groups_of([1, 0], [0, 1], [1, 0]), top_p=0.6).all()
    scores = ragen2(SPREAD)
    kept = spread_groups(SPREAD)[SPREAD.group]
    assert np.isnan(scores[~kept]).all()
    np.testing.assert_array_equal(scores[kept], grpo(SPREAD)[kept])
    # By success only the first three groups have some; all spread alike.
    assert spread_groups(SPREAD, outcome="won").tolist() == [True, True, True, True, False]


def _kept_by_the_release(spread, top_p, margin):
    """`_select_top_groups` of ragen/trainer/rollout_filter.py, in words of our own, without zeros."""
    names = [i for i, value in enumerate(spread) if value > 1e-10]
    wanted = top_p * sum(spread) - margin
    total, kept = 0.0, []
    for i in sorted(names, key=lambda i: -spread[i]):
        if total >= wanted:
            break
        total += spread[i]
        kept.append(i)
    return set(kept) if total >= wanted else set()


@given(seed=st.integers(0, 10**6), top_p=st.sampled_from([0.5, 0.8, 0.9]))
def test_keeps_what_the_release_keeps(seed, top_p):
    # Distinct returns, so that no two groups tie.
    rng = np.random.default_rng(seed)
    table = groups_of(*(rng.normal(size=4).tolist() for _ in range(6)))
    spread = [np.std(table.reward[table.group == i], ddof=1) for i in range(6)]
    kept = set(np.flatnonzero(spread_groups(table, top_p=top_p)).tolist())
    assert kept == _kept_by_the_release(spread, top_p, 0.01)
