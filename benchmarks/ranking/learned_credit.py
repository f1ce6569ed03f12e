"""Step credit that is fitted to the outcomes of a group, in closed form: no network, no sight of other groups.

Credit of a network, which learns from many groups, is measured by `benchmarks.truth.scorers`.
"""

from __future__ import annotations

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.agentprm import action_targets
from wrappers.credit.attribution import attribution
from wrappers.credit.fill_silent import fill_silent
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.group import number_pairs

#: Discount of values: below 1 a way to success is worth the more the shorter it is.
GAMMA = 0.95
#: What attribution counts, as it is, where the graph is silent: little enough to leave the graph's order as it is.
SHARE = 0.01


def visit_values(table: StepTable, gamma: float = GAMMA) -> tuple[Floats, Floats]:
    """Return Q of every step's state and action and V of its state, float64 (N,): means over the group's visits.

    What is averaged is `gamma ** (T - 1 - t)` in a won trajectory of T steps and 0 in a lost one.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> visit_values(table, 0.5)
    (array([0.5, 1. , 0. ]), array([0.25, 1.  , 0.25]))
    """
    of_actions = action_targets(table, gamma=gamma, unit="state")
    states, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    totals = np.bincount(states, weights=of_actions, minlength=len(example))
    return of_actions, (totals / np.bincount(states, minlength=len(example)))[states]


def agentprm(table: StepTable, *, gamma: float = GAMMA) -> Floats:
    """Return Q - V, float64 (N,): what AgentPRM's targets say of an action, against all that its state allowed."""
    of_actions, of_states = visit_values(table, gamma)
    return of_actions - of_states


def value_gain(table: StepTable, *, gamma: float = GAMMA) -> Floats:
    """Return V(s') - V(s), float64 (N,)."""
    return gains(table, visit_values(table, gamma)[1])


def gains(table: StepTable, values: Floats) -> Floats:
    """Return the value after each step less that before it, float64 (N,).

    After the last step of a trajectory nothing is left to hope for: the value is 1 if it was won, else 0.

    Args:
        table: N rows.
        values: float64 (N,), of the states that the steps were taken in.
    """
    after = np.empty(len(table))
    after[table.order[:-1]] = values[table.order[1:]]
    after[table.last] = table.trajectory_won
    return after - values


def raw_filled(table: StepTable, *, centred: bool = False, share: float = SHARE) -> Floats:
    """Return GraphGPO's step level, and where it is silent a share of the progress attribution, float64 (N,).

    `wrappers.credit.fill_silent.graphgpo_filled` takes attribution in units of its deviation in the group instead.
    """
    return fill_silent(graphgpo(table, beta_episode=0.0), attribution(table, centred=centred), share)
