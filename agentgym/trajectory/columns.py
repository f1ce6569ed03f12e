"""Builds and checks table columns: hashable values as integers; numbers and flags exactly as given."""

import itertools
import warnings
from array import array
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.packages import install, needed
from agentgym.trajectory.file import MOST_REWARD

Ints = NDArray[np.int64]
#: Maximum number of different values of a column with the same hash; of floats, at most 34 can have one.
MOST_ALIKE: Final = 256
_SALTED = {str, bytes, bool, type(None)}
#: Types of pandas' missing values, which need not be installed.
_MISSING = ("NAType", "NaTType")
_NUMBERS = ("t", "valid", "reward", "terminated", "truncated", "won")


def length(name: str, column: Any) -> int:
    """Return the number of rows of a column; TypeError unless it is a list, array or other sequence (no string)."""
    sized = hasattr(column, "__len__") and hasattr(column, "__getitem__") and getattr(column, "ndim", 1) > 0
    if not sized or isinstance(column, (str, bytes, Mapping)):
        raise TypeError(
            f"column {name!r} must be a list or an array with one value per row, got {type(column).__name__}"
        )
    return len(column)


def intern(name: str, *columns: Any) -> tuple[list[Ints], tuple[Hashable, ...]]:
    """Number the values of columns that share their numbers; values that a dict takes for equal are equal.

    Returns one int64 array per column, and the distinct values (as Python values) in order of first appearance, column
    by column. Integers are numbered by numpy, because chosen hash collisions make a dict quadratic; of other values at
    most `MOST_ALIKE` may share a hash. Raises a TypeError for values that are not hashable, arrays or tensors, a
    ValueError for nan or too many collisions.
    """
    # Iteration over a tensor gives tensors, which a dict never finds equal.
    columns = tuple(
        np.asarray(column) if hasattr(column, "__array__") and not isinstance(column, np.ndarray) else column
        for column in columns
    )
    bounds = np.cumsum([0, *map(len, columns)]).tolist()
    first, names = _first_rows_of_integers(columns, bounds[-1]) or _first_rows(name, columns, bounds)
    kinds = set(map(type, names))
    if any(issubclass(kind, (float, np.floating)) for kind in kinds) and any(value != value for value in names):
        raise ValueError(f"column '{name}' must hold values that equal themselves, got nan")
    for kind in kinds:
        if hasattr(kind, "__array__") and not issubclass(kind, np.generic):
            raise TypeError(
                f"column '{name}' must hold one hashable value per row, such as a string, got {kind.__name__}s; "
                "convert them first, for instance by .item()"
            )
    ids = (np.cumsum(first == np.arange(len(first))) - 1)[first]
    return [ids[begin:end] for begin, end in itertools.pairwise(bounds)], names


