"""Segments of trajectories: turns with the same sub-goal, int64 (N,), numbered 0, 1, .. inside each trajectory."""

from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import whole as whole_number
from agentgym.trajectory import Bools, Ints, StepTable
from agentgym.trajectory.forks import counts_so_far
from wrappers.credit.forks import refuse_forks

#: Whether something happened in a step: `changed(state, action, next_state)`.
Changed = Callable[[Hashable, Hashable, Hashable], bool]


def by_event(table: StepTable, changed: Changed | ArrayLike) -> Ints:
    """End a segment at every step with an event; the rest of the trajectory is a segment too.

    `changed`: a function called once for each distinct (state, action, next state), or bool (N,).

    Raises:
        ValueError: on an array of another shape or not of booleans.
    """
    events = _events(table, changed) if callable(changed) else np.asarray(changed)
    if events.shape != (len(table),) or (events.dtype != np.bool_ and len(table)):
        raise ValueError(
            f"changed must be a function or hold one bool per row, shape ({len(table)},), got {events.dtype} of "
            f"shape {events.shape}"
        )
    begins = np.zeros(len(table), np.bool_)
    later = table.previous >= 0
    begins[later] = events[table.previous[later]]
    return _numbered(table, begins)


def by_turn(table: StepTable) -> Ints:
    """Make every turn a segment, numbered by position whatever `t` starts with."""
    return _numbered(table, np.ones(len(table), np.bool_))


def by_count(table: StepTable, k: int) -> Ints:
    """Cut every trajectory into k segments whose lengths differ by at most one; a shorter one into its turns.

    Raises:
        ValueError: if k is below 1, or the table has forks.
    """
    k = whole_number("k", k, 1)
    refuse_forks(table, "a shared step has no unique segment among k, because the episodes through it differ in length")
    length = np.diff(table.offsets)[table.trajectory]
    return by_turn(table) * np.minimum(k, length) // np.maximum(length, 1)


def whole(table: StepTable) -> Ints:
    """Make every trajectory one segment."""
    return np.zeros(len(table), np.int64)


def checked_segments(table: StepTable, segments: ArrayLike) -> Ints:
    """Return segments as int64 (N,).

    Raises:
        ValueError: unless they are whole numbers that start with 0 in every trajectory and rise by 0 or 1 per step.
    """
    expected = f"segments must hold one whole number per row, shape ({len(table)},)"
    given = np.asarray(segments)
    if given.shape != (len(table),) or (given.dtype.kind not in "iu" and len(table)):
        raise ValueError(f"{expected}, got {given.dtype} of shape {given.shape}")
    numbers = given.astype(np.int64)
    rises = np.diff(numbers[table.order], prepend=0)
    begin = table.offsets[:-1]
    rises[begin] = numbers[table.order[begin]]
    allowed = (rises == 0) | (rises == 1)
    allowed[begin] = rises[begin] == 0
    if not allowed.all():
        row = int(table.order[np.argmin(allowed)])
        raise ValueError(
            f"{expected}, 0 at the start of each trajectory and rising by 0 or 1 from step to step; row {row} has "
            f"{numbers[row]}"
        )
    return numbers


def _numbered(table: StepTable, begins: Bools) -> Ints:
    return counts_so_far(table, begins | (table.previous < 0)) - 1


def _events(table: StepTable, changed: Changed) -> Bools:
    known: dict[tuple[int, int, int], bool] = {}
    events = np.empty(len(table), np.bool_)
    triples = zip(table.state.tolist(), table.action.tolist(), table.next_state.tolist(), strict=True)
    for row, triple in enumerate(triples):
        if triple not in known:
            state, action, next_state = triple
            known[triple] = bool(changed(table.states[state], table.actions[action], table.states[next_state]))
        events[row] = known[triple]
    return events
