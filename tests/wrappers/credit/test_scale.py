"""Credit on tables that hurt: a million rows of one group, one state, one chain or a star, in linear time and memory.

And numbers that hurt: what would overflow inside is refused by name.
"""

import functools
import operator
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import Floats, StepTable
from benchmarks.throughput.synthetic_rollouts import random_walk_table
from tests.growth import MOST_GROWTH, growth, seconds
from wrappers.credit import (
    action_targets,
    aem,
    bi_level_gae,
    dapo,
    empg,
    frontier,
    gae,
    gigpo,
    graphgpo,
    grpo,
    hcapo,
    hgpo,
    hisr,
    igpo,
    istar,
    milegpo,
    potential,
    prime,
    process_reward,
    ragen2,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    rewardflow,
    rloo,
    salt,
    spa,
    tigpo,
    token_gae,
)
from wrappers.credit.potential import PRESETS as POTENTIAL_PRESETS
from wrappers.credit.segments import by_count, by_event

#: Steps of an episode, where the shape does not say something else.
LENGTH = 50


def rows(group: Any, trajectory: Any, t: Any, state: Any, next_state: Any, action: Any = None) -> StepTable:
    n = len(t)
    last = np.append(trajectory[1:] != trajectory[:-1], True)
    won = (trajectory % 2 == 0) & np.ones(n, bool)
    return StepTable.from_arrays(
        group=group, trajectory=trajectory, t=t, state=state, next_state=next_state,
        action=np.zeros(n, int) if action is None else action, reward=(last & won).astype(float),
        valid=np.arange(n) % 7 != 0, won=won,
    )  # fmt: skip


