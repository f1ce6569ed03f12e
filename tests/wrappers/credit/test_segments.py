from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import Ints, StepTable
from tests.cases import cases
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes, random_table, rebuild
from wrappers.credit.segments import by_count, by_event, by_turn, checked_segments, whole


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
