"""Credit on tables that hurt, in linear memory, and of a million rows; the long campaign asks how long it takes.

And numbers that hurt: what would overflow inside is refused by name.
"""

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from tests.wrappers.credit.hard_tables import (
    BRANCHING,
    CREDIT,
    FORKED,
    LINEAR,
    METHODS,
    PAIRS,
    PRESETS,
    RECENT,
    SHAPES,
    hard_rows,
)
from wrappers.credit import bi_level_gae, gae, hgpo, rewardflow, token_gae

HUGE = [1e101, 1e200, -1e300, 1.7e308]


@pytest.mark.parametrize(("name", "shape"), PAIRS)
def test_credit_takes_linear_memory(name: str, shape: str) -> None:
    method, peaks = (CREDIT | BRANCHING)[name], []
    for n in (5_000, 40_000):
        table = (SHAPES | FORKED)[shape](n)
        method(table)  # what a table keeps is computed once
        tracemalloc.start()
        method(table)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    if (name, shape) in LINEAR:
        assert peaks[1] < 12 * peaks[0]
    most = 1000 if name.partition(",")[0] in METHODS else 1500
    assert peaks[1] < most * 40_000  # bytes


@pytest.mark.parametrize("value", [1e100, -1e100])
@pytest.mark.parametrize("name", RECENT)
def test_a_large_reward_overflows_nowhere_in_recent_credit(name: str, value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = RECENT[name](huge_reward(value), outcome="return")
    assert not np.isinf(scores).any()
    assert name == "ragen2" or np.isfinite(scores).all()


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("name", RECENT)
def test_a_huge_reward_is_refused_by_name_in_recent_credit(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="reward"):
        RECENT[name](huge_reward(value), outcome="return")


#: Every method in every preset sees every shape at 40,000 rows, above. Numbers that wrap around, which only a million
#: rows show, do not depend on the three together: each method takes two shapes, one a preset, and each shape four
#: methods.
MILLION = [
    (name, preset, [*SHAPES][(i + 2 * k) % len(SHAPES)])
    for i, name in enumerate(METHODS)
    for k, preset in enumerate(PRESETS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset", "shape"), MILLION)
def test_a_million_rows(name: str, preset: str, shape: str) -> None:
    assert not np.isinf(METHODS[name](SHAPES[shape](1_000_000), preset=preset)).any()


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", sorted({*METHODS} - {"rewardflow", "graphgpo", "dapo", "prime"}))
def test_a_huge_reward_is_refused_by_name(name: str, preset: str, value: float) -> None:
    with pytest.raises(ValueError, match="reward"):
        METHODS[name](huge_reward(value), preset=preset)


def huge_reward(value: float) -> StepTable:
    return StepTable.from_arrays(
        group=[0] * 4, trajectory=[0, 0, 1, 1], t=[0, 1, 0, 1], state=[0, 1, 0, 1], action=[0] * 4,
        next_state=[1, 2, 1, 3], reward=[0, value, 0, 1], won=[1, 1, 0, 0],
    )  # fmt: skip


@pytest.mark.parametrize("options", [{"values": "propagated"}, {"lose_last": True}, {"outcome": "return"}])
def test_a_huge_reward_is_refused_where_rewards_flow(options: dict[str, Any]) -> None:
    assert np.isfinite(rewardflow(huge_reward(1e200))).all()  # the paper's form does not look at rewards
    with pytest.raises(ValueError, match="reward of row 1"):
        rewardflow(huge_reward(1e200), **options)


def test_a_mean_over_thousands_of_success_states_is_refused() -> None:
    n = 2002
    row = np.arange(n)
    for count in (1000, 1001):
        table = hard_rows(
            np.zeros(n, int), row, np.zeros(n, int), np.zeros(n, int), 1 + np.minimum(row // 2, count - 1)
        )
        if count == 1000:
            assert np.isfinite(rewardflow(table, aggregate="mean")).all()
        else:
            with pytest.raises(ValueError, match=r"at most 1000 times; a group has 1001"):
                rewardflow(table, aggregate="mean")


@pytest.mark.parametrize("value", [1e100, -1e100])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", METHODS)
def test_a_large_reward_overflows_nowhere(name: str, preset: str, value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = METHODS[name](huge_reward(value), preset=preset)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("grpo", "eps"), ("grpo", "invalid_penalty"), ("gigpo", "omega"), ("rewardflow", "success_value"),
        ("rewardflow", "alpha_action"), ("rewardflow", "shaping_gamma"), ("graphgpo", "beta_graph"), ("hgpo", "alpha"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [1e301, float("nan"), float("inf"), 10**400])
def test_a_huge_option_is_refused_by_name(name: str, option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        METHODS[name](huge_reward(1.0), **{option: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e301, "many", None])
@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("gae", "values"), ("gae", "last_values"), ("reinforce_plus_plus", "weights"), ("reinforce_plus_plus", "kl"),
        ("reinforce_plus_plus_baseline", "weights"), ("graphgpo", "cost"),
    ],
)  # fmt: skip
def test_a_column_with_a_bad_number_is_refused_by_name(name: str, column: str, value: Any) -> None:
    table = huge_reward(1.0)
    numbers = [1.0] * (2 if column == "last_values" else 4)
    given = {"values": [0.0] * 4} if name == "gae" else {}
    method = gae if name == "gae" else METHODS[name]
    assert np.isfinite(method(table, **{**given, column: numbers})).all()
    with pytest.raises(ValueError, match=column):
        method(table, **{**given, column: [*numbers[:-1], value]})


def test_tokens_with_bad_numbers_are_refused_by_name() -> None:
    ends = [[False, True]]
    for value in (float("nan"), 1e301):
        with pytest.raises(ValueError, match="rewards"):
            token_gae([[0.0, value]], [[0.0, 0.0]], [[True, True]])
        with pytest.raises(ValueError, match="values"):
            bi_level_gae([[0.0, 1.0]], [[value, 0.0]], [[True, True]], ends)
        with pytest.raises(ValueError, match="last_values"):
            token_gae([[0.0, 1.0]], [[0.0, 0.0]], [[True, True]], last_values=[value])


def test_contexts_longer_than_any_episode_cost_nothing() -> None:
    table = huge_reward(1.0)
    assert np.isfinite(hgpo(table, k=1000, alpha=0.0)).all()
    with pytest.raises(ValueError, match="k must be"):
        hgpo(table, k=10**9, alpha=0.0)
