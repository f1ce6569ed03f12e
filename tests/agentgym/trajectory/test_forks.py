"""Forks of a table: what each trajectory was cut after, whole episodes, returns over them; files keep it."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Reply, StepTable, forks
from tests.refusals import refuses

# Rows by number; "b" was cut from "a" after its first step, "c" from "b" after its first, "d" from "a" after its
# second.
#
#   a:  s -0-> u -1-> v -2-> goal        rewards 1, 2, 4
#   b:         u -3-> w -4-> pit         rewards 8, 16
#   c:                w -5-> goal        reward 32
#   d:                v -6-> v -7-> v    rewards 64, 128, and a limit
#   e:  s -8-> pit                       reward 256, a root of its own
COLUMNS = {
    "group": ["g"] * 9,
    "trajectory": ["a", "a", "a", "b", "b", "c", "d", "d", "e"],
    "t": [0, 1, 2, 1, 2, 2, 2, 3, 0],
    "state": ["s", "u", "v", "u", "w", "w", "v", "v", "s"],
    "action": ["x", "x", "x", "y", "y", "z", "y", "z", "y"],
    "next_state": ["u", "v", "goal", "w", "pit", "goal", "v", "v", "pit"],
    "reward": [1, 2, 4, 8, 16, 32, 64, 128, 256],
    "won": [1, 1, 1, 0, 0, 1, 0, 0, 0],
    "truncated": [0, 0, 0, 0, 0, 0, 0, 1, 0],
}
PARENT = {"b": ("a", 0), "c": ("b", 1), "d": ("a", 1)}
TREE = StepTable.from_arrays(**COLUMNS, parent=PARENT, replies=[Reply(str(i)) for i in range(9)])


def test_a_tree_worked_out_by_hand() -> None:
    assert TREE.parent.tolist() == [-1, 0, 3, 1, -1]
    assert TREE.has_forks
    assert [TREE.chain(i).tolist() for i in range(5)] == [[0, 1, 2], [0, 3, 4], [0, 3, 5], [0, 1, 6, 7], [8]]
    assert TREE.trajectory_return.tolist() == [7, 24, 32, 192, 256]
    assert TREE.episode_return.tolist() == [7, 25, 41, 195, 256]
    assert repr(TREE).startswith("StepTable(9 rows, 5 trajectories (3 cut from others), 1 groups, 40.0% won;")
    whole, source = TREE.unfolded()
    assert source.tolist() == [0, 1, 2, 0, 3, 4, 0, 3, 5, 0, 1, 6, 7, 8]
    assert whole.trajectory.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4]
    assert whole.t.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 0]
    assert whole.trajectory_return.tolist() == TREE.episode_return.tolist()
    assert whole.endings == TREE.endings
    assert whole.won.tolist() == TREE.trajectory_won[whole.trajectory].tolist()
    assert whole.replies is not None
    assert [reply.text for reply in whole.replies] == [str(row) for row in source]
    assert not whole.has_forks
    StepTable.from_trajectories(whole.to_trajectories())  # keeps all rules
    table = StepTable.from_arrays(**COLUMNS | {"t": [0, 1, 2, 0, 1, 0, 0, 1, 0]})
    whole, source = table.unfolded()
    assert whole is table
    assert source.tolist() == list(range(9))
    assert (table.has_forks, table.parent.tolist()) == (False, [-1] * 5)
    assert table.episode_return.tolist() == table.trajectory_return.tolist()
    assert table.chain(3).tolist() == [6, 7]
    shuffle = [5, 0, 8, 3, 7, 2, 6, 1, 4]
    table = StepTable.from_arrays(
        **{name: [column[i] for i in shuffle] for name, column in COLUMNS.items()}, parent=PARENT
    )
    assert table.trajectories == ("c", "a", "e", "b", "d")
    assert [-1 if row < 0 else shuffle[row] for row in table.parent] == [3, -1, -1, 0, 1]
    assert [shuffle[row] for row in table.chain(0)] == [0, 3, 5]
    assert table.episode_return.tolist() == [41, 7, 256, 25, 195]
    other = StepTable.from_trajectories(
        dataclasses.replace(
            one, trajectory=f"{one.trajectory}2", parent=one.parent and (f"{one.parent[0]}2", one.parent[1])
        )
        for one in TREE.to_trajectories()
    )
    both = StepTable.concatenate([TREE, other])
    assert both.parent.tolist() == [-1, 0, 3, 1, -1, -1, 9, 12, 10, -1]


@pytest.mark.parametrize("of_table", [StepTable.to_trajectories, lambda table: [*table.to_trajectories()[::-1]]])
def test_rows_forms_and_files_keep_the_parents(of_table, tmp_path: Path) -> None:
    table = StepTable.from_trajectories(of_table(TREE))
    table.to_jsonl(tmp_path / "x.jsonl")
    for each in (table, StepTable.from_jsonl(tmp_path / "x.jsonl")):
        assert {one.trajectory: one.parent for one in each.to_trajectories()} == {"a": None, "e": None, **PARENT}
        assert dict(zip(each.trajectories, each.episode_return, strict=True)) == {
            "a": 7, "b": 25, "c": 41, "d": 195, "e": 256,
        }  # fmt: skip


def test_files_from_before_are_read_and_bad_parents_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    TREE.to_jsonl(path)
    roots = [json.loads(line) for line in path.read_text().splitlines()]
    roots = [line for line in roots if line["parent"] is None]
    for line in roots:
        del line["parent"]
    path.write_text("".join(json.dumps(line) + "\n" for line in roots))
    assert StepTable.from_jsonl(path).parent.tolist() == [-1, -1]
    path = tmp_path / "x.jsonl"
    TREE.to_jsonl(path)
    path.write_text(path.read_text().replace('["a", 1]', '["b", 1]').replace("\n", "\n\n"))
    expected = r"x.jsonl, line 7: trajectory 'd': its parent \('b', 1\) leads to another state than its first"
    refuses(ValueError, expected, StepTable.from_jsonl, path)
    columns = {**COLUMNS, "group": ["g"] * 5 + ["h"] + ["g"] * 3}
    with pytest.raises(ValueError, match=r"trajectory 'c': its parent \('b', 1\) is of another group"):
        StepTable.from_arrays(**columns, parent=PARENT)


def test_the_data_frame_says_after_which_row() -> None:
    pytest.importorskip("pandas")
    assert TREE.to_pandas()["parent"].tolist() == [-1, -1, -1, 0, 0, 3, 1, 1, -1]
    assert "parent" not in StepTable.from_arrays(**COLUMNS).to_pandas()


@pytest.mark.parametrize(
    ("parent", "error", "message"),
    [
        ([("a", 0)], TypeError, "parent must be a mapping from trajectories to .* got list"),
        ({"b": 0}, TypeError, r"parent of trajectory 'b' must be a pair \(trajectory, t\), got 0"),
        ({"b": ("a", "0")}, TypeError, "parent of trajectory 'b' must be a pair"),
        ({"z": ("a", 0)}, ValueError, "parent is given for trajectory 'z', which has no rows"),
        ({"b": ("z", 0)}, ValueError, r"trajectory 'b': its parent \('z', 0\) is not in the table"),
        ({"b": ("a", -1)}, ValueError, r"trajectory 'b': its parent \('a', -1\) is not in the table"),
        ({"b": ("a", 3)}, ValueError, r"trajectory 'b': its parent \('a', 3\) is not in the table"),
        ({"b": ("b", 1)}, ValueError, r"parent \('b', 1\) does not come before its first step \(t=1\)"),
        ({"b": ("c", 2), "c": ("b", 1)}, ValueError, "does not come before its first step"),
        ({"d": ("e", 0)}, ValueError, "trajectory 'd': its parent .* ended its episode"),
        ({"c": ("a", 1)}, ValueError, "trajectory 'c': its parent .* leads to another state than its first"),
    ],
)  # fmt: skip
def test_parents_that_cannot_be(parent: object, error: type[Exception], message: str) -> None:
    refuses(error, message, StepTable.from_arrays, **COLUMNS, parent=parent)


@st.composite
def forests(draw) -> tuple[StepTable, list[list[tuple[str, int, float]]]]:
    """A table with forks in random order of rows, and every episode as the steps it went through, said plainly."""
    episodes: list[list[tuple[str, int, float]]] = []
    rows, parent = [], {}
    for i in range(draw(st.integers(1, 7))):
        name, before = f"e{i}", []
        if i and draw(st.booleans()):
            before = draw(st.sampled_from(episodes))
            before = before[: draw(st.integers(0, len(before) - 1))]
        if before:
            parent[name] = before[-1][:2]
        own = [(name, len(before) + k, draw(st.integers(-3, 3)) / 4) for k in range(draw(st.integers(1, 4)))]
        episodes.append(before + own)
        rows += own
    rows = draw(st.permutations(rows))
    ends = {(episode[-1][0], episode[-1][1]) for episode in episodes}
    table = StepTable.from_arrays(
        group=[0] * len(rows), trajectory=[name for name, _, _ in rows], t=[t for _, t, _ in rows],
        state=[t for _, t, _ in rows], action=[0] * len(rows),
        next_state=[name if (name, t) in ends else t + 1 for name, t, _ in rows], reward=[r for _, _, r in rows],
        won=[int(name[1:]) % 2 for name, _, _ in rows], parent=parent,
    )  # fmt: skip
    return table, episodes


@given(forests())
def test_unfolding_any_forest_gives_back_its_episodes(forest) -> None:
    table, episodes = forest
    of_name = {name: episode for episode in episodes for name in [episode[-1][0]]}
    expected = [of_name[name] for name in table.trajectories]
    whole, source = table.unfolded()
    found = [
        [(table.trajectories[table.trajectory[source[r]]], int(whole.t[r]), float(whole.reward[r])) for r in rows]
        for rows in np.split(whole.order, whole.offsets[1:-1])
    ]
    assert found == expected
    np.testing.assert_allclose(
        table.episode_return, [sum(r for _, _, r in episode) for episode in expected], atol=1e-12
    )
    assert [[int(row) for row in table.chain(i)] for i in range(table.n_trajectories)] == [
        source[whole.order[whole.offsets[i] : whole.offsets[i + 1]]].tolist() for i in range(table.n_trajectories)
    ]
    assert StepTable.from_trajectories(table.to_trajectories()).to_trajectories() == table.to_trajectories()


@given(forests(), st.data())
def test_some_episodes_are_kept_whole_and_each_of_their_rows_once(forest, data) -> None:
    table, _ = forest
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(table.trajectories), max_size=len(table.trajectories)))
    )
    if not mask.any():
        refuses(ValueError, "at least one of them True", table.keep, mask)
        return
    found = table.keep(mask)
    names = [name for name, keep in zip(table.trajectories, mask, strict=True) if keep]
    assert sorted(found.trajectories) == sorted(names)

    def steps(of: StepTable) -> dict:
        whole, _ = of.unfolded()
        return {one.trajectory: (one.steps, one.won) for one in whole.to_trajectories() if one.trajectory in names}

    assert steps(found) == steps(table)
    rows = {row for i in np.flatnonzero(mask) for row in table.chain(i).tolist()}
    assert len(found) == len(rows)


def comb(n: int) -> dict:
    """One trajectory of n steps, and n that were cut from it, one after each step but the last."""
    return {
        "group": [0] * (2 * n), "trajectory": [-1] * n + list(range(n)), "t": [*range(n), *range(1, n), n],
        "state": [*range(n), *range(1, n), 0], "action": [0] * (2 * n), "next_state": [*range(1, n + 1), *[-1] * n],
        "reward": [1.0] * (2 * n), "won": [False] * (2 * n), "parent": {i: (-1, i) for i in range(n - 1)},
    }  # fmt: skip


def ladder(n: int) -> dict:
    """Trajectories of one step, each cut from the one before."""
    return {
        "group": [0] * n, "trajectory": list(range(n)), "t": list(range(n)), "state": list(range(n)), "action": [0] * n,
        "next_state": list(range(1, n + 1)), "reward": [1.0] * n, "won": [False] * n,
        "terminated": [False] * (n - 1) + [True], "parent": {i: (i - 1, i - 1) for i in range(1, n)},
    }  # fmt: skip


@pytest.mark.parametrize("shape", [comb, ladder])
def test_forks_of_any_shape_are_read(shape) -> None:
    returns = StepTable.from_arrays(**shape(4)).episode_return.tolist()
    assert returns == {"comb": [4, 2, 3, 4, 1], "ladder": [1, 2, 3, 4]}[shape.__name__]
    assert StepTable.from_arrays(**shape(2_000)).episode_return.max() == 2_000  # as many steps, a point each


def test_an_episode_that_was_not_played_on_is_kept_beside_a_child_that_is_numbered_before_it() -> None:
    # "late" was cut by its recording after one step; "early" goes on from there, and has the smaller number.
    table = StepTable.from_arrays(
        group=["g"] * 2, trajectory=["early", "late"], t=[1, 0], state=["u", "s"], action=["up", "right"],
        next_state=["goal", "u"], reward=[1, 0], won=[1, 0], terminated=[1, 0], parent={"early": ("late", 0)},
    )  # fmt: skip
    both = table.keep(np.array([True, True]))
    assert both.to_trajectories() == table.to_trajectories()
    alone = table.keep(np.array([True, False]))
    assert (alone.trajectories, alone.parent.tolist(), len(alone)) == (("early",), [-1], 2)


def unfolded_one_by_one(table: StepTable) -> tuple[list[int], list[int]]:
    """Trajectory and source of the unfolded rows, an episode after the other, each walked up from its end."""
    trajectory, source = [], []
    for i in range(table.n_trajectories):
        rows, row = [], int(table.last[i])
        while row >= 0:
            rows.append(row)
            row = int(table.previous[row])
        source += rows[::-1]
        trajectory += [i] * len(rows)
    return trajectory, source


@given(forests(), st.data())
def test_unfolding_and_what_goes_along_episodes_are_their_naive_twins(forest, data) -> None:
    table, _ = forest
    trajectory, source = unfolded_one_by_one(table)
    whole, found = table.unfolded()
    if table.has_forks:
        assert (whole.trajectory.tolist(), found.tolist()) == (trajectory, source)
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    counts, latest = forks.counts_so_far(table, flags), forks.latest(table, flags)
    for i in range(table.n_trajectories):
        before = []
        for row in (s for t, s in zip(trajectory, source, strict=True) if t == i):
            before += [row] if flags[row] else []
            assert (counts[row], latest[row]) == (len(before), before[-1] if before else -1)


def test_a_chain_of_forks_is_read_in_as_many_operations_as_it_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    # Unfolded it would have n (n + 1) / 2 rows, 128 million of them.
    n = 16_000
    table = StepTable.from_arrays(**ladder(n))
    assert table.episode_length.tolist() == list(range(1, n + 1))
    assert forks.counts_so_far(table, table.state % 2 == 1).tolist() == [(row + 1) // 2 for row in range(n)]
    assert forks.latest(table, table.state == 7)[[6, 7, n - 1]].tolist() == [-1, 7, 7]
    expected = "the 16,000 rows of the table are 128,008,000 when every episode has all its rows, more than 8,388,608"
    refuses(ValueError, expected, table.unfolded)
    # Of each row one step is made, and one is kept.
    made = []
    step = forks.Step
    monkeypatch.setattr("agentgym.trajectory.episode.Step", lambda *fields: made.append(fields) or step(*fields))
    found = table.keep(np.arange(n) >= n - 3)
    assert len(made) == n
    assert (len(found), found.parent.tolist()) == (n, [-1, n - 3, n - 2])
    assert found.episode_length.tolist() == [n - 2, n - 1, n]


def test_what_is_unfolded_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 14)
    assert len(TREE.unfolded()[0]) == 14
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 13)
    refuses(ValueError, r"the 9 rows of the table are 14 when .* more than 13: cut less deep, keep", TREE.unfolded)
    flat = StepTable.from_trajectories(one for one in TREE.to_trajectories() if one.parent is None)
    assert flat.unfolded()[0] is flat
