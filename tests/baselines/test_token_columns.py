"""TokenColumns: which token of which reply stands where."""

import dataclasses

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.token_columns import TokenColumns, reply_lengths


def table_of(lengths: list[int], trajectory: list[int], t: list[int]) -> StepTable:
    n = len(lengths)
    return StepTable.from_arrays(
        group=[0] * n, trajectory=trajectory, t=t, state=[0] * n, action=[0] * n, next_state=[0] * n,
        reward=[0.0] * n, won=[False] * n, replies=[Reply("", (1,), (2,) * k, (-1.0,) * k) for k in lengths],
    )  # fmt: skip


def test_tokens_of_a_trajectory_stand_in_order_of_time() -> None:
    # Rows out of order: trajectory 0 is row 2 (3 tokens), then row 0 (1 token); trajectory 1 is row 1 (2 tokens).
    columns = TokenColumns.from_table(table_of([1, 2, 3], [0, 1, 0], [5, 0, 2]))
    per_reply = np.array([[1.0, 9.0, 9.0], [21.0, 22.0, 9.0], [31.0, 32.0, 33.0]])
    found = columns.by_trajectory(per_reply)
    assert found.tolist() == [[31.0, 32.0, 33.0, 1.0], [21.0, 22.0, 0.0, 0.0]]
    assert columns.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert columns.turn_ends.tolist() == [[False, False, True, True], [False, True, False, False]]
    assert columns.by_reply(found).tolist() == [[1.0, 0.0, 0.0], [21.0, 22.0, 0.0], [31.0, 32.0, 33.0]]
    assert columns.at_turn_ends(np.array([0.1, 0.2, 0.3])).tolist() == [[0.0, 0.0, 0.3, 0.1], [0.0, 0.2, 0.0, 0.0]]


def test_there_and_back_again() -> None:
    rng = np.random.default_rng(0)
    trajectory = np.repeat(np.arange(6), rng.integers(1, 9, 6))
    order = rng.permutation(len(trajectory))
    t = np.concatenate([np.arange(k) for k in np.bincount(trajectory)])
    lengths = rng.integers(1, 7, len(trajectory))
    table = table_of(lengths.tolist(), trajectory[order].tolist(), t[order].tolist())
    columns = TokenColumns.from_table(table)
    per_reply = np.where(columns.reply_mask, rng.normal(size=columns.reply_mask.shape), 0.0)
    assert np.array_equal(columns.by_reply(columns.by_trajectory(per_reply)), per_reply)
    assert columns.turn_ends.sum(1).tolist() == np.bincount(table.trajectory).tolist()
    assert columns.mask.sum() == lengths.sum()


def test_replies_without_tokens_are_refused() -> None:
    table = table_of([1, 0], [0, 0], [0, 1])
    with pytest.raises(ValueError, match="row 1 has no reply tokens"):
        reply_lengths(table)
    with pytest.raises(ValueError, match="holds no replies"):
        TokenColumns.from_table(dataclasses.replace(table, replies=None))
