"""AgentPRM (PRM4A): targets for a model of action values, the mean outcome of the rollouts that took the action.

Q(s, a) = mean over the group's visits of (s, a) of gamma^(T - 1 - t) R

T: length of the rollout; s: the whole history, or the table's state.
Source: "Process Reward Models for LLM Agents" and its release, not the paper of the same name on promise and progress;
see docs/credit/agentprm.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.forks import following, over_forks
from wrappers.credit.group import choices_of, group_means, states_of
from wrappers.credit.method import FITTED, NEEDS_MODEL, PENALTY, Credit, Method
from wrappers.credit.options import WorthOptions, credit, finite_numbers, option
from wrappers.credit.returns import outcomes
from wrappers.credit.scored_steps import BY_STEP
from wrappers.credit.segments import by_turn


class ActionTargetOptions(WorthOptions, total=False):
    """Options of `action_targets`."""

    gamma: Annotated[float, option(0.95, "discount per step", low=0, high=1)]
    unit: Annotated[Literal["history", "state"], option(
        "history", 'what is averaged: visits of the same action after the same "history" of states and actions, or in '
        'the same "state" (more visits)',
    )]  # fmt: skip
    count_from: Annotated[Literal["end", "start"], option(
        "end", 'discount by the steps to the "end" of the rollout (gamma^(T-1-t) R), or by those from its "start": (1 '
        "+ gamma^t (2 R - 1)) / 2, which falls along a won rollout (authors' code)", authors="start",
    )]  # fmt: skip
    shaping: Annotated[Literal["none", "raw", "soft"], option(
        "none", "add gamma V(s') - V(s), from the argument `values`, on all steps but a trajectory's last: \"raw\" is "
        'that sum, unscaled (gamma^t (2 R - 1) from the "start"); "soft" maps it to 0..1 by a sigmoid of three times '
        "its distance from the mean over its quartile range, both over the distinct visits of the table",
    )]  # fmt: skip


@credit(ActionTargetOptions, paper={"outcome": "won"}, authors={"outcome": "won"})
@over_forks("values")
def action_targets(
    table: StepTable, *, values: ArrayLike | None = None, preset: str = "paper", **options: Unpack[ActionTargetOptions]
) -> Floats:
    """Return the target for the value of every step's action.

    Args:
        values: float (N,), V of the state each row's action was taken in; only needed for `shaping`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["up", "up", "up"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> action_targets(table, gamma=0.9)  # "up" at first: 0.9 once, 0 once
    array([0.45, 1.  , 0.45])
    """
    if len(table) == 0:
        return np.zeros(0)
    worth, turn = outcomes(table, options)[table.trajectory], by_turn(table)
    from_start = options["count_from"] == "start"
    if from_start:
        target = options["gamma"] ** turn * (2 * worth - 1)
    else:
        target = options["gamma"] ** (turn[table.last][table.trajectory] - turn) * worth
    if options["shaping"] != "none":
        target = target + _potential(table, values, options["gamma"])
    elif from_start:
        target = 0.5 * (1 + target)
    visits, n_visits = _histories(table) if options["unit"] == "history" else choices_of(table)
    mean = np.bincount(visits, weights=target, minlength=n_visits) / np.bincount(visits, minlength=n_visits)
    if options["shaping"] == "soft":
        low, high = np.percentile(mean, [25, 75])
        mean = expit(3 / max(high - low, _LEAST_RANGE) * (mean - mean.mean()))
    return mean[visits]


#: Smallest quartile range.
_LEAST_RANGE = 1e-9


def _potential(table: StepTable, values: ArrayLike | None, gamma: float) -> Floats:
    if values is None:
        raise ValueError("shaping needs values, one V per row: pass values=, or shaping='none'")
    now = finite_numbers("values", values, len(table))
    gain = following(table, gamma * now) - now
    gain[table.last] = 0.0
    return gain


def _histories(table: StepTable) -> tuple[Ints, int]:
    pairs, n_pairs = choices_of(table)
    known: dict[int, int] = {}
    numbers = np.empty(len(table), np.int64)
    before = -1
    first = set(table.offsets[:-1].tolist())
    for i, (row, pair) in enumerate(zip(table.order.tolist(), pairs[table.order].tolist(), strict=True)):
        if i in first:
            before = -1  # the pair's number tells the groups apart
        before = known.setdefault((before + 1) * n_pairs + pair, len(known))
        numbers[row] = before
    return numbers, len(known)


#: Discount of values: below 1 shorter paths to success are worth more.
GAMMA = 0.95


def visit_values(table: StepTable, gamma: float = GAMMA) -> tuple[Floats, Floats]:
    """Return Q(s, a) and V(s), float64 (N,) each: means of `gamma ** (T - 1 - t) * won` over the group's visits."""
    of_actions = action_targets(table, gamma=gamma, unit="state")
    states, count = states_of(table)
    return of_actions, group_means(of_actions, states, count)[states]


def state_advantages(table: StepTable, *, gamma: float = GAMMA) -> Floats:
    """Return Q - V of `visit_values`, float64 (N,)."""
    of_actions, of_states = visit_values(table, gamma)
    return of_actions - of_states


def value_gain(table: StepTable, *, gamma: float = GAMMA) -> Floats:
    """Return V(s') - V(s) of `visit_values`, float64 (N,)."""
    return gains(table, visit_values(table, gamma)[1])


def gains(table: StepTable, values: Floats) -> Floats:
    """Return the value after each step minus the value before it, float64 (N,).

    `values`: float64 (N,), of the states that the steps were taken in. The value after a trajectory's last step is 1 if
    it was won, else 0.
    """
    return following(table, values, table.trajectory_won) - values


METHOD = Method(
    notes="Group advantages, plus the action's value, learned from rollouts, compared inside the state.",
    name="agentprm", options={"compare": "state", **PENALTY}, **BY_STEP, scorer="action_value", colour="#CC6677",
    credits=(
        Credit("agentprm", FITTED, "", state_advantages),
        Credit("value_gain", FITTED, "", value_gain, colour="#DDCC77"),
    ),
    unmeasured=NEEDS_MODEL,
)  # fmt: skip
