"""RewardFlow as its release computes it: rewards, not distances, flow back, and states are looked up as shown.

The options here are options of `rewardflow`; docs/credit/rewardflow.md says where paper and release differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Literal, TypedDict

import numpy as np

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.group import number_pairs
from wrappers.credit.options import option
from wrappers.credit.returns import checked_rewards
from wrappers.credit.state_graph import GraphCredit, StateGraph

_SWEEPS = 1000


class ReleaseOptions(TypedDict, total=False):
    """Options of `rewardflow` that are not in the paper."""

    values: Annotated[
        Literal["distance", "propagated"],
        option(
            "distance",
            'of the states: by "distance" (paper), or "propagated", the largest discounted *reward* ahead (authors\' '
            "code)",
            authors="propagated",
        ),
    ]
    lookup: Annotated[
        Literal["latent", "shown"],
        option(
            "latent",
            'where a bypassed graph is asked for values, and what is compared: the "latent" state of a row, or the '
            'state "shown" (the authors\' ALFWorld manager: a noise text is worth 0, the step out of it gains it all '
            "back)",
        ),
    ]
    lose_last: Annotated[
        bool,
        option(
            False,
            "lose the last transition of the longest trajectories of the batch, as the authors' code does; these "
            "steps keep the environment's reward",
        ),
    ]


def is_released(options: ReleaseOptions) -> bool:
    """Say whether an option asks for what only the release does."""
    return options["values"] != "distance" or options["lookup"] != "latent" or options["lose_last"]


def released_flow(
    table: StepTable,
    graph: StateGraph,
    by_distance: Callable[[StateGraph], tuple[Floats, Floats]],
    options: ReleaseOptions,
    gamma: float,
    shaping_gamma: float,
) -> tuple[GraphCredit, StateGraph]:
    """Return values and step rewards, and the graph whose edges are compared with each other.

    Args:
        table: N rows.
        graph: its graph.
        by_distance: distances and values of a graph's nodes, as the paper has them.
        options: see there.
        gamma: discount per edge of what is propagated.
        shaping_gamma: factor of the next state's value in a step's reward.
    """
    reward = checked_rewards(table.reward)
    lost = in_lost_transitions(table) if options["lose_last"] else np.zeros(len(table), np.bool_)
    flowing = dataclasses.replace(graph, is_edge=graph.is_edge & ~lost)
    distance, value = by_distance(flowing)
    if options["values"] == "propagated":
        value = propagated_values(table, flowing, gamma)
    compared, looked_up = graph, value
    if options["lookup"] == "shown":
        compared = StateGraph.from_table(table)
        looked_up = flowing.values_of(compared, value)
    gain = shaping_gamma * looked_up[compared.target] - looked_up[compared.source]
    return GraphCredit(flowing, distance, value, np.where(lost, reward, gain)), compared


def propagated_values(table: StepTable, graph: StateGraph, gamma: float) -> Floats:
    """Return float64 (V,): `V(s) = max(own(s), gamma * max over edges of V(s'))`, swept until it rests or 1000 times.

    `own(s)` is the reward that came with the first sight of s on an edge that is no self loop (0 for a first
    state): with a reward only at success, V is that reward times gamma^distance; with a reward on every step, states
    without a way to success get values that depend on what was seen first. It takes as many sweeps as the longest way
    to a reward, and about -12 / log10(gamma) where negative rewards fade around a cycle; a sweep looks at the edges to
    nodes that the one before has raised.

    Args:
        table: N rows.
        graph: its graph; rows that are no edge of it show no reward.
        gamma: discount per edge.
    """
    order = table.order
    before = np.where(table.previous < 0, 0.0, table.reward[table.previous])
    rows = order[(graph.is_edge & (graph.source != graph.target))[order]]
    seen = np.stack((graph.source[rows], graph.target[rows]), axis=1).ravel()
    reward = np.stack((before[rows], table.reward[rows]), axis=1).ravel()
    value = np.zeros(graph.n_nodes)
    value[seen[::-1]] = reward[::-1]  # the last assignment stays: that of the first sight
    _, example = number_pairs(graph.source[rows], graph.n_nodes, graph.target[rows], graph.n_nodes)
    source, target = graph.source[rows[example]], graph.target[rows[example]]
    raised = np.ones(graph.n_nodes, np.bool_)
    for _ in range(_SWEEPS):
        edges = np.flatnonzero(raised[target])  # a sweep raises only what leads to what the last one has raised
        swept = value.copy()
        np.maximum.at(swept, source[edges], gamma * value[target[edges]])
        rise = swept - value
        if np.max(rise, initial=0.0) <= 1e-12:
            break
        value, raised = swept, rise > 0
    return value


def in_lost_transitions(table: StepTable) -> Bools:
    """Return bool (N,): last rows of the longest episodes of the whole table.

    The published code takes a transition's next state from the following row of a batch padded to its longest
    trajectory, so these have none: they are missing in the graph and keep the environment's reward.
    """
    lost = np.zeros(len(table), np.bool_)
    length = table.episode_length
    lost[table.last[length == length.max(initial=0)]] = True
    return lost


def label_early_ends(table: StepTable, key: str = "You Won!") -> StepTable:
    """Return the table as the authors' ALFWorld manager sees it: whoever ends before the longest has won.

    The last next state of every trajectory shorter than the longest of the table becomes the state `key`. That is
    right only while failures always run into the time limit.
    """
    states = table.states if key in table.states else (*table.states, key)
    next_state = table.next_state.copy()
    length = table.episode_length
    next_state[table.last[length < length.max(initial=0)]] = states.index(key)
    return dataclasses.replace(table, next_state=next_state, states=states)
