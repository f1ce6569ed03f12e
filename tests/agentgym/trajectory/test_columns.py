"""Tables: what they hold, their columns, forks and file."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import Reply, StepTable, forks
from agentgym.trajectory.columns import intern, numbers
from tests.agentgym.hard_inputs import NUMBERS
from tests.cases import cases
from tests.refusals import refuses

KEYS = st.one_of(
    st.sampled_from([0, 1, 2, True, False, 1.0, 0.0, -0.0, "1", "", "s", None, ("a", 1), b"s"]),
    st.text(max_size=3),
    st.integers(),
)


def one_by_one(*columns):
    """The same, said plainly."""
    index = {}
    for column in columns:
        for value in column:
            if value not in index:
                index[value] = len(index)
    return [[index[value] for value in column] for column in columns], tuple(index)


def same(found, expected):
    ids, names = found
    assert [column.tolist() for column in ids] == expected[0]
    assert all(column.dtype == np.int64 for column in ids)
    # repr tells 1 from True and 1.0: the value seen first is the one that is kept.
    assert list(map(repr, names)) == list(map(repr, expected[1]))


INTEGERS = st.integers(-4, 4) | st.integers() | st.integers(10**20, 10**20 + 3)


@given(st.lists(st.lists(KEYS, max_size=20) | st.lists(INTEGERS), min_size=1, max_size=3))
def test_any_values_are_numbered_as_a_dict_does(columns):
    same(intern("state", *columns), one_by_one(*columns))


class Alike:
    """What its owner gave one hash for all; counts how often two of them are compared."""

    compared = 0

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        Alike.compared += 1
        return self.number == other.number


def negatives(n, length=10):
    """Boards of -1 and -2, whose hashes Python gives as one."""
    return [tuple(-1 - (i >> place & 1) for place in range(length)) for i in range(n)]


@pytest.mark.parametrize("rows", [2_000, 16_000])
def test_values_of_one_hash_are_refused_in_linear_time(rows):
    Alike.compared = 0
    expected = "column 'state': more than 256 different values have the hash 7, one of them a Alike, .* repr"
    refuses(ValueError, expected, intern, "state", [Alike(i) for i in range(rows)])
    assert Alike.compared == 256 * 257 // 2  # and a dict would have compared rows * rows / 2
    Alike.compared = 0
    values = [Alike(i % 200) for i in range(rows)], ["u"] * 5, np.array([Alike(i) for i in range(rows)])
    refuses(ValueError, "column 'state': more than 256", intern, "state", *values)
    assert Alike.compared < 260 * 2 * rows
    refuses(ValueError, f"have the hash {hash((-1,) * 10)}, one of them a tuple", intern, "state", negatives(1_000))
    refuses(ValueError, "one of them a int", intern, "state", ["s", *(i * (2**61 - 1) for i in range(rows))])


def test_numbers_and_some_values_of_one_hash_are_told_apart_and_equal_strings_are_one():
    for number in NUMBERS.values():
        values = [number(i) for i in range(5_000)]
        ids, names = intern("state", values)
        assert (ids[0].tolist(), list(names)) == (list(range(5_000)), values)
    values = [Alike(i % 256) for i in range(1_000)]
    ids, names = intern("state", values, ["u"])
    assert ids[0].tolist() == [i % 256 for i in range(1_000)]
    assert [each.number for each in names[:-1]] == list(range(256))
    same(intern("state", negatives(256, 8) * 3), one_by_one(negatives(256, 8) * 3))
    # Floats that share a hash: 2.0**e and 2.0**(e + 61), 34 of them at most.
    floats = [2.0**e for e in range(-1000, 1000)]
    same(intern("state", floats, ["s"]), one_by_one(floats, ["s"]))
    assert max(list(map(hash, floats)).count(hash(2.0**e)) for e in range(61)) == 33
    text = "you are in a room. " * 32
    fresh = [text.encode().decode() for _ in range(3)]
    assert len(set(map(id, fresh))) == 3
    same(intern("state", fresh, [text]), ([[0, 0, 0], [0]], (text,)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("spread", [1, 10, 100])
def test_integer_arrays_are_numbered_as_their_values(dtype, spread):
    rng = np.random.default_rng(spread)
    low = -100 if np.dtype(dtype).kind == "i" else 3
    columns = [(low + rng.integers(0, spread, n)).astype(dtype) for n in (30, 0, 50)]
    found = intern("state", *columns)
    same(found, one_by_one(*(column.tolist() for column in columns)))
    assert all(type(name) is int for name in found[1])


@cases(
    "columns",
    [np.array([5, -(2**63), 2**63 - 1, 5])], [np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64)],
    [np.array([-(2**63), -(2**63) + 1, -(2**63)])], [np.array([True, False, True])], [np.array([0.5, np.inf, 0.5])],
    [np.array(["red", "blue", "red"])], [np.array(["2020-01-02", "2020-01-01", "2020-01-02"], "datetime64[D]")],
    [np.array([3, 1]), [1, "3", 3.0]], [np.array([3, 1], np.int8), np.array([1, 300])],
    [np.array([3, 1]), np.array([1.0, 0.5])],
)  # fmt: skip
def test_other_arrays_are_numbered_as_their_values(columns):
    said = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    same(intern("state", *columns), one_by_one(*said))


#: One row of zeros.
ZEROS = {key: [0] for key in ("group", "trajectory", "t", "state", "action", "next_state", "reward", "won")}


def test_what_is_not_hashable_is_named_and_tensors_are_numbered_by_value() -> None:
    refuses(TypeError, "column .state. must hold one hashable value per row, .*: .list.", intern, "state", ["s", ["s"]])
    foul = ZEROS | {"state": ["s"], "next_state": [{}]}
    refuses(TypeError, "column 'state' or 'next_state' must hold", StepTable.from_arrays, **foul)
    for column in ([0.5, float("nan")], np.array([np.nan]), [np.float32("nan"), "a"]):
        refuses(ValueError, "column 'state' must hold values that equal themselves, got nan", intern, "state", column)
    refuses(TypeError, "unhashable", intern, "state", np.zeros((2, 2), np.int64))
    same(intern("group", Tensor([3, 3, 4]), [4]), ([[0, 0, 1], [1]], (3, 4)))
    # In a list they are single objects: every row would silently be a group of its own.
    words = r"column 'group' must hold .* got Tensors; convert them .* \.item"
    refuses(TypeError, words, intern, "group", [0, Tensor(3), Tensor(3)])


class Tensor:
    """What matters of a tensor: rows are tensors, hashed by identity; numpy can read it."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.ndim = self.values.ndim

    def __len__(self):
        return len(self.values)

    def __getitem__(self, row):
        return Tensor(self.values[row])

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("column", ["state", "group", "action", "t", "reward", "won", "valid", "replies"])
@pytest.mark.parametrize("values", ["s", iter([0]), {0: 1}, {0}, 0, np.array(0)])
def test_what_is_no_sequence_of_rows_is_refused(column, values):
    words = f"column '{column}' must be a list or an array with one value per row, got "
    refuses(TypeError, words, StepTable.from_arrays, **ZEROS | {column: values})
    words = "column 'won' must be a list or an array .* got NoneType"
    refuses(TypeError, words, StepTable.from_arrays, **ZEROS | {"won": None})