def one_group(n: int) -> StepTable:
    row = np.arange(n)
    state = row % 97
    return rows(np.zeros(n, int), row // LENGTH, row % LENGTH, state, state + 1, row % 5)


def one_state(n: int) -> StepTable:
    row = np.arange(n)
    return rows(row // (8 * LENGTH), row // LENGTH, row % LENGTH, np.zeros(n, int), np.zeros(n, int), row % 5)


def distinct_states(n: int) -> StepTable:
    row = np.arange(n)
    return rows(row // (8 * LENGTH), row // LENGTH, row % LENGTH, row, row + 1)


def chain(n: int) -> StepTable:
    row = np.arange(n)
    return rows(np.zeros(n, int), np.zeros(n, int), row, row, row + 1)


def star(n: int) -> StepTable:
    row = np.arange(n)
    back = row % 2 == 1
    spoke = 1 + row // 2
    state = np.where(back, spoke, 0)
    return rows(np.zeros(n, int), row // LENGTH, row % LENGTH, state, np.where(back, 0, spoke), row)


HUGE = [1e101, 1e200, -1e300, 1.7e308]
SHAPES: dict[str, Callable[[int], StepTable]] = {
    "one group": one_group, "one state": one_state, "distinct states": distinct_states, "chain": chain, "star": star,
}  # fmt: skip


def with_values(table: StepTable, **options: Any) -> Floats:
    return gae(table, values=np.zeros(len(table)), **options)


def with_scores(method: Callable[..., Floats]) -> Callable[..., Floats]:
    def call(table: StepTable, **options: Any) -> Floats:
        return method(table, scores=np.arange(len(table)) % 11 / 11, **options)

    return call


def with_token_scores(table: StepTable, **options: Any) -> Floats:
    scores = (np.arange(2 * len(table)) % 11 / 11).reshape(-1, 2)
    return prime(table, scores=scores, mask=np.ones(scores.shape, bool), **options)


METHODS: dict[str, Callable[..., Floats]] = {
    "dapo": dapo, "gae": with_values, "gigpo": gigpo, "graphgpo": graphgpo, "grpo": grpo, "hgpo": hgpo,
    "istar": with_scores(istar), "prime": with_token_scores, "process_reward": with_scores(process_reward),
    "reinforce_plus_plus": reinforce_plus_plus, "reinforce_plus_plus_baseline": reinforce_plus_plus_baseline,
    "rewardflow": rewardflow, "rloo": rloo,
}  # fmt: skip
PRESETS = ("paper", "authors")


def rewards_of_segments(table: StepTable) -> Floats:
    ones = np.ones(len(table))
    return hisr(table, contributions=ones, importance=ones, segments=by_count(table, 4))


def rewards_by_attribution(table: StepTable) -> Floats:
    return spa(table, contributions="ridge", rescale=True)


def rewards_of_authors(table: StepTable) -> Floats:
    return spa(table, contributions=np.ones(len(table)), preset="authors")


def shaped_targets(table: StepTable) -> Floats:
    return action_targets(table, shaping="soft", values=np.ones(len(table)))


#: What goes into methods or models. Attribution is not linear in the size of a group.
LINEAR_REWARDS = {
    "hisr": rewards_of_segments, "spa": rewards_of_authors, "targets": shaped_targets,
    "event": lambda table: by_event(table, lambda state, action, next_state: state != next_state),
}  # fmt: skip
REWARDS = {**LINEAR_REWARDS, "attribution": rewards_by_attribution}


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_of_a_usual_batch_take_milliseconds(name: str) -> None:
    table = random_walk_table(0, 16, 8, 50)
    assert seconds(lambda: REWARDS[name](table), 5) < 0.01


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LINEAR_REWARDS)
def test_rewards_take_linear_time(name: str, shape: str) -> None:
    small, large = SHAPES[shape](5_000), SHAPES[shape](40_000)
    assert growth(LINEAR_REWARDS[name], small, large, tries=2) < MOST_GROWTH


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("preset", PRESETS)
def test_credit_takes_linear_time(name: str, preset: str, shape: str) -> None:
    def work(n: int) -> Callable[[], object]:
        table = SHAPES[shape](n)
        METHODS[name](table, preset=preset)  # what a table keeps is computed once
        return lambda: METHODS[name](table, preset=preset)

    assert growth(operator.call, work(5_000), work(40_000), tries=2) < MOST_GROWTH


#: Methods whose presets are not the papers' and the authors'.
RECENT: dict[str, Callable[..., Floats]] = {
    **{name: functools.partial(potential, preset=name) for name in POTENTIAL_PRESETS},
    "salt": salt, "milegpo": milegpo, "tigpo": tigpo, "ragen2": ragen2, "frontier": frontier,
    "empg": lambda table, **options: empg(table, entropies=np.arange(len(table)) % 7 / 7, **options),
    "hcapo": lambda table, **options: hcapo(
        table, hindsight=-(np.arange(len(table)) % 7), plain=-(np.arange(len(table)) % 5), **options
    ),
    "igpo": lambda table, **options: igpo(table, beliefs=np.arange(len(table)) % 7 / 7, **options),
    "aem": lambda table, **options: aem(table, entropies=np.arange(len(table)) % 7 / 7, **options),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", RECENT)
def test_recent_credit_takes_linear_time_and_memory(name: str, shape: str) -> None:
    small, large = SHAPES[shape](5_000), SHAPES[shape](40_000)
    assert growth(RECENT[name], small, large, tries=2) < MOST_GROWTH
    tracemalloc.start()
    RECENT[name](large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1500 * 40_000  # bytes


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


def test_credit_by_costs_takes_linear_time() -> None:
    def work(n: int) -> Callable[[], object]:
        table = chain(n)
        return lambda: graphgpo(table, cost=1.0 + np.arange(n) % 3)

    assert growth(operator.call, work(5_000), work(40_000), tries=2) < MOST_GROWTH


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("preset", PRESETS)
def test_credit_takes_linear_memory(name: str, preset: str, shape: str) -> None:
    peaks = []
    for n in (5_000, 40_000):
        table = SHAPES[shape](n)
        METHODS[name](table, preset=preset)
        tracemalloc.start()
        METHODS[name](table, preset=preset)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 12 * peaks[0]
    assert peaks[1] < 1000 * 40_000  # bytes


#: Every method in every preset sees every shape at 40,000 rows, above. What only a million rows show (numbers that wrap
#: around, what no cache of the processor holds) does not depend on the three together: each method takes two
#: shapes, one a preset, and each shape four methods.
MILLION = [
    (name, preset, [*SHAPES][(i + 2 * k) % len(SHAPES)])
    for i, name in enumerate(METHODS)
    for k, preset in enumerate(PRESETS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset", "shape"), MILLION)
def test_a_million_rows(name: str, preset: str, shape: str) -> None:
    def work(n: int) -> Callable[[], object]:
        table = SHAPES[shape](n)
        assert not np.isinf(METHODS[name](table, preset=preset)).any()
        return lambda: METHODS[name](table, preset=preset)

    assert growth(operator.call, work(125_000), work(1_000_000)) < MOST_GROWTH


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
        table = rows(np.zeros(n, int), row, np.zeros(n, int), np.zeros(n, int), 1 + np.minimum(row // 2, count - 1))
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
