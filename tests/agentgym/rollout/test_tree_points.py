"""Selections of steps, worked out by hand on four short episodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rollout.tree import SELECTIONS, every, highest_entropy, selected
from agentgym.trajectory import Reply, StepTable
from tests.refusals import refuses

# Group g: a and b part at v; c parts from both at s (it meets "v" by another way); d (of group h) is alone.
#
#   a:  s -x-> v -x-> w -x-> end     rows 0 1 2
#   b:  s -x-> v -y-> w -x-> end     rows 3 4 5
#   c:  s -y-> v -y-> u -x-> end     rows 6 7 8
#   d:  s -x-> s -y-> end            rows 9 10
COLUMNS = {
    "group": ["g"] * 9 + ["h"] * 2,
    "trajectory": [*"aaabbbccc", *"dd"],
    "t": [0, 1, 2] * 3 + [0, 1],
    "state": [*"svwsvwsvu", *"ss"],
    "action": [*"xxxxyxyyx", *"xy"],
    "next_state": ["v", "w", "end", "v", "w", "end", "v", "u", "end", "s", "end"],
    "reward": [0] * 11,
    "won": [0] * 11,
}
TABLE = StepTable.from_arrays(**COLUMNS)


@pytest.mark.parametrize(
    ("select", "rows"),
    [
        ("all", list(range(11))),
        ("distinct", [0, 1, 2, 8, 9]),
        ("visited-once", [8]),
        # s of group g is left by x and y; v after (s, x) as well. After (s, y) there is one episode only.
        ("first-disagreement", [0, 1]),
        (every(2), [0, 2, 3, 5, 6, 8, 9]),
        (every(1), list(range(11))),
        (lambda table: np.array([4, 4, 2]), [2, 4]),
        (lambda table: [], []),
    ],
)
def test_selections_by_hand(select, rows) -> None:
    found = selected(TABLE, select)
    assert found.tolist() == rows
    assert found.dtype == np.int64


def test_the_earliest_visit_is_chosen_and_numbers_are_checked() -> None:
    table = StepTable.from_arrays(
        group=["g"] * 5, trajectory=[*"aaabb"], t=[0, 1, 2, 0, 1], state=[*"suvsv"], action=["x"] * 5,
        next_state=["u", "v", "end", "v", "end"], reward=[0] * 5, won=[0] * 5,
    )  # fmt: skip
    assert selected(table, "distinct").tolist() == [0, 1, 4]  # v at t = 1 of b, not at t = 2 of a
    refuses(ValueError, r"every\(n\) needs an n of at least 1, got 0", every, 0)
    refuses(ValueError, r"highest_entropy\(count\) needs a count of at least 1, got 0", highest_entropy, 0)


def test_disagreement_counts_histories_not_states_and_goes_on_through_forks() -> None:
    # e was cut from c after its first step, and leaves v by x where c left it by y: now that history disagrees too.
    columns = {
        "group": [*COLUMNS["group"], "g"], "trajectory": [*COLUMNS["trajectory"], "e"], "t": [*COLUMNS["t"], 1],
        "state": [*COLUMNS["state"], "v"], "action": [*COLUMNS["action"], "x"],
        "next_state": [*COLUMNS["next_state"], "end"], "reward": [0] * 12, "won": [0] * 12,
    }  # fmt: skip
    table = StepTable.from_arrays(**columns, parent={"e": ("c", 0)})
    assert selected(table, "first-disagreement").tolist() == [0, 1, 7]


@given(st.permutations(range(11)))
def test_the_order_of_rows_only_chooses_among_equal_ones(order) -> None:
    table = StepTable.from_arrays(**{name: [column[i] for i in order] for name, column in COLUMNS.items()})
    for name in SELECTIONS:
        rows = [order[row] for row in selected(table, name)]
        assert {(COLUMNS["group"][row], COLUMNS["state"][row], row if name == "all" else 0) for row in rows} == {
            (COLUMNS["group"][row], COLUMNS["state"][row], row if name == "all" else 0) for row in selected(TABLE, name)
        }


def reply(*logprobs: float) -> Reply:
    return Reply("x", (1,), tuple(range(len(logprobs))), logprobs)


def test_entropy_is_the_mean_surprise_of_a_replys_tokens() -> None:
    # a: .1, (.2 + .6) / 2 = .4, .3; b: equal everywhere, the earlier come first; c: one step was not written.
    replies = [
        reply(-0.1), reply(-0.2, -0.6), reply(-0.3), *[reply(-1.0)] * 3, reply(-0.1), reply(-0.2),
        Reply("", finish="prompt-too-long"), reply(-3.0), reply(-2.0),
    ]  # fmt: skip
    table = StepTable.from_arrays(**COLUMNS, replies=replies)
    assert selected(table, highest_entropy(1)).tolist() == [1, 3, 7, 9]
    assert selected(table, highest_entropy(2)).tolist() == [1, 2, 3, 4, 6, 7, 9, 10]
    assert selected(table, highest_entropy(5)).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]


@pytest.mark.parametrize("replies", [None, [None] * 11, [Reply("x")] * 11])
def test_entropy_needs_log_probabilities(replies) -> None:
    with pytest.raises(ValueError, match="row 0 has a reply without log-probabilities"):
        selected(StepTable.from_arrays(**COLUMNS, replies=replies), highest_entropy(1))
