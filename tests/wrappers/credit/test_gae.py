from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.cases import cases
from tests.corridor import CorridorVectorEnv
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers import GAE
from wrappers.credit.gae import gae, lambda_returns
from wrappers.credit.returns import discounted_returns

TWO_STEPS = episodes("s -right-> u -up!-> goal +", "s -left-> pit")  # rewards 0, 1 and 0


def naive(table: StepTable, values: Any, last_values: Any, gamma: float, lam: float) -> Any:
    result = np.zeros(len(table))
    for i in range(table.n_trajectories):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]]
        ahead, advantage = 0.0 if table.terminated[rows[-1]] else last_values[i], 0.0
        for row in reversed(rows):
            advantage = table.reward[row] + gamma * ahead - values[row] + gamma * lam * advantage
            result[row], ahead = advantage, values[row]
    return result


def test_by_hand() -> None:
    # Last step: 1 - 0.5 = 0.5. Before: 0 + 0.9 * 0.5 - 0.2 + 0.9 * 0.8 * 0.5 = 0.25 + 0.36. Other: 0 - 0.3.
    close(gae(TWO_STEPS, values=[0.2, 0.5, 0.3], gamma=0.9, lam=0.8), [0.61, 0.5, -0.3])
    close(lambda_returns(TWO_STEPS, values=[0.2, 0.5, 0.3], gamma=0.9, lam=0.8), [0.81, 1.0, 0.0])
    ends = {"terminated": [True, False, False], "truncated": [False, True, False]}
    table = filled(trajectory=[0, 1, 2], t=[0] * 3, reward=[1.0] * 3, **ends)
    found = gae(table, values=np.zeros(3), last_values=[5.0, 6.0, 7.0], gamma=0.5)
    close(found, [1.0, 1 + 0.5 * 6, 1 + 0.5 * 7])
    close(gae(table, values=np.zeros(3), gamma=0.5), 1.0)
    table = random_table(5)
    close(gae(table, values=discounted_returns(table, 0.9), gamma=0.9, lam=0.7), 0.0)
    words = r"one finite number per trajectory, shape \(2,\)"
    refuses(ValueError, words, gae, TWO_STEPS, values=np.zeros(3), last_values=[0.0])
    # Returns 1 and 0 on every row; the second step is invalid: 0.1 off that row only.
    found = gae(TWO_STEPS, values=[0.2, 0.5, 0.3], preset="authors")
    close(found, [0.8, 0.4, -0.3])
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
    close(found, naive(table, values, last_values, gamma, lam))


@cases(
    "where, advantages, targets",
    # gamma 1, lam 1, values 0: the returns are 1, 1, 0; the second step is invalid and loses 0.4.
    ("row", [1.0, 0.6, 0.0], [1.0, 0.6, 0.0]),
    ("discounted", [0.6, 0.6, 0.0], [0.6, 0.6, 0.0]),
    ("advantage", [1.0, 0.6, 0.0], [1.0, 1.0, 0.0]),
)
@pytest.mark.parametrize("horizon", ["trajectory", "step"])
def test_where_the_penalty_is_felt(horizon: Any, where: Any, advantages: Any, targets: Any) -> None:
    options: Any = {"lam": 1.0, "invalid_penalty": 0.4, "penalty": where, "horizon": horizon}
    close(gae(TWO_STEPS, values=np.zeros(3), **options), advantages)
    close(lambda_returns(TWO_STEPS, values=np.zeros(3), **options), targets)


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
