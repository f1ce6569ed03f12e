"""Values of states, estimated from the episodes of the group that visited them.

Three estimators: the mean of the returns of a state's visits, Bellman's fixed point on the steps that were seen, and
the distance to success on the group's state graph. What a step gains in such values is compared by
`wrappers.credit.potential`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.group import TOLERANCE, group_means, number_pairs
from wrappers.credit.options import OutcomeOptions, option
from wrappers.credit.returns import checked_rewards, discounted_returns, outcomes, penalties
from wrappers.credit.state_graph import StateGraph

#: A fixed point is found to this share of the largest value; the nearer gamma is to 1, the longer that takes.
_ERROR = 1e-13
_NEAREST_TO_1 = 0.999


class ValueOptions(OutcomeOptions, total=False):
    """How values of states are estimated."""

    value: Annotated[
        Literal["mc", "bellman", "distance"],
        option(
            "mc",
            'how V of a state is estimated: "mc", the mean of the discounted returns of its visits; "bellman", the '
            'fixed point of V(s) = mean of r + gamma V(s\') over the steps out of s; or "distance", gamma^(d - 1), d '
            "the fewest observed steps to success, 0 where there is no way. The last two know what a truncated "
            "episode's last state is worth, the first leaves it at nothing",
        ),
    ]
    gamma: Annotated[float, option(0.95, 'discount of the values, above 0; at most .999 for "bellman"', low=0, high=1)]
    rewards: Annotated[
        Literal["end", "steps"],
        option(
            "end",
            'what returns are made of: the outcome of the episode at its "end", or the rewards of its "steps"; '
            '"distance" knows success alone',
        ),
    ]
    reward_on: Annotated[
        Literal["step", "state"],
        option(
            "step",
            'what an episode earns at its end is the reward of the last "step", or the value of the "state" it ends '
            "in, where a lost episode's is 0 (values are then discounted by one step more)",
        ),
    ]
    visits: Annotated[
        Literal["every", "first"],
        option("every", 'which visits means are taken over: "every", or a trajectory\'s "first" per state and action'),
    ]
    discounted: Annotated[bool, option(False, "the gain is r + gamma V(s') - V(s) instead of r + V(s') - V(s)")]
    prior: Annotated[float, option(0.0, "visits of the group's mean outcome that every V is mixed with", low=0)]


class StateValues(NamedTuple):
    """Values of the groups' states and what the steps between them are worth, before any comparison.

    graph: the states as nodes, the steps as edges; V nodes, N rows.
    value: float64 (V,), of the nodes; 0 where nobody acted.
    earned: float64 (N,), what each step earned.
    worth: float64 (N,), what each step is worth: its return, or what it earned and gamma V(s').
    after: float64 (N,), what its gain is taken to: r + V(s').
    before: float64 (N,), what its gain is taken from: V(s).
    counted: bool (N,), the visits that means are taken over.
    """

    graph: StateGraph
    value: Floats
    earned: Floats
    worth: Floats
    after: Floats
    before: Floats
    counted: Bools


def state_values(table: StepTable, options: ValueOptions) -> StateValues:
    """Estimate the values of all states, each group by itself.

    Args:
        table: N steps of finished groups.
        options: all of `ValueOptions`.

    Raises:
        ValueError: when gamma is 0, or near 1 where a fixed point is looked for, or options exclude each other.
    """
    gamma, kind, on_state = options["gamma"], options["value"], options["reward_on"] == "state"
    if gamma == 0 or (kind == "bellman" and gamma > _NEAREST_TO_1):
        raise ValueError(f"gamma must be above 0, and at most {_NEAREST_TO_1} for value='bellman', got {gamma}")
    if on_state and options["rewards"] == "steps":
        raise ValueError("reward_on='state' goes with rewards='end': what is earned on the way is no state's value")
    graph = StateGraph.from_table(table)
    counted = _first_visits(table, graph) if options["visits"] == "first" else np.ones(len(table), np.bool_)
    earned = _earned(table, options)
    leads_on = np.ones(len(table), np.bool_)
    leads_on[table.last] = table.truncated[table.last] & (kind != "mc")
    if kind == "mc":
        worth = discounted_returns(table, gamma, earned)
        value = group_means(worth[counted], graph.source[counted], graph.n_nodes)
    else:
        if kind == "bellman":
            value = _fixed_point(graph, earned, leads_on, counted, gamma)
        else:
            distance = graph.hop_distance()
            value = np.where(np.isfinite(distance) & (distance > 0), gamma ** (np.maximum(distance, 1.0) - 1.0), 0.0)
        worth = earned + gamma * np.where(leads_on, value[graph.target], 0.0)
    if options["prior"]:
        n = np.bincount(graph.source[counted], minlength=graph.n_nodes)
        mean = group_means(outcomes(table, options), table.trajectory_group, table.n_groups)[graph.node_group]
        value = np.where(n > 0, (n * value + options["prior"] * mean) / (n + options["prior"]), 0.0)
    behind, reward = np.where(leads_on, value[graph.target], 0.0), earned
    if on_state:
        # One step more of discount, and the last step leads to what it earned, where the episode was won.
        value, worth = gamma * value, gamma * worth
        behind = np.where(leads_on, gamma * behind, np.where(table.won, earned, 0.0))
        reward = -penalties(table, options, "discounted")
    after = reward + (gamma if options["discounted"] else 1.0) * behind
    return StateValues(graph, value, earned, worth, after, value[graph.source], counted)


def actions_of_states(graph: StateGraph) -> tuple[Ints, int]:
    """Number the actions that were taken in each state: int64 (N,), and how many there are."""
    ids, example = number_pairs(graph.source, graph.n_nodes, graph.action, max(graph.n_actions, 1))
    return ids, len(example)


def difference(after: Floats, before: Floats) -> Floats:
    """Return after - before, exactly 0 where they differ by rounding.

    >>> difference(np.array([0.1 + 0.2, 0.5]), np.array([0.3, 0.25]))
    array([0.  , 0.25])
    """
    gain = after - before
    return np.where(np.abs(gain) <= TOLERANCE * np.maximum(np.abs(after), np.abs(before)), 0.0, gain)


def _earned(table: StepTable, options: ValueOptions) -> Floats:
    """What each step earned: float64 (N,)."""
    lost = penalties(table, options, "discounted")
    if options["value"] != "distance" and options["rewards"] == "steps":
        return checked_rewards(table.reward) - lost
    earned = np.zeros(len(table))
    earned[table.last] = table.trajectory_won if options["value"] == "distance" else outcomes(table, options)
    return earned - lost


def _first_visits(table: StepTable, graph: StateGraph) -> Bools:
    """Bool (N,): the first step of its trajectory with this action in this state."""
    action, n_actions = actions_of_states(graph)
    order = table.order
    first = number_pairs(table.trajectory[order], table.n_trajectories, action[order], n_actions)[1]
    counted = np.zeros(len(table), np.bool_)
    counted[order[first]] = True
    return counted


def _fixed_point(graph: StateGraph, earned: Floats, leads_on: Bools, counted: Bools, gamma: float) -> Floats:
    """float64 (V,): V = mean of r + gamma V(s') over the rows out of a node, as the limit of a contraction."""
    mean = group_means(earned[counted], graph.source[counted], graph.n_nodes)
    rows = counted & leads_on
    share = gamma / np.bincount(graph.source[counted], minlength=graph.n_nodes)[graph.source[rows]]
    size = (graph.n_nodes, graph.n_nodes)
    step: Any = csr_array((share, (graph.source[rows], graph.target[rows])), shape=size)  # adds equal edges up
    value = mean
    for _ in range(math.ceil(math.log(_ERROR) / math.log(gamma))):
        before, value = value, mean + step @ value
        # What is still missing is at most gamma / (1 - gamma) times the last change.
        if gamma * np.abs(value - before).max(initial=0.0) <= (1.0 - gamma) * _ERROR * np.abs(value).max(initial=0.0):
            break
    return value
