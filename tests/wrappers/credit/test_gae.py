"""GAE over turns, over tokens and both: by hand, against loops, and against recorded answers."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from tests.wrappers.credit.oracles import load
from tests.wrappers.credit.random_tables import random_table, rebuild
from tests.wrappers.credit.small_tables import episodes
from wrappers import GAE
from wrappers.credit.gae import gae, lambda_returns
from wrappers.credit.token_gae import bi_level_gae, token_gae, whiten
from wrappers.credit.vetta import vetta

TWO_STEPS = episodes("s -right-> u -up!-> goal +", "s -left-> pit")  # rewards 0, 1 and 0


def naive(table: StepTable, values: Any, last_values: Any, gamma: float, lam: float) -> Any:
    result = np.zeros(len(table))
    for i in range(table.n_trajectories):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]]
        ahead = 0.0 if table.terminated[rows[-1]] else last_values[i]
        advantage = 0.0
        for row in reversed(rows.tolist()):
            delta = table.reward[row] + gamma * ahead - values[row]
            advantage = delta + gamma * lam * advantage
            result[row], ahead = advantage, values[row]
    return result


def test_gae_by_hand() -> None:
    np.testing.assert_allclose(
        lambda_returns(TWO_STEPS, values=[0.2, 0.5, 0.3], gamma=0.9, lam=0.8), [0.81, 1.0, 0.0], atol=1e-15
    )
    table = StepTable.from_arrays(
        group=[0] * 3, trajectory=[0, 1, 2], t=[0] * 3, state=["s"] * 3, action=["a"] * 3, next_state=["u"] * 3,
        reward=[1.0] * 3, won=[False] * 3, terminated=[True, False, False], truncated=[False, True, False],
    )  # fmt: skip
    found = gae(table, values=np.zeros(3), last_values=[5.0, 6.0, 7.0], gamma=0.5)
    np.testing.assert_allclose(found, [1.0, 1 + 0.5 * 6, 1 + 0.5 * 7])
    np.testing.assert_allclose(gae(table, values=np.zeros(3), gamma=0.5), 1.0)
    # Returns 1 and 0 on every row; the second step is invalid: 0.1 off that row only.
    found = gae(TWO_STEPS, values=[0.2, 0.5, 0.3], preset="authors")
    np.testing.assert_allclose(found, [0.8, 0.4, -0.3])
    assert (gae(TWO_STEPS, values=[0.2, 0.5, 0.3], preset="authors", gamma=0.5, lam=0.1) == found).all()


@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.floats(0, 1))
def test_equals_the_loop_in_any_order_of_rows(seed: int, gamma: float, lam: float) -> None:
    rng = np.random.default_rng(seed)
    table = random_table(seed, groups=2, size=3)
    cut = rng.random(table.n_trajectories) < 0.4
    table.terminated[table.last[cut]] = False
    table = rebuild(table, rng.permutation(len(table)))
    values, last_values = rng.normal(size=len(table)), rng.normal(size=table.n_trajectories)
    found = gae(table, values=values, last_values=last_values, gamma=gamma, lam=lam)
    np.testing.assert_allclose(found, naive(table, values, last_values, gamma, lam), atol=1e-12)


@pytest.mark.parametrize(
    ("where", "advantages", "targets"),
    [
        # gamma 1, lam 1, values 0: the returns are 1, 1, 0; the second step is invalid and loses 0.4.
        ("row", [1.0, 0.6, 0.0], [1.0, 0.6, 0.0]),
        ("discounted", [0.6, 0.6, 0.0], [0.6, 0.6, 0.0]),
        ("advantage", [1.0, 0.6, 0.0], [1.0, 1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("horizon", ["trajectory", "step"])
def test_where_the_penalty_is_felt(horizon: Any, where: Any, advantages: Any, targets: Any) -> None:
    options: Any = {"lam": 1.0, "invalid_penalty": 0.4, "penalty": where, "horizon": horizon}
    np.testing.assert_allclose(gae(TWO_STEPS, values=np.zeros(3), **options), advantages)
    np.testing.assert_allclose(lambda_returns(TWO_STEPS, values=np.zeros(3), **options), targets)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"values": [0.0]}, r"values must hold one finite number per row, shape \(3,\), got shape \(1,\)"),
        ({"values": [0.0, np.nan, 0.0]}, "values must hold one finite number per row, .*; row 1 has nan"),
        ({"values": np.zeros(3), "last_values": [0.0]}, r"one finite number per trajectory, shape \(2,\)"),
        ({"values": np.zeros(3), "gamma": 1.5}, "gamma must be between 0 and 1, got 1.5"),
        ({"values": np.zeros(3), "lam": -0.1}, "lam must be between 0 and 1"),
        ({"values": np.zeros(3), "horizon": "episode"}, "unknown horizon 'episode'"),
    ],
)
def test_gae_wrong_input_is_named(arguments: Any, words: str) -> None:
    refuses(ValueError, words, gae, TWO_STEPS, **arguments)


def test_the_wrapper_takes_the_values_of_its_rows() -> None:
    envs = GAE(CorridorVectorEnv(2, autoreset_mode="Disabled"), gamma=0.9, lam=0.8)
    envs.reset(options={"index": 2})
    over = np.zeros(2, bool)
    while not over.all():
        _, _, terminated, truncated, _ = envs.step(np.where(over, "", ["right", "left"]))
        over |= terminated | truncated
    table = envs.table()
    values = 0.1 * np.arange(len(table))
    assert np.array_equal(envs.advantages(values), gae(table, values=values, gamma=0.9, lam=0.8))
    refuses(TypeError, "unknown option 'lambda_'", GAE, CorridorVectorEnv(2, autoreset_mode="Disabled"), lambda_=0.9)
    assert isinstance(envs, gym.vector.VectorWrapper)


def naive_tokens(rewards: Any, values: Any, last: float, gamma: float, lam: float) -> list[float]:
    """One sequence without masked tokens."""
    result, ahead, advantage = [], last, 0.0
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + gamma * ahead - value + gamma * lam * advantage
        result.insert(0, advantage)
        ahead = value
    return result


def naive_bi_level(
    turns: list[tuple[float, list[float]]], last: float, gamma: float, lam: float, turn_gamma: float
) -> list[float]:
    """One sequence as turns of (reward, values of the turn's tokens)."""
    ends = [values[-1] for _, values in turns]
    upper = naive_tokens([reward for reward, _ in turns], ends, last, turn_gamma, lam)
    result = []
    for advantage, (_, values) in zip(upper, turns, strict=True):
        rewards = [0.0] * (len(values) - 1) + [advantage + values[-1]]
        result += naive_tokens(rewards, values, 0.0, gamma, lam)
    return result


@given(st.integers(0, 2**32 - 1))
def test_equal_the_loops_with_gaps_between_the_turns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, width = 4, 40
    gamma, lam, turn_gamma = rng.random(3)
    rewards, values = np.zeros((n, width)), rng.normal(size=(n, width))
    mask, ends = np.zeros((n, width), bool), np.zeros((n, width), bool)
    last = rng.normal(size=n)
    turns: list[list[tuple[float, list[float]]]] = []
    for row in range(n):
        at, mine = 0, []
        for _ in range(rng.integers(0, 5)):
            at += int(rng.integers(0, 4))
            length = int(rng.integers(1, 5))
            mask[row, at : at + length] = True
            ends[row, at + length - 1] = True
            rewards[row, at + length - 1] = rng.choice([0.0, 1.0, -0.1])
            mine.append((rewards[row, at + length - 1], values[row, at : at + length].tolist()))
            at += length
        turns.append(mine)
    flat, flat_returns = token_gae(rewards, values, mask, gamma=gamma, lam=lam, last_values=last)
    both, both_returns = bi_level_gae(
        rewards, values, mask, ends, gamma=gamma, lam=lam, turn_gamma=turn_gamma, last_values=last
    )
    for row in range(n):
        kept = mask[row]
        one = naive_tokens(rewards[row, kept].tolist(), values[row, kept].tolist(), last[row], gamma, lam)
        two = naive_bi_level(turns[row], last[row], gamma, lam, turn_gamma)
        np.testing.assert_allclose(flat[row, kept], one, atol=1e-12)
        np.testing.assert_allclose(both[row, kept], two, atol=1e-12)
    assert not flat[~mask].any()
    assert not both[~mask].any()
    np.testing.assert_allclose(flat_returns[mask], (flat + values)[mask])
    np.testing.assert_allclose(both_returns[mask], (both + values)[mask])


def test_turns_and_trajectories_by_hand() -> None:
    table = random_table(4)
    rng = np.random.default_rng(0)
    values = rng.normal(size=len(table))
    turns = gae(table, values=values, gamma=0.9, lam=0.8)
    lengths = np.diff(table.offsets)
    mask = np.arange(lengths.max()) < lengths[:, None]
    rewards, columns = np.zeros(mask.shape), np.zeros(mask.shape)
    rewards[mask], columns[mask] = table.reward[table.order], values[table.order]
    flat, _ = token_gae(rewards, columns, mask, gamma=0.9, lam=0.8)
    both, _ = bi_level_gae(rewards, columns, mask, mask, gamma=0.3, lam=0.8, turn_gamma=0.9)
    np.testing.assert_allclose(flat[mask], turns[table.order], atol=1e-12)
    np.testing.assert_allclose(both[mask], turns[table.order], atol=1e-12)
    found, returns = token_gae([[0.0, 1.0]], [[np.nan, 0.25]], [[False, True]])
    assert found.tolist() == [[0.0, 0.75]]
    assert returns.tolist() == [[0.0, 1.0]]


ROW: Any = [[0.0, 0.0, 1.0]]
ALL: Any = [[True, True, True]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: token_gae([1.0], [1.0], [True]), "shape \\(sequences, tokens\\), got shape \\(1,\\)"),
        (lambda: token_gae(ROW, [[0.0]], ALL), "values must have the shape of rewards"),
        (lambda: token_gae(ROW, ROW, [[True]]), "mask must have the shape of the numbers"),
        (lambda: token_gae(ROW, ROW, [[0.5, 1, 1]]), "mask must hold True and False, got 0.5"),
        (lambda: token_gae(ROW, [[0.0, np.inf, 0.0]], ALL), r"values\[0, 1\] is not finite"),
        (lambda: token_gae(ROW, ROW, [[True, True, False]]), r"rewards\[0, 2\] = 1.0 is on a masked token"),
        (lambda: token_gae(ROW, ROW, ALL, gamma=2.0), "gamma must be between 0 and 1, got 2.0"),
        (lambda: token_gae(ROW, ROW, ALL, last_values=[0.0, 1.0]), "one finite number per sequence"),
        (lambda: bi_level_gae(ROW, ROW, ALL, [[False, True, False]]), r"\[0, 2\] belongs to a turn without an end"),
        (lambda: bi_level_gae(ROW, ROW, [[False, True, True]], ALL), r"turn_ends\[0, 0\] is a masked token"),
        (lambda: bi_level_gae([[1.0, 0, 0]], ROW, ALL, [[False, True, True]]), r"rewards\[0, 0\] = 1.0 is inside"),
        (lambda: bi_level_gae(ROW, ROW, ALL, ALL, turn_gamma=-1.0), "turn_gamma must be between 0 and 1"),
    ],
)
def test_token_gae_wrong_input_is_named(call: Any, words: str) -> None:
    refuses(ValueError, words, call)


