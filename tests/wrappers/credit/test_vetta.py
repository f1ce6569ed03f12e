import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close
from wrappers.credit import token_gae, vetta


def test_by_hand() -> None:
    # Two turns of 2 and 1 tokens with a gap between; token values .5 .6 and .8, the last turn is rewarded with 1.
    rewards, mask, ends = [[0, 0, 0, 1]], [[1, 1, 0, 1]], [[0, 1, 0, 1]]
    values = [[0.5, 0.6, 9, 0.8]]
    options = {"alpha": 0.5, "turn_gamma": 0.5, "turn_lam": 0.4}
    found, returns, turns = vetta(rewards, values, mask, ends, **options)
    # Turns: 1 - .8 = .2; .5 * .8 - .5 + .2 * .2 = -.06. Tokens at .5 between turns: .2; .4 - .6 + .5 * .2 = -.1 and
    # .6 - .5 - .1 = 0; about their mean -.05, half.
    assert found[0] == pytest.approx([-0.06 + 0.025, -0.06 - 0.025, 0, 0.2])
    assert returns[0] == pytest.approx([0.5, 0.5, 0, 1])
    assert turns[0] == pytest.approx([0.44, 0, 0, 1])
    # A head of its own for turns, 0.3 and 0.4: 1 - .4 = .6; .2 - .3 + .2 * .6 = .02. Tokens then by gamma 1 throughout:
    # .2; .8 - .6 + .2 = .4; .6 - .5 + .4 = .5.
    found, returns, turns = vetta(rewards, values, mask, ends, turn_values=[[0.3, 7, 7, 0.4]], **options)
    assert found[0] == pytest.approx([0.02 + 0.025, 0.02 - 0.025, 0, 0.6])
    assert returns[0] == pytest.approx([1, 1, 0, 1])
    assert turns[0] == pytest.approx([0.32, 0, 0, 1])


def _naive(turns, alpha, gamma, lam, turn_gamma, turn_lam):
    """One sequence as turns of (reward, token values)."""
    result, ahead, carry, next_value, next_carry = [], 0.0, 0.0, 0.0, 0.0
    for reward, mine in reversed(turns):
        advantage = reward + turn_gamma * next_value - mine[0] + turn_gamma * turn_lam * next_carry
        tokens = []
        for place in reversed(range(len(mine))):
            discount = turn_gamma if place == len(mine) - 1 else gamma
            earned = reward if place == len(mine) - 1 else 0.0
            carry = earned + discount * ahead - mine[place] + discount * lam * carry
            ahead = mine[place]
            tokens.insert(0, carry)
        mean = sum(tokens) / len(tokens)
        result = [advantage + alpha * (token - mean) for token in tokens] + result
        next_value, next_carry = mine[0], advantage
    return result


@given(seed=st.integers(0, 2**32 - 1))
def test_equals_the_loops_with_gaps_between_the_turns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = dict(zip(("gamma", "lam", "turn_gamma", "turn_lam"), rng.random(4).tolist(), strict=True))
    alpha, values = float(rng.random()), rng.normal(size=(3, 30))
    rewards, expected = np.zeros((2, *values.shape))
    mask, ends = np.zeros((2, *values.shape), bool)
    for row in range(3):
        at, turns = 0, []
        for _ in range(rng.integers(0, 5)):
            start = at + int(rng.integers(0, 3))  # behind up to two masked tokens
            at = start + int(rng.integers(1, 4))
            mask[row, start:at] = ends[row, at - 1] = True
            rewards[row, at - 1] = rng.choice([0.0, 1.0, -0.1])
            turns.append((rewards[row, at - 1], values[row, start:at].tolist()))
        expected[row, mask[row]] = _naive(turns, alpha, **rates)
    found, returns, _ = vetta(rewards, values, mask, ends, alpha=alpha, **rates)
    close(found, expected)
    assert not returns[~mask].any()


def test_what_it_is_at_its_ends() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(2, 6)), np.ones((2, 6), bool)
    ends = np.array([[0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 1]], bool)
    rewards = np.where(ends, 1.0, 0.0)
    # Without residual all tokens of a turn get the same; with it the mean of the turn stays.
    plain, mixed = (vetta(rewards, values, mask, ends, alpha=alpha)[0] for alpha in (0.0, 0.7))
    assert plain[0, 0] == plain[0, 2] != plain[0, 3]
    assert mixed[0, :3].mean() == pytest.approx(plain[0, 0])
    assert mixed[1, 1:5].mean() == pytest.approx(plain[1, 1])
    # Turns of one token and one discount: GAE over tokens.
    single, _, turns = vetta(rewards, values, mask, mask, turn_gamma=0.9, turn_lam=0.8, lam=0.8)
    flat, returns = token_gae(rewards, values, mask, gamma=0.9, lam=0.8)
    close(single, flat)
    close(turns, returns)
    row, end = [[0.0, 1.0]], [[False, True]]
    refuses(ValueError, "alpha must be finite and at least 0, got -1", vetta, row, row, [[1, 1]], end, alpha=-1)
    refuses(ValueError, "turn_lam must be between 0 and 1", vetta, row, row, [[1, 1]], end, turn_lam=2)
    refuses(ValueError, "belongs to a turn without an end", vetta, [[0, 0]], row, [[1, 1]], [[True, False]])
    assert vetta(*[np.zeros((0, 3))] * 4)[0].shape == (0, 3)
