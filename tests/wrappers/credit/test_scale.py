"""Credit on tables that hurt, in linear memory, and of many rows; the long campaign asks how long it takes.

And numbers that hurt: what would overflow inside is refused by name.
"""

import functools
import itertools
import tracemalloc
import warnings

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from tests.cases import cases
from tests.playing import walks
from tests.refusals import refuses
from tests.wrappers.credit import every_method as every
from wrappers.credit import gae, hgpo, rewardflow
from wrappers.credit.options import declared

LARGE = [1e100, -1e100]
HUGE = [1e101, 1e200, -1e300]  # a table itself refuses more


@functools.cache
def made(shape: str, n: int) -> StepTable:
    return (every.SHAPES | every.FORKED)[shape](n)


@pytest.mark.parametrize("name", every.CREDIT | every.BRANCHING)
def test_credit_takes_linear_memory(name: str) -> None:
    method = (every.CREDIT | every.BRANCHING)[name]
    for shape in (shape for each, shape in every.PAIRS if each == name):
        peaks, sizes = [], (1_000, 8_000) if shape in every.FORKED else (2_000, 16_000)
        for n in sizes:
            method(made(shape, n))  # what a table keeps is computed once
            tracemalloc.start()
            method(made(shape, n))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert (name, shape) not in every.LINEAR or peaks[1] < 12 * peaks[0], (shape, peaks)
        assert peaks[1] < 1500 * sizes[1], (shape, peaks)  # bytes a row


#: Numbers that wrap around in 32 bits: products of two numbers of rows do. Each preset takes one shape.
MANY = [pair for pair in zip(every.CREDIT, itertools.cycle(every.SHAPES)) if pair in every.LINEAR]


@pytest.mark.parametrize(("name", "shape"), MANY)
def test_a_hundred_thousand_rows(name: str, shape: str) -> None:
    assert not np.isinf((every.CREDIT | every.BRANCHING)[name](made(shape, 100_000))).any()


@pytest.mark.parametrize(("name", "preset"), every.WITH_PRESETS)
def test_large_rewards_overflow_nowhere_and_huge_ones_are_refused_by_name(name: str, preset: str) -> None:
    method = every.with_inputs(name, preset)
    options = {"outcome": "return"} if "outcome" in declared(every.METHODS[name])[0] else {}
    for value in LARGE:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scores = method(huge_reward(value), **options)
        assert np.isfinite(scores).all(), value
    for value in HUGE:
        refuses(ValueError, "reward", method, huge_reward(value), **options)


def huge_reward(value: float) -> StepTable:
    return walks({"a": "s x u x goal", "b": "s x u x pit"}, won="a", reward=[0, value, 0, 1])


def test_means_over_thousands_of_success_states_endless_contexts_and_huge_flows_are_refused() -> None:
    n = 2002
    row = np.arange(n)
    for count in (1000, 1001):
        table = every.hard_rows(
            np.zeros(n, int), row, np.zeros(n, int), np.zeros(n, int), 1 + np.minimum(row // 2, count - 1)
        )
        if count == 1000:
            assert np.isfinite(rewardflow(table, aggregate="mean")).all()
        else:
            refuses(ValueError, r"at most 1000 times; a group has 1001", rewardflow, table, aggregate="mean")
    # A huge reward is refused where rewards flow; the paper's form does not look at rewards.
    assert np.isfinite(rewardflow(huge_reward(1e200))).all()
    for options in ({"values": "propagated"}, {"lose_last": True}, {"outcome": "return"}):
        refuses(ValueError, "reward of row 1", rewardflow, huge_reward(1e200), **options)
    # Contexts that are longer than any episode cost nothing.
    assert np.isfinite(hgpo(huge_reward(1.0), k=1000, alpha=0.0)).all()
    refuses(ValueError, "k must be", hgpo, huge_reward(1.0), k=10**9, alpha=0.0)


@cases(
    "name, column",
    ("gae", "values"), ("gae", "last_values"), ("reinforce_plus_plus", "weights"), ("reinforce_plus_plus", "kl"),
    ("reinforce_plus_plus_baseline", "weights"), ("graphgpo", "cost"),
)  # fmt: skip
def test_a_column_with_a_bad_number_is_refused_by_name(name: str, column: str) -> None:
    table = huge_reward(1.0)
    numbers = [1.0] * (2 if column == "last_values" else 4)
    given = {"values": [0.0] * 4} if name == "gae" else {}
    method = gae if name == "gae" else every.METHODS[name]
    assert np.isfinite(method(table, **{**given, column: numbers})).all()
    for value in (float("nan"), float("inf"), 1e301, "many", None):
        refuses(ValueError, column, method, table, **{**given, column: [*numbers[:-1], value]})
