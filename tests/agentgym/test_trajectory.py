"""StepTable: columns, checks, shuffling, JSON lines."""

from pathlib import Path

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable

# Two groups; trajectory "b" has two steps and was truncated, "a" and "c" one step each.
COLUMNS = {
    "group": ["g", "g", "g", "h"],
    "trajectory": ["a", "b", "b", "c"],
    "t": [0, 0, 1, 0],
    "state": ["s", "s", "u", "s"],
    "action": ["right", "left", "left", "right"],
    "next_state": ["goal", "u", "s", "pit"],
    "reward": [1.0, -0.1, -0.1, 0.0],
    "valid": [True, True, False, True],
    "terminated": [True, False, False, True],
    "truncated": [False, False, True, False],
    "won": [True, False, False, False],
}


def test_columns_offsets_and_last_rows() -> None:
    table = StepTable.from_arrays(**COLUMNS)
    assert table.states == ("s", "u", "goal", "pit")
    assert table.next_state.tolist() == [2, 1, 0, 3]
    assert table.offsets.tolist() == [0, 1, 3, 4]
    assert table.last.tolist() == [0, 2, 3]
    assert table.trajectory_group.tolist() == [0, 0, 1]
    assert table.trajectory_won.tolist() == [True, False, False]
    assert table.trajectory_return.tolist() == [1.0, -0.2, 0.0]


def test_any_row_order_is_kept_and_understood() -> None:
    shuffle = [2, 3, 1, 0]
    table = StepTable.from_arrays(**{name: [column[i] for i in shuffle] for name, column in COLUMNS.items()})
    assert [table.states[i] for i in table.state] == ["u", "s", "s", "s"]
    ordered = [shuffle[i] for i in table.order]
    # Trajectories are numbered by first appearance: b, c, a; within b, t = 0 comes before t = 1.
    assert ordered == [1, 2, 3, 0]
    assert table.truncated[table.last].tolist() == [True, False, False]


def test_integer_columns_and_defaults() -> None:
    table = StepTable.from_arrays(
        group=np.zeros(3, int), trajectory=np.array([7, 7, 9]), t=np.array([0, 1, 0]), state=np.array([5, 6, 5]),
        action=np.array([1, 1, 0]), next_state=np.array([6, 8, 5]), reward=np.zeros(3), won=np.array([1, 1, 0]),
        truncated=np.array([0, 0, 1]),
    )  # fmt: skip
    assert table.states == (5, 6, 8)
    assert table.trajectories == (7, 9)
    assert table.valid.all()
    assert table.terminated.tolist() == [False, True, False]


def test_jsonl_round_trip_keeps_everything(tmp_path: Path) -> None:
    replies = [
        Reply("<action>right</action>", (1, 2), (3,), (-0.25,)),
        None,
        Reply("left"),
        Reply("√", (), (4, 5), (-1.0, -2.0)),
    ]
    table = StepTable.from_arrays(**COLUMNS, replies=replies)
    table.to_jsonl(tmp_path / "rollout.jsonl")
    again = StepTable.from_jsonl(tmp_path / "rollout.jsonl")
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert (again.states, again.actions, again.groups) == (table.states, table.actions, table.groups)
    assert again.replies is not None
    assert again.replies.tolist() == replies