def test_whitening() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(3, 5, (6, 7)), rng.random((6, 7)) < 0.6
    white = whiten(values, mask)
    assert white[mask].mean() == pytest.approx(0, abs=1e-12)
    assert white[mask].var(ddof=1) == pytest.approx(1, rel=1e-6)
    assert not white[~mask].any()
    assert whiten([0.3, 0.3, 0.1 + 0.2]).tolist() == [0.0, 0.0, 0.0]  # 0.1 + 0.2 is 0.3 but for rounding
    assert whiten([7.0]).tolist() == [0.0]
    np.testing.assert_allclose(whiten([1.0, np.nan, 3.0]), [-(0.5**0.5), np.nan, 0.5**0.5], rtol=1e-6)


def arrays(case: dict[str, Any], *keys: str) -> list[Any]:
    return [np.array(case[key], np.float64) for key in keys]


def assert_same(found: tuple[Any, Any], mask: Any, recorded: dict[str, Any]) -> None:
    advantages, returns = found
    np.testing.assert_allclose(whiten(advantages, mask)[mask], np.array(recorded["adv"])[mask], rtol=0, atol=1e-5)
    np.testing.assert_allclose(returns[mask], np.array(recorded["ret"])[mask], rtol=0, atol=1e-5)


def test_published_gae() -> None:
    results = load("token_level")["results"]
    assert len(results) == 60
    for case in results:
        rewards, values, mask, gaps = arrays(case, "rewards", "values", "mask", "gap_mask")
        options = {"gamma": case["gamma"], "lam": case["lam"]}
        assert_same(token_gae(rewards, values, mask, **options), mask > 0, case["gae_verl_agent"])
        found = token_gae(rewards, values, gaps, **options)
        assert_same(found, gaps > 0, case["gae_verl_2026_skip_observation_tokens"])


