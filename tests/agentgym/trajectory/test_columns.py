"""Columns of a table: the fast numbering against a dict filled row by row, numbers read exactly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from agentgym.trajectory.columns import intern, numbers
from tests.agentgym.hard_inputs import NUMBERS
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


@given(st.lists(st.lists(KEYS, max_size=20), min_size=1, max_size=3))
def test_any_values_are_numbered_as_a_dict_does(columns):
    same(intern("state", *columns), one_by_one(*columns))


@given(st.lists(st.lists(st.integers(-4, 4) | st.integers() | st.integers(10**20, 10**20 + 3)), min_size=1, max_size=3))
def test_lists_of_integers_of_any_size_are_numbered_as_a_dict_does(columns):
    same(intern("state", *columns), one_by_one(*columns))


@pytest.mark.parametrize("column", [[0.5, float("nan")], np.array([np.nan]), [np.float32("nan"), "a"]])
def test_nan_is_no_id(column):
    refuses(ValueError, "column 'state' must hold values that equal themselves, got nan", intern, "state", column)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_hash_alike_are_told_apart(name):
    values = [NUMBERS[name](i) for i in range(5_000)]
    ids, names = intern("state", values)
    assert ids[0].tolist() == list(range(5_000))
    assert list(names) == values


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
    with pytest.raises(ValueError, match="column 'state': more than 256"):
        intern("state", [Alike(i % 200) for i in range(rows)], ["u"] * 5, np.array([Alike(i) for i in range(rows)]))
    assert Alike.compared < 260 * 2 * rows
    refuses(ValueError, f"have the hash {hash((-1,) * 10)}, one of them a tuple", intern, "state", negatives(1_000))
    refuses(ValueError, "one of them a int", intern, "state", ["s", *(i * (2**61 - 1) for i in range(rows))])


def test_some_values_of_one_hash_are_told_apart():
    values = [Alike(i % 256) for i in range(1_000)]
    ids, names = intern("state", values, ["u"])
    assert ids[0].tolist() == [i % 256 for i in range(1_000)]
    assert [each.number for each in names[:-1]] == list(range(256))
    same(intern("state", negatives(256, 8) * 3), one_by_one(negatives(256, 8) * 3))
    # Floats that share a hash: 2.0**e and 2.0**(e + 61), 34 of them at most.
    floats = [2.0**e for e in range(-1000, 1000)]
    same(intern("state", floats, ["s"]), one_by_one(floats, ["s"]))
    assert max(list(map(hash, floats)).count(hash(2.0**e)) for e in range(61)) == 33


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("spread", [1, 10, 100])
def test_integer_arrays_are_numbered_as_their_values(dtype, spread):
    rng = np.random.default_rng(spread)
    low = -100 if np.dtype(dtype).kind == "i" else 3
    columns = [(low + rng.integers(0, spread, n)).astype(dtype) for n in (30, 0, 50)]
    found = intern("state", *columns)
    same(found, one_by_one(*(column.tolist() for column in columns)))
    assert all(type(name) is int for name in found[1])


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, -(2**63), 2**63 - 1, 5]),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64),
        np.array([-(2**63), -(2**63) + 1, -(2**63)]),
        np.array([True, False, True]),
        np.array([0.5, np.inf, 0.5]),
        np.array(["red", "blue", "red"]),
        np.array(["2020-01-02", "2020-01-01", "2020-01-02"], "datetime64[D]"),
    ],
)
def test_other_arrays_are_numbered_as_their_values(values):
    same(intern("state", values), one_by_one(values.tolist()))


def test_arrays_lists_and_equal_strings_share_their_numbers() -> None:
    same(intern("state", np.array([3, 1]), [1, "3", 3.0]), one_by_one([3, 1], [1, "3", 3.0]))
    same(intern("state", np.array([3, 1], np.int8), np.array([1, 300])), one_by_one([3, 1], [1, 300]))
    same(intern("state", np.array([3, 1]), np.array([1.0, 0.5])), one_by_one([3, 1], [1.0, 0.5]))
    text = "you are in a room. " * 32
    fresh = [text.encode().decode() for _ in range(3)]
    assert len(set(map(id, fresh))) == 3
    same(intern("state", fresh, [text]), ([[0, 0, 0], [0]], (text,)))


def test_what_is_not_hashable_is_named_and_tensors_are_numbered_by_value() -> None:
    with pytest.raises(TypeError, match=r"column .state. must hold one hashable value per row, .*: .list."):
        intern("state", ["s", ["s"]])
    with pytest.raises(TypeError, match="column 'state' or 'next_state' must hold"):
        StepTable.from_arrays(
            group=[0], trajectory=[0], t=[0], state=["s"], action=[0], next_state=[{}], reward=[0], won=[0]
        )
    refuses(TypeError, "unhashable", intern, "state", np.zeros((2, 2), np.int64))
    same(intern("group", Tensor([3, 3, 4]), [4]), ([[0, 0, 1], [1]], (3, 4)))
    # In a list they are single objects: every row would silently be a group of its own.
    with pytest.raises(TypeError, match=r"column 'group' must hold .* got Tensors; convert them .* \.item"):
        intern("group", [0, Tensor(3), Tensor(3)])


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
    columns = {key: [0] for key in ("group", "trajectory", "t", "state", "action", "next_state", "reward", "won")}
    with pytest.raises(TypeError, match=f"column '{column}' must be a list or an array with one value per row, got "):
        StepTable.from_arrays(**{**columns, column: values})
    with pytest.raises(TypeError, match=r"column 'won' must be a list or an array .* got NoneType"):
        StepTable.from_arrays(**{**columns, "won": None})


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


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([0, True, np.int64(3)], np.int64, [0, 1, 3]),
        ([0.5, True, 3, np.float32(0.25)], np.float64, [0.5, 1, 3, 0.25]),
        ([1, False, 1.0], np.bool_, [True, False, True]),
        ((0, 1), np.bool_, [False, True]),
        ([np.True_, False], np.bool_, [True, False]),
        ([], np.bool_, []),
    ],
)
def test_numbers_are_read_exactly_into_a_column_of_its_own(values, dtype, expected):
    column = numbers("x", values, dtype)
    assert column.dtype == dtype
    assert column.tolist() == expected
    column[:] = 1  # no buffer that cannot be written


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        ([0, 1.5], np.int64, "row 1: column 'x' must hold an integer, got 1.5"),
        ([0, 2**63], np.int64, "row 1: column 'x' must hold an integer, got 9"),
        ([True, 2], np.bool_, "row 1: column 'x' must hold True or False, got 2"),
        ([0, 256], np.bool_, "row 1: column 'x' must hold True or False, got 256"),
        ([0, -1], np.bool_, "row 1: column 'x' must hold True or False, got -1"),
        ([0, None], np.bool_, "one number per row, got shape .2,., object"),
        ([1, [2]], np.float64, "column 'x' must hold one number per row .*inhomogeneous"),
        ([0, "1"], np.float64, "one number per row, got shape .2,., <U21"),
    ],
)
def test_what_is_no_number_of_the_type_is_refused(values, dtype, message):
    refuses(ValueError, message, numbers, "x", values, dtype)
