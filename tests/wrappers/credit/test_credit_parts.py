"""What methods of credit share: statistics, returns, scores of steps and tokens, and segments."""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.checks import LARGEST
from agentgym.trajectory import Ints, Reply, StepTable
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close, episodes, random_table, rebuild
from wrappers.credit.group import counting_sort, number_pairs, standardise, visit_advantages
from wrappers.credit.grpo import PRESETS
from wrappers.credit.returns import discounted_returns, episode_scores, penalties
from wrappers.credit.scores import known_entropies, min_max, reply_entropies, reply_tokens, step_scores, token_scores
from wrappers.credit.segments import by_count, by_event, by_turn, checked_segments, whole


def check_pairs(pairs, n_first, n_second):
    first, second = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    ids, example = number_pairs(first, n_first, second, n_second)
    distinct = sorted(set(pairs))
    assert ids.tolist() == [distinct.index(pair) for pair in pairs]
    assert example.tolist() == [pairs.index(pair) for pair in distinct]


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=60))
def test_number_pairs_equals_sorting(pairs):
    check_pairs(pairs, 6, 8)


@pytest.mark.parametrize("bounds", [(1, 1), (300, 70_000), (70_000, 3), (2**33, 2**40)])
def test_pairs_of_any_range_equal_sorting(bounds):
    # Few possible pairs are numbered in a table of them, others are sorted 16 bits at a time.
    rng = np.random.default_rng(bounds[0])
    first, second = (rng.choice(rng.integers(0, bound, 9), 200).tolist() for bound in bounds)
    check_pairs(list(zip(first, second, strict=True)), *bounds)


@pytest.mark.parametrize("n_keys", [1, 2, 65_536, 65_537, 2**32 + 1])
def test_counting_sort_is_stable(n_keys):
    keys = np.random.default_rng(0).integers(0, n_keys, 300)
    keys[::7] = n_keys - 1
    keys[::5] = 0
    assert counting_sort(keys, n_keys).tolist() == sorted(range(300), key=lambda i: keys[i])


def test_statistics_by_hand() -> None:
    # group 0: 0, 1, 5: mean 2, deviations -2 -1 3, sum of squares 14, sample std sqrt(7); group 1: 4, 4: no contrast.
    values, groups = np.array([0.0, 4.0, 1.0, 4.0, 5.0]), np.array([0, 1, 0, 1, 0])
    expected = np.array([-2, 0, -1, 0, 3]) / np.sqrt(7)
    close(standardise(values, groups, 2, eps=0.0), expected)
    # population: sqrt(14 / 3); none: the deviations; batch: all five deviations, 14 / (5 - 1).
    expected *= np.sqrt(7) / np.sqrt(14 / 3)
    close(standardise(values, groups, 2, eps=0.0, ddof=0), expected)
    close(standardise(values, groups, 2, std="none"), [-2, 0, -1, 0, 3])
    close(standardise(values, groups, 2, eps=0.0, std="batch"), np.array([-2, 0, -1, 0, 3]) / np.sqrt(3.5))
    # Two trajectories, of two rows worth 1 and one row worth 4; over trajectories: mean 2.5, over rows: mean 2.
    values, groups = np.array([1.0, 1.0, 4.0]), np.zeros(3, np.int64)
    close(standardise(values, groups, 1, members=np.array([0, 2]), std="none"), [-1.5, -1.5, 1.5])
    close(standardise(values, groups, 1, std="none"), [-1, -1, 2])
    # 0.1 + 0.2 and 0.3 differ by one unit in the last place, which a std of 1e-17 + 1e-6 would keep tiny, but a mean
    # of many such values divided by eps would not.
    values = np.array([0.1 + 0.2, 0.3, 0.3] * 40) * 1e8
    assert (standardise(values, np.zeros(120, np.int64), 1, std="group") == 0).all()
    assert (standardise(values, np.zeros(120, np.int64), 1, std="none") == 0).all()
    # Small values with real contrast keep it.
    assert standardise(np.array([1e-9, 2e-9]), np.zeros(2, np.int64), 1, eps=0.0) == pytest.approx(
        [-(0.5**0.5), 0.5**0.5]
    )
    # Both trajectories are worth 1; the second row of the first is penalised to 0.9.
    values, members = np.array([1.0, 0.9, 1.0]), np.array([0, 2])
    groups = np.zeros(3, np.int64)
    close(standardise(values, groups, 1, members=members, std="none"), [0, -0.1, 0])
    assert standardise(values, groups, 1, members=members).tolist() == [0, 0, 0]
    table = random_table(5)
    values = np.random.default_rng(0).normal(size=len(table))
    scored = np.arange(len(table)) % 3 > 0
    result = visit_advantages(values, table.state, len(table.states), PRESETS["paper"], scored=scored)
    values[~scored] = 1e9
    assert (result == visit_advantages(values, table.state, len(table.states), PRESETS["paper"], scored=scored)).all()
    assert (result[~scored] == 0).all()
    assert np.any(result != 0)
    values, groups = np.array([7.0, 1.0, 1.0]), np.array([0, 1, 1])
    for std, raw in (("group", 7 / (1 + 1e-6)), ("none", 7.0)):  # a group of one
        assert standardise(values, groups, 2, std=std).tolist() == [0, 0, 0]
        assert standardise(values, groups, 2, std=std, singleton="raw").tolist() == [raw, 0, 0]