def numbers(name: str, values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Return a new column of numbers or flags of dtype `np.int64`, `np.float64` or `np.bool_`, exactly as given.

    Raises a ValueError, with the first bad row, for text, a missing flag or a number that the dtype would round.
    """
    given = _python_numbers(values, dtype)
    if given is not None:
        return given
    try:
        given = np.asarray(values)
        if given.dtype == np.object_:
            given = np.asarray(given.tolist())
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"column {name!r} must hold one number per row ({error})") from error
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise ValueError(f"column {name!r} must hold one number per row, got shape {given.shape}, {given.dtype}")
    with np.errstate(invalid="ignore"):
        column = given.astype(dtype)
    if dtype is not np.float64 and (column != given).any():
        row, kind = int(np.argmax(column != given)), "True or False" if dtype is np.bool_ else "an integer"
        raise ValueError(f"row {row}: column {name!r} must hold {kind}, got {given[row]}")
    return column


def named_rewards(given: Any, n: int) -> dict[str, NDArray[np.float64]]:
    """Return columns of rewards by name; ValueError for another length or a number that is not finite or too large."""
    found = {}
    for name, column in given.items():
        values = numbers(f"reward_components[{name!r}]", column, np.float64)
        if len(values) != n or not (np.abs(values) <= MOST_REWARD).all():
            raise ValueError(
                f"reward_components[{name!r}] must hold {n} finite numbers of at most {MOST_REWARD:g}, one per row, "
                f"got {len(values)} values"
            )
        found[str(name)] = values
    return found


def check_rows(table: Any) -> None:
    """Raise a ValueError at the first row that breaks a rule of `StepTable`."""
    trajectory, ordered = table.trajectory, table.order
    is_last = np.zeros(len(table), np.bool_)
    is_last[table.last] = True
    in_order, t = trajectory[ordered], table.t[ordered]
    again = np.zeros(len(table), np.bool_)
    again[ordered[1:]] = (in_order[1:] == in_order[:-1]) & (t[1:] == t[:-1])
    rules = (
        (~np.isfinite(table.reward), "reward is not finite"),
        (np.abs(table.reward) > MOST_REWARD, f"reward is beyond {MOST_REWARD:g}"),
        (table.group != table.trajectory_group[trajectory], "its trajectory id occurs in another group as well"),
        (table.won != table.trajectory_won[trajectory], "won differs within the trajectory"),
        (table.terminated & ~is_last, "terminated before the trajectory's last row"),
        (table.truncated & ~is_last, "truncated before the trajectory's last row"),
        (again, "t occurs twice in the trajectory"),
    )
    for broken, reason in rules:
        if broken.any():
            row = int(np.argmax(broken))
            raise ValueError(
                f"row {row} (trajectory {table.trajectories[trajectory[row]]!r}, t={table.t[row]}): {reason}"
            )


def check_states(table: Any) -> None:
    """Raise a ValueError at the first row without a state; warn once of an ambiguous end.

    The end is ambiguous if a won and a lost episode of a group terminate in the same state. The warning's text depends
    on the state key alone, so Python shows it once per key and caller.
    """
    missing = [i for i, name in enumerate(table.states) if name is None or type(name).__name__ in _MISSING]
    for name in ("state", "next_state") if missing else ():
        lacks = np.isin(getattr(table, name), missing)
        if lacks.any():
            row = int(np.argmax(lacks))
            raise ValueError(
                f"row {row} (trajectory {table.trajectories[table.trajectory[row]]!r:.80}, t={table.t[row]}): "
                f"{name} must be the key of a state, got {table.states[getattr(table, name)[row]]!r}; the last step "
                "of an episode leads to a state too: name successes and failures differently, such as 'success' and "
                "'failure'"
            )
    last = table.last
    ends = table.group[last] * len(table.states) + table.next_state[last]
    won = table.won[last]
    shared = np.intersect1d(ends[won], ends[~won & table.terminated[last]])
    if len(shared):
        key = table.states[int((shared % len(table.states)).min())]
        warnings.warn(
            f"won and lost episodes of one group end in the same state {key!r:.80}: credit that compares states takes "
            "it for success and calls losing steps good; give each kind of ending its own next_state, such as "
            "'success' and 'failure', and set truncated where a limit ended an episode",
            RuntimeWarning,
            stacklevel=4,
        )


def data_frame(table: Any) -> Any:
    """Return the columns of a `StepTable` as a `pandas.DataFrame`, with names for ids and texts for replies."""
    pd = needed("pandas", f"to_pandas needs pandas: {install('pandas')}")
    names = {"group": table.groups, "trajectory": table.trajectories, "action": table.actions}
    names |= {"state": table.states, "next_state": table.states}
    columns: dict[str, Any] = {}
    for name, column in vars(table).items():
        if name in names:
            columns[name] = [names[name][i] for i in column.tolist()]
        elif name == "replies" and column is not None:
            columns["reply"] = [None if reply is None else reply.text for reply in column]
        elif name in _NUMBERS:
            columns[name] = column.copy()
        elif name == "reward_components":
            columns |= {f"reward_{part}": values.copy() for part, values in (column or {}).items()}
        elif name == "parent" and table.has_forks:
            columns[name] = column[table.trajectory]
    return pd.DataFrame(columns)


def _first_rows(name: str, columns: Sequence[Any], bounds: list[int]) -> tuple[Ints, tuple[Hashable, ...]]:
    """Return the first row of each value, counted through all columns, and the distinct values."""
    first = np.empty(bounds[-1], np.int64)
    index: dict[Hashable, int] = {}
    # Python values hash about five times faster than numpy scalars.
    columns = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    try:
        _check_hashes(name, columns)
    except TypeError as error:
        raise _not_hashable(name, error) from error
    for values, (begin, end) in zip(columns, itertools.pairwise(bounds), strict=True):
        try:
            rows = map(index.setdefault, values, range(begin, end))
            first[begin:end] = np.fromiter(rows, np.int64, end - begin)
        except TypeError as error:
            raise _not_hashable(name, error) from error
    return first, tuple(index)


def _not_hashable(name: str, error: TypeError) -> TypeError:
    return TypeError(f"column '{name}' must hold one hashable value per row, such as a string ({error})")


def _check_hashes(name: str, columns: Sequence[Sequence[Any]]) -> None:
    """Raise a ValueError if a dict would take quadratic time; Python salts the hashes of strings and bytes."""
    if all(set(map(type, column)) <= _SALTED for column in columns):
        return
    others = [value for column in columns for value in column if type(value) not in _SALTED]
    if len(others) <= MOST_ALIKE:
        return
    hashes = np.fromiter(map(hash, others), np.int64, len(others))
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.diff(hashes[order], prepend=~hashes[order[0]]))
    for start, stop in itertools.pairwise([*starts.tolist(), len(order)]):
        if stop - start <= MOST_ALIKE:
            continue
        different: list[Any] = []
        for row in order[start:stop].tolist():
            if others[row] not in different:
                different.append(others[row])
            if len(different) > MOST_ALIKE:
                raise ValueError(
                    f"column '{name}': more than {MOST_ALIKE} different values have the hash {hashes[row]}, one of "
                    f"them a {type(others[row]).__name__}, and looking them up would take quadratic time: give them a "
                    "__hash__ that distinguishes them, or use texts, such as repr(value)"
                )


def _first_rows_of_integers(columns: Sequence[Any], n: int) -> tuple[Ints, tuple[Hashable, ...]] | None:
    """Return the same for columns of integers alone; else None."""
    if n == 0 or not all(map(_are_integers, columns)):
        return None
    try:
        values = np.concatenate([_int64(column) for column in columns])
    except OverflowError:  # as texts they get salted hashes; hashes of such integers can be chosen
        given = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
        first, texts = _first_rows("", [[format(value, "x") for column in given for value in column]], [0, n])
        return first, tuple([int(str(text), 16) for text in texts])
    low, high = int(values.min()), int(values.max())
    rows = np.arange(n)
    if high - low > 4 * n:
        _, index, inverse = np.unique(values, return_index=True, return_inverse=True)
        first = index[inverse]
    else:
        row_of = np.empty(high - low + 1, np.int64)
        row_of[values[::-1] - low] = rows[::-1]  # the last assignment, of the first row, stays
        first = row_of[values - low]
    return first, tuple(values[first == rows].tolist())


def _are_integers(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.ndim == 1 and column.dtype.kind in "iu"
    return (
        isinstance(column, (list, tuple))
        and type(column[0] if column else 0) is int
        and set(map(type, column)) <= {int}
    )


def _int64(column: Any) -> Ints:
    if not isinstance(column, np.ndarray):
        return np.asarray(array("q", column), np.int64)
    if column.dtype == np.uint64 and len(column) and column.max() > np.iinfo(np.int64).max:
        raise OverflowError
    return column.astype(np.int64)


def _python_numbers(values: Any, dtype: type[np.generic]) -> NDArray[Any] | None:
    """Convert a list of Python numbers, faster than numpy; None for anything else."""
    if not (isinstance(values, list) and values and type(values[0]) in (bool, int, float)):
        return None
    try:
        if dtype is not np.bool_:
            return np.asarray(array("d" if dtype is np.float64 else "q", values))
        flags = np.frombuffer(bytes(values), np.uint8)
    except (TypeError, ValueError, OverflowError):
        return None
    return flags.astype(np.bool_) if flags.max() <= 1 else None