@pytest.mark.parametrize("seed", range(5))
def test_rows_in_order_need_no_sorting_and_are_found_all_the_same(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 4)
    trajectory = np.repeat(np.arange(4), lengths)
    t = np.concatenate([np.sort(rng.choice(20, n, replace=False)) for n in lengths])
    columns = {"trajectory": trajectory, "t": t, "state": rng.integers(0, 3, len(t))}
    shuffle = rng.permutation(len(t))
    for rows in (np.arange(len(t)), shuffle):
        mine = {name: column[rows] for name, column in columns.items()}
        n = np.zeros(len(t), np.int64)
        table = StepTable.from_arrays(**mine, group=n, action=n, next_state=mine["state"], reward=n, won=n)
        np.testing.assert_array_equal(table.order, np.lexsort((table.t, table.trajectory)))


@cases(
    "values, dtype, expected",
    ([0, True, np.int64(3)], np.int64, [0, 1, 3]), ([0.5, True, 3, np.float32(0.25)], np.float64, [0.5, 1, 3, 0.25]),
    ([1, False, 1.0], np.bool_, [True, False, True]), ((0, 1), np.bool_, [False, True]), ([], np.bool_, []),
    ([np.True_, False], np.bool_, [True, False]),
)  # fmt: skip
def test_numbers_are_read_exactly_into_a_column_of_its_own(values, dtype, expected):
    column = numbers("x", values, dtype)
    assert (column.dtype, column.tolist()) == (dtype, expected)
    column[:] = 1  # no buffer that cannot be written