def test_concatenate_joins_groups_by_label() -> None:
    table = StepTable.from_arrays(**COLUMNS)
    other = StepTable.from_arrays(**{**COLUMNS, "trajectory": ["d", "e", "e", "f"]})
    both = StepTable.concatenate([table, other])
    assert (len(both), both.n_groups, both.n_trajectories) == (8, 2, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": [1.0, 0.0, np.nan, 0.0]}, r"row 2 \(trajectory 'b', t=1\): reward is not finite"),
        ({"group": ["g", "g", "h", "h"]}, "occurs in another group"),
        ({"won": [True, False, True, False]}, "won differs within the trajectory"),
        ({"terminated": [True, True, False, True]}, "terminated before the trajectory's last row"),
        ({"truncated": [False, True, False, False]}, "truncated before the trajectory's last row"),
        ({"t": [0, 1, 1, 0]}, "t occurs twice"),
        ({"action": ["right"]}, "column 'action' has 1 rows, 'state' has 4"),
        ({"t": [0, 0, 1.5, 0]}, "row 2: column 't' must hold an integer, got 1.5"),
        ({"t": [0, 0, np.nan, 0]}, "row 2: column 't' must hold an integer, got nan"),
        ({"won": [10.9, 0, 0, 0]}, "row 0: column 'won' must hold True or False, got 10.9"),
        ({"won": [1, 0, np.nan, 0]}, "row 2: column 'won' must hold True or False, got nan"),
        ({"won": ["True", "False", "False", "False"]}, "column 'won' must hold one number per row"),
        ({"valid": np.array([True, None, True, True])}, "column 'valid' must hold one number per row"),
        ({"won": np.zeros((4, 1))}, r"column 'won' must hold one number per row, got shape \(4, 1\)"),
        ({"reward": np.zeros((4, 1))}, r"column 'reward' must hold one number per row, got shape \(4, 1\)"),
    ],
)
def test_broken_tables_name_the_row(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StepTable.from_arrays(**{**COLUMNS, **change})


def test_a_column_that_is_not_hashable_is_named() -> None:
    with pytest.raises(TypeError, match="column 'action' must hold one hashable value per row"):
        StepTable.from_arrays(**{**COLUMNS, "action": [["right"]] * 4})


def test_object_columns_are_read_as_their_values() -> None:
    table = StepTable.from_arrays(**{name: np.array(column, object) for name, column in COLUMNS.items()})
    assert table.to_trajectories() == StepTable.from_arrays(**COLUMNS).to_trajectories()


def test_a_table_does_not_follow_later_writes_to_its_columns() -> None:
    columns = {name: np.array(column) for name, column in COLUMNS.items()}
    table = StepTable.from_arrays(**columns)
    for name in ("t", "reward", "valid", "terminated", "truncated", "won"):
        columns[name][:] = 1
        np.testing.assert_array_equal(getattr(table, name), COLUMNS[name])


def test_a_table_without_replies_stays_without(tmp_path: Path) -> None:
    table = StepTable.from_arrays(**COLUMNS)
    table.to_jsonl(tmp_path / "x.jsonl")
    assert StepTable.from_jsonl(tmp_path / "x.jsonl").replies is None
    assert StepTable.from_trajectories(table.to_trajectories()).replies is None


def test_concatenate_names_a_trajectory_that_is_in_two_tables() -> None:
    table = StepTable.from_arrays(**COLUMNS)
    with pytest.raises(ValueError, match="trajectory 'a' is in several tables"):
        StepTable.concatenate([table, table])


def test_any_text_survives_a_file_and_other_ids_are_refused_at_once(tmp_path: Path) -> None:
    texts = ["half a pair \ud800", "line\u2028end", "\r\n\x00", "√"]
    table = StepTable.from_arrays(**{**COLUMNS, "action": texts}, replies=[Reply(text) for text in texts])
    table.to_jsonl(tmp_path / "x.jsonl")
    assert StepTable.from_jsonl(tmp_path / "x.jsonl").to_trajectories() == table.to_trajectories()
    with pytest.raises(TypeError, match=r"cannot write \(1, 2\) to JSON"):
        StepTable.from_arrays(**{**COLUMNS, "state": [(1, 2)] * 4}).to_jsonl(tmp_path / "y.jsonl")
    assert not (tmp_path / "y.jsonl").exists()


def test_a_broken_file_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    StepTable.from_arrays(**COLUMNS).to_jsonl(path)
    whole = path.read_text(encoding="utf-8")
    for line in ('{"steps": []}', '"a string"', "3", ""):
        path.write_text(f"{whole}{line}\n", encoding="utf-8")
        with pytest.raises(ValueError, match="line 4: not a trajectory"):
            StepTable.from_jsonl(path)
