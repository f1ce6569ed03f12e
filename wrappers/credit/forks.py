"""Tables with forks, for methods that compare whole episodes: where a row is shared, it is scored as each of them.

A leaf of a tree of rollouts is an episode. What belongs to an episode (its outcome, a return to go, the states before)
is read from the table in which every episode is whole (`StepTable.unfolded`); there a row that several episodes share
stands once for each of them, and in the table it gets the mean of what it gets there: an estimate of what is to be
expected after it. What belongs to a step (an edge of the state graph, a score of its own) counts once, however many
episodes go through it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Floats, Ints, StepTable
from agentgym.trajectory.forks import unfolds

Parameters = ParamSpec("Parameters")
Method = Callable[Concatenate[StepTable, Parameters], Floats]


def over_forks(
    *columns: str, shared: Callable[..., Floats] | None = None
) -> Callable[[Method[Parameters]], Method[Parameters]]:
    """Let a function that scores the rows of whole episodes take tables with forks; others it is given as they are.

    Args:
        *columns: keyword arguments of the function that hold one entry per row of the table. One that is None or a
            word is left alone.
        shared: the same from the table with forks itself, in time and memory linear in its rows. It is asked where
            the unfolded table would have more than `agentgym.trajectory.forks.MOST_UNFOLDED` rows; the two differ by
            rounding.

    Returns:
        A decorator. The function returns float64 (N,) or (N, K); nan, not scored, has no part in a mean. Without
        `shared` a table that is too large to be unfolded is a ValueError.

    >>> @over_forks()
    ... def outcome(table):
    ...     return table.won.astype(float)
    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 1], state=["s", "u", "u"],
    ...     action=["right", "up", "down"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
    ...     parent={"b": ("a", 0)})
    >>> outcome(table)  # the first step is shared by a success and a failure
    array([0.5, 1. , 0. ])
    """

    def decorate(method: Method[Parameters]) -> Method[Parameters]:
        @wraps(method)
        def scored(table: StepTable, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Floats:
            if not table.has_forks:
                return method(table, *args, **kwargs)
            if shared is not None and not unfolds(table):
                return shared(table, *args, **kwargs)
            whole, source = table.unfolded()
            for name in columns:
                if kwargs.get(name) is not None and not isinstance(kwargs[name], str):
                    kwargs[name] = _unfolded(name, kwargs[name], source, len(table))
            return _mean(method(whole, *args, **kwargs), source, len(table))

        return scored

    return decorate


def first_copies(source: Ints, n: int) -> Ints:
    """Return int64 (n,): for each row of a table the first of its copies in the unfolded one.

    It is for what depends on the rows before alone, and is therefore the same in all copies.

    Args:
        source: int64 (L,), the row that each copy came from; every row has one.
        n: number of rows.

    >>> first_copies(np.array([0, 1, 0, 2]), 3)
    array([0, 1, 3])
    """
    first = np.empty(n, np.int64)
    first[source[::-1]] = np.arange(len(source))[::-1]  # of several assignments to a row the last one stays
    return first


def refuse_forks(table: StepTable, why: str) -> None:
    """Raise ValueError for a table with forks."""
    if table.has_forks:
        raise ValueError(f"the table has trajectories that were cut from others (StepTable.parent): {why}")


def _unfolded(name: str, column: Any, source: Ints, n: int) -> NDArray[Any]:
    given: NDArray[Any] = np.asarray(column)
    if given.ndim == 0 or len(given) != n:
        raise ValueError(f"{name} must hold one entry per row of the table ({n}), got shape {given.shape}")
    return given[source]


def _mean(values: Floats, source: Ints, n: int) -> Floats:
    """Mean over the copies of each row, of those that were scored; nan where none was."""
    columns = values.reshape(len(values), -1)
    places = (source[:, None] * columns.shape[1] + np.arange(columns.shape[1])).ravel()
    flat = columns.ravel()
    scored = ~np.isnan(flat)
    count = np.bincount(places, weights=scored, minlength=n * columns.shape[1])
    total = np.bincount(places, weights=np.where(scored, flat, 0.0), minlength=n * columns.shape[1])
    mean: Floats = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return mean.reshape(n, *values.shape[1:])