@cases(
    "values, dtype, message",
    ([0, 1.5], np.int64, "row 1: column 'x' must hold an integer, got 1.5"),
    ([0, 2**63], np.int64, "row 1: column 'x' must hold an integer, got 9"),
    ([True, 2], np.bool_, "row 1: column 'x' must hold True or False, got 2"),
    ([0, 256], np.bool_, "row 1: column 'x' must hold True or False, got 256"),
    ([0, -1], np.bool_, "row 1: column 'x' must hold True or False, got -1"),
    ([0, None], np.bool_, "one number per row, got shape .2,., object"),
    ([1, [2]], np.float64, "column 'x' must hold one number per row .*inhomogeneous"),
    ([0, "1"], np.float64, "one number per row, got shape .2,., <U21"),
)
def test_what_is_no_number_of_the_type_is_refused(values, dtype, message):
    refuses(ValueError, message, numbers, "x", values, dtype)


# Rows by number; "b" was cut from "a" after its first step, "c" from "b" after its first, "d" from "a" after its
# second.
#
#   a:  s -0-> u -1-> v -2-> goal        rewards 1, 2, 4
#   b:         u -3-> w -4-> pit         rewards 8, 16
#   c:                w -5-> goal        reward 32
#   d:                v -6-> v -7-> v    rewards 64, 128, and a limit
#   e:  s -8-> pit                       reward 256, a root of its own
COLUMNS = {
    "group": ["g"] * 9, "trajectory": [*"aaabbcdde"], "t": [0, 1, 2, 1, 2, 2, 2, 3, 0], "state": [*"suvuwwvvs"],
    "action": [*"xxxyyzyzy"], "next_state": ["u", "v", "goal", "w", "pit", "goal", "v", "v", "pit"],
    "reward": [1, 2, 4, 8, 16, 32, 64, 128, 256], "won": [1, 1, 1, 0, 0, 1, 0, 0, 0],
    "truncated": [0, 0, 0, 0, 0, 0, 0, 1, 0],
}  # fmt: skip
PARENT = {"b": ("a", 0), "c": ("b", 1), "d": ("a", 1)}
TREE = StepTable.from_arrays(**COLUMNS, parent=PARENT, replies=[Reply(str(i)) for i in range(9)])


def test_a_tree_worked_out_by_hand() -> None:
    assert TREE.parent.tolist() == [-1, 0, 3, 1, -1]
    assert TREE.has_forks
    assert repr(TREE).startswith("StepTable(9 rows, 5 trajectories (3 cut from others), 1 groups, 40.0% won;")
    whole, source = TREE.unfolded()
    assert whole.endings == TREE.endings
    assert whole.replies is not None
    assert [reply.text for reply in whole.replies] == [str(row) for row in source]
    assert not whole.has_forks
    StepTable.from_trajectories(whole.to_trajectories())  # keeps all rules
    table = StepTable.from_arrays(**COLUMNS | {"t": [0, 1, 2, 0, 1, 0, 0, 1, 0]})
    whole, source = table.unfolded()
    assert whole is table
    assert source.tolist() == list(range(9))
    assert (table.has_forks, table.parent.tolist()) == (False, [-1] * 5)
    second = {name: (f"{before}2", t) for name, (before, t) in PARENT.items()}
    other = StepTable.from_trajectories(
        dataclasses.replace(one, trajectory=f"{one.trajectory}2", parent=second.get(one.trajectory))
        for one in TREE.to_trajectories()
    )
    assert StepTable.concatenate([TREE, other]).parent.tolist() == [-1, 0, 3, 1, -1, -1, 9, 12, 10, -1]


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
    TREE.to_jsonl(path)
    path.write_text(path.read_text().replace('["a", 1]', '["b", 1]').replace("\n", "\n\n"))
    expected = r"x.jsonl, line 7: trajectory 'd': its parent \('b', 1\) leads to another state than its first"
    refuses(ValueError, expected, StepTable.from_jsonl, path)
    columns = {**COLUMNS, "group": ["g"] * 5 + ["h"] + ["g"] * 3}
    words = r"trajectory 'c': its parent \('b', 1\) is of another group"
    refuses(ValueError, words, StepTable.from_arrays, **columns, parent=PARENT)