EARNED = filled(
    trajectory=list("abaa"), t=[0, 0, 1, 2], state=list("suvw"), next_state=list("vtwz"), reward=[1.0, 8.0, 2.0, 4.0],
    won=[True, False, True, True], valid=[True, False, False, True],
)  # fmt: skip


def test_returns_and_penalties_by_hand() -> None:
    # a: 4; 2 + 4/2 = 4; 1 + 4/2 = 3. b: 8.
    assert discounted_returns(EARNED, 0.5).tolist() == [3.0, 8.0, 4.0, 4.0]
    assert discounted_returns(EARNED, 1.0).tolist() == [7.0, 8.0, 6.0, 4.0]
    assert discounted_returns(EARNED, 0.0).tolist() == [1.0, 8.0, 2.0, 4.0]
    assert discounted_returns(EARNED, 0.5, np.array([0.0, 0.0, 0.0, 1.0])).tolist() == [0.25, 0.0, 0.5, 1.0]
    # a is worth 1 + 2 + 4 = 7 and has one invalid step, b is worth 8 and is invalid.
    options = {**PRESETS["paper"], "invalid_penalty": 0.5}
    assert episode_scores(EARNED, {**options, "penalty": "row"}).tolist() == [7.0, 7.5, 6.5, 7.0]
    assert episode_scores(EARNED, {**options, "penalty": "discounted"}).tolist() == [6.5, 7.5, 6.5, 6.5]
    assert episode_scores(EARNED, {**options, "penalty": "advantage"}).tolist() == [7.0, 8.0, 7.0, 7.0]
    assert episode_scores(EARNED, {**options, "outcome": "won"}).tolist() == [1.0, -0.5, 0.5, 1.0]
    assert penalties(EARNED, {**options, "penalty": "row"}, "row").tolist() == [0.0, 0.5, 0.5, 0.0]
    assert penalties(EARNED, {**options, "penalty": "row"}, "discounted").tolist() == [0.0] * 4


STEPS = partial(step_scores, "q", length=2)
TOKENS = partial(token_scores, "q", mask=np.array([[True, False], [True, True]]))
MASKS = partial(reply_tokens, length=2)


@cases(
    "read, values, words",
    (STEPS, [1.0], r"q must hold one number per row, nan where it is not scored, shape \(2,\), got shape \(1,\)"),
    (STEPS, [[1.0], [2.0]], r"got shape \(2, 1\)"),
    (STEPS, ["one", "two"], "could not convert"),
    (STEPS, [0.0, -np.inf], "row 1 has -inf, beyond"),
    (STEPS, [1e101, 0.0], "row 0 has 1e\\+101, beyond 1e\\+100"),
    (TOKENS, [[1.0], [2.0]], r"q must be of the mask's shape \(2, 2\), got shape \(2, 1\)"),
    (TOKENS, [[1.0], [2.0, 3.0]], r"q must be of the mask's shape \(2, 2\) \("),
    (TOKENS, [[0.0, 0.0], [0.0, np.inf]], "token 1 of row 1 has inf"),
    (TOKENS, [[-1e101, 0.0], [0.0, 0.0]], "token 0 of row 0 has -1e"),
    (MASKS, [True, False], r"mask must be of shape \(2, K\), a row per step, got shape \(2,\)"),
    (MASKS, [[True], [True], [False]], r"got shape \(3, 1\)"),
    (MASKS, [[True], [True, False]], r"mask must be of shape \(2, K\), a row per step \("),
    (MASKS, [[0.5], [1.0]], "mask must hold True and False, got 0.5"),
)
def test_anything_else_is_refused_by_name(read: Any, values: Any, words: str) -> None:
    refuses(ValueError, words, read, values)


TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")


def with_logprobs(table, *logprobs):
    replies = np.empty(len(table), np.object_)
    replies[:] = [None if drawn is None else Reply("x", logprobs=tuple(drawn)) for drawn in logprobs]
    return dataclasses.replace(table, replies=replies)