def test_published_bi_level_gae() -> None:
    for case in load("token_level")["results"]:
        rewards, values, mask = arrays(case, "turn_rewards", "values", "gap_mask")
        found = bi_level_gae(
            rewards, values, mask, rewards != 0, gamma=case["gamma"], lam=case["lam"], turn_gamma=0.95
        )  # fmt: skip
        assert_same(found, mask > 0, case["bi_level_gae_ragen|high_gamma=0.95"])


def test_vetta_by_hand() -> None:
    # Two turns of 2 and 1 tokens with a gap between; token values .5 .6 and .8, the last turn is rewarded with 1.
    rewards, mask, ends = [[0, 0, 0, 1]], [[1, 1, 0, 1]], [[0, 1, 0, 1]]
    values = [[0.5, 0.6, 9, 0.8]]
    options = {"alpha": 0.5, "turn_gamma": 0.5, "turn_lam": 0.4}
    # A head of its own for turns, 0.3 and 0.4: 1 - .4 = .6; .2 - .3 + .2 * .6 = .02. Tokens then by gamma 1 throughout:
    # .2; .8 - .6 + .2 = .4; .6 - .5 + .4 = .5.
    found, returns, turns = vetta(rewards, values, mask, ends, turn_values=[[0.3, 7, 7, 0.4]], **options)
    assert found[0] == pytest.approx([0.02 + 0.025, 0.02 - 0.025, 0, 0.6])
    assert returns[0] == pytest.approx([1, 1, 0, 1])
    assert turns[0] == pytest.approx([0.32, 0, 0, 1])