def test_the_data_frame_says_after_which_row() -> None:
    pytest.importorskip("pandas")
    assert TREE.to_pandas()["parent"].tolist() == [-1, -1, -1, 0, 0, 3, 1, 1, -1]
    assert "parent" not in StepTable.from_arrays(**COLUMNS).to_pandas()


@cases(
    "parent, error, message",
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
    names = [table.trajectories[table.trajectory[row]] for row in source]
    steps = [*zip(names, whole.t.tolist(), whole.reward.tolist(), strict=True)]
    assert [[steps[row] for row in rows] for rows in np.split(whole.order, whole.offsets[1:-1])] == expected
    returns = [sum(reward for _, _, reward in episode) for episode in expected]
    np.testing.assert_allclose(table.episode_return, returns, atol=1e-12)
    chains = [table.chain(i).tolist() for i in range(table.n_trajectories)]
    assert chains == [source[rows].tolist() for rows in np.split(whole.order, whole.offsets[1:-1])]
    assert StepTable.from_trajectories(table.to_trajectories()).to_trajectories() == table.to_trajectories()


@given(forests(), st.data())
def test_some_episodes_are_kept_whole_and_each_of_their_rows_once(forest, data) -> None:
    table, _ = forest
    n = len(table.trajectories)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
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


def test_forks_of_any_shape_are_read_and_an_episode_that_was_not_played_on_is_kept_beside_its_child() -> None:
    for shape, returns in ((comb, [4, 2, 3, 4, 1]), (ladder, [1, 2, 3, 4])):
        assert StepTable.from_arrays(**shape(4)).episode_return.tolist() == returns
        assert StepTable.from_arrays(**shape(2_000)).episode_return.max() == 2_000  # as many steps, a point each
    # "late" was cut by its recording after one step; "early" goes on from there, and has the smaller number.
    table = StepTable.from_arrays(
        group=["g"] * 2, trajectory=["early", "late"], t=[1, 0], state=["u", "s"], action=["up", "right"],
        next_state=["goal", "u"], reward=[1, 0], won=[1, 0], terminated=[1, 0], parent={"early": ("late", 0)},
    )  # fmt: skip
    assert table.keep(np.array([True, True])).to_trajectories() == table.to_trajectories()
    alone = table.keep(np.array([True, False]))
    assert (alone.trajectories, alone.parent.tolist(), len(alone)) == (("early",), [-1], 2)


@given(forests(), st.data())
def test_what_goes_along_episodes_is_counted_as_row_by_row(forest, data) -> None:
    table, _ = forest
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    counts, latest = forks.counts_so_far(table, flags), forks.latest(table, flags)
    for i in range(table.n_trajectories):
        before = []
        for row in table.chain(i):
            before += [row] if flags[row] else []
            assert (counts[row], latest[row]) == (len(before), before[-1] if before else -1)


def test_a_chain_of_forks_is_read_in_as_many_operations_as_rows_and_unfolded_up_to_a_bound(monkeypatch) -> None:
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
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 14)
    assert len(TREE.unfolded()[0]) == 14
    monkeypatch.setattr(forks, "MOST_UNFOLDED", 13)
    refuses(ValueError, r"the 9 rows of the table are 14 when .* more than 13: nest fewer cuts, keep", TREE.unfolded)
    flat = StepTable.from_trajectories(one for one in TREE.to_trajectories() if one.parent is None)
    assert flat.unfolded()[0] is flat