def test_masks_and_entropies_by_hand() -> None:
    given: Any = [1, None, np.nan, -LARGEST]
    np.testing.assert_array_equal(step_scores("q", given, 4), [1, np.nan, np.nan, -LARGEST])
    assert step_scores("q", [], 0).dtype == np.float64
    given: Any = [[1, np.inf], [None, -2]]
    np.testing.assert_array_equal(token_scores("q", given, reply_tokens([[1, 0], [1, 1]], 2)), [[1, 0], [np.nan, -2]])
    found = reply_entropies(with_logprobs(TABLE, [-1.0, -3.0], [], None))
    assert found[0] == 2
    assert np.isnan(found[1:]).all()
    assert np.isnan(reply_entropies(TABLE)).all()
    assert known_entropies(TABLE, [1, 2, math.nan])[:2].tolist() == [1, 2]
    refuses(ValueError, r"no reply of the table has log-probabilities: play", known_entropies, TABLE, None)
    refuses(ValueError, r"entropies must hold one number per row, .*got shape \(2,\)", known_entropies, TABLE, [1, 2])
    values, width, known = min_max(np.array([1.0, 3.0, np.nan, 2.0]), np.array([0, 0, 0, 1]), 3, 0.0)
    assert values.tolist() == [0, 1, 0, 0]
    assert width.tolist() == [2, 0, 0]
    assert known.tolist() == [True, True, False, True]


def moved(state: Any, action: Any, next_state: Any) -> bool:
    return bool(state != next_state)


MAKERS: dict[str, Callable[[StepTable], Ints]] = {
    "event": lambda table: by_event(table, moved),
    "turn": by_turn,
    "count": lambda table: by_count(table, 3),
    "whole": whole,
}


def test_events_end_segments() -> None:
    table = episodes("s -look-> s -take-> u -put-> v -look-> v -look-> v", "s -look-> s", "s -take-> u")
    assert by_event(table, moved).tolist() == [0, 0, 1, 2, 2, 0, 0]
    # Rewards that states do not show: -0.1 per move, and 0.9 more where a box came home.
    table = episodes("s -a-> u -b-> v -c-> w", "s -a-> u -b-> v")
    table.reward[:] = [-0.1, 0.9, -0.1, -0.1, -0.1]
    assert by_event(table, np.abs(table.reward + 0.1) > 1e-9).tolist() == [0, 0, 1, 0, 0]
    refuses(ValueError, r"one bool per row, shape \(5,\), got bool of shape \(1,\)", by_event, table, [True])
    refuses(ValueError, "got float64 of shape", by_event, table, table.reward)
    asked = []

    def changed(state: Any, action: Any, next_state: Any) -> bool:
        asked.append((state, action, next_state))
        return False

    by_event(episodes("s -a-> s -a-> s -b-> u", "s -a-> s"), changed)
    assert asked == [("s", "a", "s"), ("s", "b", "u")]


@cases(
    "length, k, expected",
    (7, 1, [0] * 7), (7, 3, [0, 0, 0, 1, 1, 2, 2]), (8, 4, [0, 0, 1, 1, 2, 2, 3, 3]), (2, 4, [0, 1]),
    (4, 4, [0, 1, 2, 3]),
)  # fmt: skip
def test_a_count_cuts_evenly(length: int, k: int, expected: list[int]) -> None:
    assert by_count(episodes("s -a-> s", " ".join(["s", *["-a-> s"] * length])), k).tolist() == [0, *expected]


@pytest.mark.parametrize("maker", MAKERS)
def test_segments_are_valid_in_any_order_of_rows(maker: str) -> None:
    table = random_table(5)
    rows = np.random.default_rng(0).permutation(len(table))
    found = MAKERS[maker](table)
    shuffled = rebuild(table, rows)
    np.testing.assert_array_equal(MAKERS[maker](shuffled), found[rows])
    np.testing.assert_array_equal(checked_segments(shuffled, found[rows]), found[rows])
    assert MAKERS[maker](rebuild(table, np.arange(0))).shape == (0,)


@cases(
    "segments, words",
    ([0, 0, 1], r"shape \(4,\), got int64 of shape \(3,\)"),
    ([0.0, 0.5, 1.0, 0.0], "got float64"),
    ([1, 1, 1, 0], "row 0 has 1"),
    ([0, 2, 2, 0], "row 1 has 2"),
    ([0, 1, 0, 0], "row 2 has 0"),
    ([0, 1, 2, 3], "row 3 has 3"),
)
def test_wrong_segments_are_named(segments: Any, words: str) -> None:
    refuses(ValueError, words, checked_segments, episodes("s -a-> s -a-> s -a-> s", "s -a-> s"), segments)
