"""ppo: the three levels, what is whitened, and where a penalty is felt."""

from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.ppo import ppo
from tests.refusals import refuses
from wrappers.credit.token_gae import whiten

PLAIN: dict[str, Any] = {"whiten": False, "lam": 0.5, "gamma": 0.8, "token_gamma": 0.9}


def table_of(*lengths: int, reward: float = 1.0) -> StepTable:
    """One trajectory whose replies have these lengths; the last but one action is not valid, the last is rewarded."""
    n = len(lengths)
    return StepTable.from_arrays(
        group=[0] * n, trajectory=[0] * n, t=range(n), state=range(n), action=[0] * n, next_state=range(1, n + 1),
        reward=[0.0] * (n - 1) + [reward], won=[True] * n, valid=[i != n - 2 for i in range(n)],
        replies=[Reply("", (1,), (2,) * k, (-1.0,) * k) for k in lengths],
    )  # fmt: skip


def test_by_hand() -> None:
    table = table_of(1, 1, 1, 1)
    values = np.random.default_rng(0).normal(size=4)
    turn = ppo(table, values, **{**PLAIN, "level": "turn"})
    token = ppo(table, values[:, None], **{**PLAIN, "level": "token", "token_gamma": 0.8})
    both = ppo(table, values[:, None], **{**PLAIN, "level": "bi-level"})
    residual = ppo(table, values[:, None], **{**PLAIN, "level": "residual", "token_lam": 0.5})
    for found in (token, both, residual):
        np.testing.assert_allclose(found.advantages[:, 0], turn.advantages, atol=1e-12)
        np.testing.assert_allclose(found.targets[:, 0], turn.targets, atol=1e-12)
    # One sequence of 2 + 1 tokens, values 0.1, 0.2, 0.3: 1 - 0.3; 0.9 * 0.3 - 0.2 + 0.45 * 0.7; 0.08 + 0.45 * 0.385.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **{**PLAIN, "level": "token"})
    np.testing.assert_allclose(found.advantages, [[0.08 + 0.45 * 0.385, 0.385], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.18 + 0.45 * 0.385, 0.585], [1.0, 0.0]])
    # Turns: 1 - 0.3; 0.8 * 0.3 - 0.2 + 0.4 * 0.7 = 0.32. Inside the first: 0.9 * 0.2 - 0.1 + 0.45 * 0.32.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **{**PLAIN, "level": "bi-level"})
    np.testing.assert_allclose(found.advantages, [[0.08 + 0.45 * 0.32, 0.32], [0.7, 0.0]])
    # Turns: 1 - 0.3; 0.8 * 0.3 - 0.1 + 0.4 * 0.7 = 0.42. Tokens, lam 1, 0.8 between turns: 0.8 * 1 - 0.2 = 0.6 and
    # 0.9 * 0.8 - 0.1 = 0.62: a hundredth about their mean, of which a half.
    options = {**PLAIN, "level": "residual", "residual": 0.5}
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **options)
    np.testing.assert_allclose(found.advantages, [[0.425, 0.415], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.72, 0.8], [1.0, 0.0]])
    # gamma = lam = 1: the return 1 less the value; the first step is not valid: 0.1 off its reward.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), preset="authors", whiten=False)
    np.testing.assert_allclose(found.advantages, [[0.8, 0.7], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.9, 0.9], [1.0, 0.0]])


@pytest.mark.parametrize("level", ["turn", "token", "bi-level", "residual"])
def test_whitening_is_over_what_was_written(level: Any) -> None:
    table = table_of(3, 1, 2)
    values = np.arange(3.0) if level == "turn" else np.arange(9.0).reshape(3, 3)
    raw = ppo(table, values, **{**PLAIN, "level": level})
    white = ppo(table, values, **{**PLAIN, "level": level, "whiten": True})
    written = np.ones(3, bool) if level == "turn" else np.arange(3) < np.array([[3], [1], [2]])
    np.testing.assert_allclose(white.advantages, whiten(raw.advantages, written))
    assert np.array_equal(white.targets, raw.targets)


@pytest.mark.parametrize("level", ["turn", "token", "bi-level", "residual"])
@pytest.mark.parametrize(
    ("where", "lost", "unlearned"),
    [
        # Values 0, all discounts and lam 1: rows 0, 1, 2 of which row 1 is not valid.
        ("row", [0.0, 0.4, 0.0], [0.0, 0.4, 0.0]),
        ("discounted", [0.4, 0.4, 0.0], [0.4, 0.4, 0.0]),
        ("advantage", [0.0, 0.4, 0.0], [0.0, 0.0, 0.0]),
    ],
)
def test_where_the_penalty_is_felt(level: Any, where: Any, lost: list[float], unlearned: list[float]) -> None:
    found = ppo(
        table_of(2, 1, 1), level=level, whiten=False, lam=1.0, gamma=1.0, invalid_penalty=0.4, penalty=where
    )  # fmt: skip
    advantages, returns = found.advantages.reshape(3, -1), found.targets.reshape(3, -1)
    np.testing.assert_allclose(advantages[:, 0], 1 - np.array(lost))
    np.testing.assert_allclose(returns[:, 0], 1 - np.array(unlearned))
    if level != "turn":
        assert advantages[0, 0] == advantages[0, 1]
        assert not advantages[1:, 1].any()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"values": np.zeros((2, 1))}, ValueError, r"one value per step, shape \(2,\), got shape \(2, 1\)"),
        ({"values": np.zeros(2), "level": "token"}, ValueError, r"one value per reply token, shape \(2, 2\)"),
        ({"level": "bi-level", "horizon": "step"}, ValueError, "horizon 'step' has no level of turns"),
        ({"level": "word"}, ValueError, "unknown level 'word'"),
        ({"lambda_": 0.9}, TypeError, "unknown option 'lambda_'"),
        ({"whiten": 1}, TypeError, "whiten must be True or False"),
    ],
)
def test_wrong_input_is_named(arguments: Any, error: Any, words: str) -> None:
    refuses(error, words, lambda: ppo(table_of(2, 1), **arguments))


def test_over_turns_forks_are_followed_and_over_tokens_refused() -> None:
    table = StepTable.from_arrays(
        group=[0] * 3, trajectory=[0, 0, 1], t=[0, 1, 1], state=[0, 1, 1], action=[0] * 3, next_state=[1, 2, 3],
        reward=[0.0, 1.0, 0.0], won=[True, True, False], parent={1: (0, 0)},
        replies=[Reply("", (1,), (2,), (-1.0,))] * 3,
    )  # fmt: skip
    # One way leads to 1 and the other to 0: the first step is worth half.
    assert ppo(table, whiten=False, lam=1.0).advantages.tolist() == [0.5, 1.0, 0.0]
    for level in ("token", "bi-level"):
        with pytest.raises(ValueError, match=r"cut from others .*: what follows a shared token is not one sequence"):
            ppo(table, level=level)
