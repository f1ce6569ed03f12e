import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.wrappers.credit.small_tables import groups_of
from wrappers.credit import grpo
from wrappers.credit.ragen2 import ragen2, spread_groups

# Sample deviations of [x, 0] are x / sqrt(2).
TABLE = groups_of([8, 0], [4, 0], [2, 0], [1, 0], [3, 3])


def test_by_hand() -> None:
    # 8 + 4 + 2 + 1 = 15, all over sqrt(2): .9 of it is 13.5, which 8, 4 and 2 hold; 8 and 4 hold .75 of 16.
    assert spread_groups(TABLE).tolist() == [True, True, True, False, False]
    assert spread_groups(TABLE, top_p=0.8).tolist() == [True, True, False, False, False]
    assert spread_groups(TABLE, top_p=0.5).tolist() == [True, False, False, False, False]
    # The whole is 15/sqrt(2): the margin of .01 is below what the smallest adds.
    assert spread_groups(TABLE, top_p=1.0).tolist() == [True, True, True, True, False]
    # Variances 32 8 2 1/2: .9 of 42.5 is 38.25, which 32 and 8 hold.
    assert spread_groups(TABLE, spread="variance").tolist() == [True, True, False, False, False]
    table = groups_of([0.01, 0], [0, 0])  # .9 * .00707 < .01
    assert not spread_groups(table).any()
    assert spread_groups(table, margin=0.0).tolist() == [True, False]
    assert not spread_groups(groups_of([1, 1], [0, 0])).any()
    assert not spread_groups(groups_of([0.1] * 3, [0.7] * 3), margin=0.0).any()  # rounding is no spread
    assert not spread_groups(groups_of([5]), margin=0.0).any()
    # .6 of 3 needs two of the three.
    assert spread_groups(groups_of([1, 0], [0, 1], [1, 0]), top_p=0.6).all()
    scores = ragen2(TABLE)
    kept = spread_groups(TABLE)[TABLE.group]
    assert np.isnan(scores[~kept]).all()
    np.testing.assert_array_equal(scores[kept], grpo(TABLE)[kept])
    # By success only the first three groups have some; all spread alike.
    assert spread_groups(TABLE, outcome="won").tolist() == [True, True, True, True, False]


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
