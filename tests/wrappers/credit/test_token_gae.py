"""GAE over tokens, with and without turns: by hand, against loops, and against the recorded answers of published code.

RAGEN finds its turn ends by `reward != 0`; its recorded answers are compared with exactly those ends given.
"""

from typing import Any

import numpy as np
import pytest

from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.oracles import load
from tests.wrappers.credit.small_tables import close, random_table
from wrappers.credit import gae
from wrappers.credit.scores import whiten
from wrappers.credit.token_gae import bi_level_gae, token_gae


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
    close(flat[mask], turns[table.order])
    close(both[mask], turns[table.order])
    # Two turns of one token, all rewards 0, values 0.5 and 0.2: -0.2, and 0.2 - 0.5 + lam * -0.2 with gamma 1.
    found, returns = bi_level_gae(
        [[0.0, 0.0]], [[0.5, 0.2]], [[True, True]], [[True, True]], lam=0.5, turn_gamma=1.0
    )  # fmt: skip
    close(found, [[-0.4, -0.2]])
    close(returns, [[0.1, 0.0]])
    tokens, _ = token_gae([[1.0]], [[0.5]], [[True]], gamma=0.9, last_values=[2.0])
    turns, _ = bi_level_gae([[1.0]], [[0.5]], [[True]], [[True]], turn_gamma=0.8, last_values=[2.0])
    assert tokens[0, 0] == pytest.approx(1 + 0.9 * 2 - 0.5)
    assert turns[0, 0] == pytest.approx(1 + 0.8 * 2 - 0.5)
    found, returns = token_gae([[0.0, 1.0]], [[np.nan, 0.25]], [[False, True]])
    assert found.tolist() == [[0.0, 0.75]]
    assert returns.tolist() == [[0.0, 1.0]]


ROW: Any = [[0.0, 0.0, 1.0]]
ALL: Any = [[True, True, True]]


@cases(
    "call, words",
    (lambda: token_gae([1.0], [1.0], [True]), "shape \\(sequences, tokens\\), got shape \\(1,\\)"),
    (lambda: token_gae(ROW, [[0.0]], ALL), "values must have the shape of rewards"),
    (lambda: token_gae(ROW, ROW, [[True]]), "mask must have the shape of the numbers"),
    (lambda: token_gae(ROW, ROW, [[0.5, 1, 1]]), "mask must hold True and False, got 0.5"),
    (lambda: token_gae(ROW, [[0.0, np.inf, 0.0]], ALL), r"values\[0, 1\] is not finite"),
    (lambda: token_gae(ROW, ROW, [[True, True, False]]), r"rewards\[0, 2\] = 1.0 is on a masked token"),
    (lambda: token_gae([[0.0, 0.0, 1e301]], ROW, ALL), "rewards"),
    (lambda: bi_level_gae(ROW, [[np.nan, 0.0, 0.0]], ALL, ALL), "values"),
    (lambda: token_gae(ROW, ROW, ALL, last_values=[np.nan]), "last_values"),
    (lambda: token_gae(ROW, ROW, ALL, gamma=2.0), "gamma must be between 0 and 1, got 2.0"),
    (lambda: token_gae(ROW, ROW, ALL, last_values=[0.0, 1.0]), "one finite number per sequence"),
    (lambda: bi_level_gae(ROW, ROW, ALL, [[False, True, False]]), r"\[0, 2\] belongs to a turn without an end"),
    (lambda: bi_level_gae(ROW, ROW, [[False, True, True]], ALL), r"turn_ends\[0, 0\] is a masked token"),
    (lambda: bi_level_gae([[1.0, 0, 0]], ROW, ALL, [[False, True, True]]), r"rewards\[0, 0\] = 1.0 is inside"),
    (lambda: bi_level_gae(ROW, ROW, ALL, ALL, turn_gamma=-1.0), "turn_gamma must be between 0 and 1"),
)
def test_wrong_input_is_named(call: Any, words: str) -> None:
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
    close(whiten(advantages, mask)[mask], np.array(recorded["adv"])[mask], 1e-5)
    close(returns[mask], np.array(recorded["ret"])[mask], 1e-5)


def test_published_gae_and_bi_level_gae() -> None:
    results = load("token_level")["results"]
    assert len(results) == 60
    for case in results:
        rewards, values, mask, gaps = arrays(case, "rewards", "values", "mask", "gap_mask")
        options = {"gamma": case["gamma"], "lam": case["lam"]}
        assert_same(token_gae(rewards, values, mask, **options), mask > 0, case["gae_verl_agent"])
        found = token_gae(rewards, values, gaps, **options)
        assert_same(found, gaps > 0, case["gae_verl_2026_skip_observation_tokens"])

        rewards, values, mask = arrays(case, "turn_rewards", "values", "gap_mask")
        found = bi_level_gae(
            rewards, values, mask, rewards != 0, gamma=case["gamma"], lam=case["lam"], turn_gamma=0.95
        )  # fmt: skip
        assert_same(found, mask > 0, case["bi_level_gae_ragen|high_gamma=0.95"])