def _naive(turns, values, alpha, gamma, lam, turn_gamma, turn_lam):
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
    n, width = 3, 30
    rates = dict(zip(("gamma", "lam", "turn_gamma", "turn_lam"), rng.random(4).tolist(), strict=True))
    alpha = float(rng.random())
    rewards, values = np.zeros((n, width)), rng.normal(size=(n, width))
    mask, ends = np.zeros((n, width), bool), np.zeros((n, width), bool)
    expected = np.zeros((n, width))
    for row in range(n):
        at, turns = 0, []
        for _ in range(rng.integers(0, 5)):
            at += int(rng.integers(0, 3))
            length = int(rng.integers(1, 4))
            mask[row, at : at + length] = ends[row, at + length - 1] = True
            rewards[row, at + length - 1] = rng.choice([0.0, 1.0, -0.1])
            turns.append((rewards[row, at + length - 1], values[row, at : at + length].tolist()))
            at += length
        expected[row, mask[row]] = _naive(turns, values, alpha, **rates)
    found, returns, _ = vetta(rewards, values, mask, ends, alpha=alpha, **rates)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert not returns[~mask].any()


def test_what_it_is_at_its_ends() -> None:
    rng = np.random.default_rng(0)
    values, mask = rng.normal(size=(2, 6)), np.ones((2, 6), bool)
    ends = np.array([[0, 0, 1, 0, 0, 1], [1, 0, 0, 0, 1, 1]], bool)
    rewards = np.where(ends, 1.0, 0.0)
    # Without residual all tokens of a turn get the same; with it the mean of the turn stays.
    plain, told = (vetta(rewards, values, mask, ends, alpha=alpha)[0] for alpha in (0.0, 0.7))
    assert plain[0, 0] == plain[0, 2] != plain[0, 3]
    assert told[0, :3].mean() == pytest.approx(plain[0, 0])
    assert told[1, 1:5].mean() == pytest.approx(plain[1, 1])
    # Turns of one token and one discount: GAE over tokens.
    single, _, turns = vetta(rewards, values, mask, mask, turn_gamma=0.9, turn_lam=0.8, lam=0.8)
    flat, returns = token_gae(rewards, values, mask, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(single, flat, atol=1e-12)
    np.testing.assert_allclose(turns, returns, atol=1e-12)
    row, end = [[0.0, 1.0]], [[False, True]]
    refuses(ValueError, "alpha must be finite and at least 0, got -1", vetta, row, row, [[1, 1]], end, alpha=-1)
    refuses(ValueError, "turn_lam must be between 0 and 1", vetta, row, row, [[1, 1]], end, turn_lam=2)
    refuses(ValueError, "belongs to a turn without an end", vetta, [[0, 0]], row, [[1, 1]], [[True, False]])
    assert vetta(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)))[0].shape == (0, 3)
