import numpy as np
import pytest

from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes, groups_of
from wrappers.credit import reinforce_plus_plus, reinforce_plus_plus_baseline

BOTH = [reinforce_plus_plus, reinforce_plus_plus_baseline]
# Returns 4 in two steps and 0 in one.
TABLE = episodes("s -a-> u -b-> goal +", "s -c-> pit", reward=4.0)


def _white(values):
    """Whitened in words: mean 0, sample variance 1 up to the 1e-8 added to it."""
    values = np.array(values, float)
    return pytest.approx((values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8))


def test_by_hand() -> None:
    # To go 2, 4, 0 with gamma 1/2: mean 2, sample variance (0 + 4 + 4) / 2 = 4.
    assert reinforce_plus_plus(TABLE, gamma=0.5) == pytest.approx([0, 1, -1])
    # 4, 4, 0: mean 8/3, variance (16/9 + 16/9 + 64/9) / 2 = 16/3: 4/3 / sqrt(16/3) = 0.577350.
    assert reinforce_plus_plus(TABLE) == pytest.approx([0.577350, 0.577350, -1.154701], abs=1e-6)
    # Population variance 32/9: 4/3 / sqrt(32/9) = sqrt(1/2).
    assert reinforce_plus_plus(TABLE, ddof=0) == pytest.approx([0.5**0.5, 0.5**0.5, -(2**0.5)])
    kl = np.array([0.0, 1.0, 0.0])
    assert reinforce_plus_plus(TABLE, gamma=0.5, kl=kl) == _white([1.5, 3, 0])
    assert reinforce_plus_plus(TABLE, preset="authors", kl=kl) == _white([4, 3, 0])
    assert reinforce_plus_plus(TABLE, outcome="won", gamma=0.25) == _white([0.25, 1, 0])
    assert reinforce_plus_plus(TABLE, outcome="won", score="episode") == _white([1, 1, 0])
    # Without the first row: to go 4 and 0 (gamma 1/2), mean 2, variance 8; the first row has 2.
    scores = reinforce_plus_plus(TABLE, gamma=0.5, weights=np.array([0, 1, 1]))
    assert scores == pytest.approx([0, 0.5**0.5, -(0.5**0.5)])


@pytest.mark.parametrize("method", BOTH)
def test_a_weight_is_a_row_that_comes_several_times(method):
    # One group; 3, 1 and 2 tokens. Over steps the group's mean would change with the rows, so the baseline form is
    # compared over trajectories: rows 4 4 0 or, less their group's mean of 2, rows 2 2 -2; token by token.
    tokens = np.array([3, 1, 2])
    values = np.array([4.0, 4.0, 0.0]) - (0 if method is reinforce_plus_plus else 2)
    repeated = np.repeat(values, tokens)
    expected = (repeated - repeated.mean()) / np.sqrt(repeated.var(ddof=1) + 1e-8)
    assert np.repeat(method(TABLE, weights=tokens), tokens) == pytest.approx(expected)


def test_groups_by_hand() -> None:
    # Trajectories 4 and 0, mean 2; rows 2 2 -2: mean 2/3, variance (16/9 + 16/9 + 64/9) / 2 = 16/3.
    expected = pytest.approx([0.577350, 0.577350, -1.154701], abs=1e-6)
    assert reinforce_plus_plus_baseline(TABLE) == expected
    # Over steps the mean is 8/3 and the rows are whitened to the same.
    assert reinforce_plus_plus_baseline(TABLE, over="steps") == expected
    table = groups_of([0, 1], [10, 14], [5, 5])
    assert reinforce_plus_plus_baseline(table) == _white([-0.5, 0.5, -2, 2, 0, 0])
    assert reinforce_plus_plus(table) == _white([0, 1, 10, 14, 5, 5])
    table = groups_of([0, 1], [7])
    assert reinforce_plus_plus_baseline(table) == _white([-0.5, 0.5, 0])
    assert reinforce_plus_plus_baseline(table, preset="authors") == _white([-0.5, 0.5, 7])
    # The refused second step costs 1.
    table = episodes("s -a-> u -b!-> u -c-> goal +", "s -c-> pit", reward=4.0)
    options = {"invalid_penalty": 1.0}
    assert reinforce_plus_plus(table, **options) == _white([4, 3, 4, 0])
    assert reinforce_plus_plus(table, **options, penalty="discounted", gamma=0.5) == _white([0.5, 1, 4, 0])
    assert reinforce_plus_plus_baseline(table, **options, over="steps") == _white([4, 3, 4, 0])
    # Over trajectories the episode enters the group's mean with its first row, 4: mean 2.
    assert reinforce_plus_plus_baseline(table, **options) == _white([2, 1, 2, -2])
    assert reinforce_plus_plus_baseline(table, **options, penalty="discounted") == _white([1.5, 1.5, 1.5, -1.5])
    scores = reinforce_plus_plus_baseline(groups_of([0.1, 0.7, 0.4], [0.3, 0.3, 0.3]), over="steps")
    assert (scores[3:] == 0).all()
    assert (scores[:3] != 0).any()
    with pytest.raises(ValueError, match=r"weights must hold one finite .*got shape \(2,\)"):
        reinforce_plus_plus(TABLE, weights=np.ones(2))
    with pytest.raises(ValueError, match=r"whole numbers of at least 0.*; row 1 has 0\.5"):
        reinforce_plus_plus_baseline(TABLE, weights=np.array([1, 0.5, 2]))
    refuses(ValueError, "weights are 0 in every row", reinforce_plus_plus, TABLE, weights=np.zeros(3))
    refuses(TypeError, "unknown option 'kl'", reinforce_plus_plus_baseline, TABLE, kl=np.zeros(3))
    for method in BOTH:  # without contrast: 0.1 + 0.2 differs from 0.3 by rounding
        assert (method(groups_of([0.1 + 0.2, 0.3], [0.3])) == 0).all()
