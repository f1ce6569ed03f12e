"""What methods of branches share: values that reach to the next mark, and what a step earned."""

from __future__ import annotations

import numpy as np

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.options import OutcomeOptions
from wrappers.credit.returns import checked_rewards, penalties


def spread(table: StepTable, values: Floats, marked: Ints) -> Floats:
    """Return float64 (N,): each row gets the value of the last marked row at or before it in its trajectory, else nan.

    Args:
        table: N rows.
        values: float64 (N,); only marked rows are read.
        marked: rows, in any order.
    """
    place = np.empty(len(table), np.int64)
    place[table.order] = np.arange(len(table))
    latest = np.full(len(table), -1)
    latest[place[marked]] = place[marked]
    latest = np.maximum.accumulate(latest)
    starts = np.repeat(table.offsets[:-1], np.diff(table.offsets))
    found = np.flatnonzero(latest >= starts)
    result = np.full(len(table), np.nan)
    result[table.order[found]] = values[table.order[latest[found]]]
    return result


def step_rewards(table: StepTable, options: OutcomeOptions) -> Floats:
    """Return float64 (N,): what each step earned towards its episode's outcome, less the penalty "discounted".

    With the outcome "won" that is 1 at the end of an episode that was won, and 0 elsewhere.

    Raises:
        ValueError: on a reward beyond `LARGEST`, where the outcome is the return.
    """
    if options["outcome"] == "won":
        reward = np.zeros(len(table))
        reward[table.last] = table.trajectory_won
    else:
        reward = checked_rewards(table.reward)
    return reward - penalties(table, options, "discounted")
