"""RewardFlow: a step scored by its gain in state value, values propagated back from success.

R(s) = gamma^d(s), d = fewest observed steps to success; R = 0 without a path
r_t  = R(s') - R(s)
A_t  = alpha_action * (r_t - mean) / (std + eps) over Group(s) + alpha_trajectory * A^traj

Source: the RewardFlow paper (Eq. 5 is Group(s)) and its release; see docs/credit/rewardflow.md for differences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Literal, TypedDict, Unpack

import numpy as np

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.canonical import rewardflow_key
from wrappers.credit.group import number_pairs
from wrappers.credit.method import PENALTY, STEP, TOTAL, Credit, Method, steps_of
from wrappers.credit.options import StatisticsOptions, credit, option, options_of, presets
from wrappers.credit.returns import checked_rewards, episode_level, penalties
from wrappers.credit.state_graph import Aggregate, GraphCredit, GraphOptions, StateGraph, step_advantages, transitions
from wrappers.credit.wrapper import CreditWrapper

_SWEEPS = 1000


class ReleaseOptions(TypedDict, total=False):
    """Options of `rewardflow` that are not in the paper."""

    values: Annotated[Literal["distance", "propagated"], option(
        "distance", 'of states: by "distance" (paper), or "propagated", the largest discounted *reward* ahead '
        "(authors' code)", authors="propagated",
    )]  # fmt: skip
    lookup: Annotated[Literal["latent", "shown"], option(
        "latent", 'state used for values and comparison in a bypassed graph: the "latent" state of a row, or the '
        'state "shown" (the authors\' ALFWorld manager: a noise text has value 0, and the step out of it regains the '
        "value)",
    )]  # fmt: skip
    lose_last: Annotated[bool, option(
        False, "omit the last transition of the longest trajectories of the batch, as the authors' code does; these "
        "steps keep the environment's reward",
    )]  # fmt: skip


class RewardFlowOptions(StatisticsOptions, GraphOptions, ReleaseOptions, total=False):
    """Options of `rewardflow`; std, ddof and eps apply to both levels."""

    gamma: Annotated[float, option(0.9, "share of the value kept per step of distance, above 0", low=0, high=1)]
    aggregate: Annotated[Aggregate, option(
        "min", 'distance to the nearest success node, or the "mean" over the reachable ones of the group; only for '
        'values by "distance"',
    )]  # fmt: skip
    shaping_gamma: Annotated[float, option(
        1.0, "factor of R(s') in the step reward; the paper has 1, gamma makes it potential-based", low=0, high=1,
    )]  # fmt: skip
    alpha_action: Annotated[float, option(1.0, "weight of the step level")]
    alpha_trajectory: Annotated[float, option(1.0, "weight of the episode level")]


#: The authors' generic environment manager, with every last transition in the graph (the method as meant).
PRESETS: dict[str, RewardFlowOptions] = presets(RewardFlowOptions, paper={"outcome": "won"}, authors={"std": "none"})


@credit(RewardFlowOptions, **PRESETS)
def rewardflow(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> Floats:
    """Return the advantage of every step; bypassed steps have step level 0.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> rewardflow(table).round(3)  # from "s", right gains 0.9 - 0.81 and left 0 - 0.81
    array([ 1.414,  0.707, -1.414])
    """
    credit, compared = _flow(table, options)
    steps = step_advantages(compared, credit.step_reward - penalties(table, options, "row"), options["unit"], options)
    episodes = episode_level(table, options)
    advantages = options["alpha_action"] * steps + options["alpha_trajectory"] * episodes
    return advantages - penalties(table, options, "advantage")


@options_of(rewardflow)
def rewardflow_values(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> GraphCredit:
    """Return graph, distances, node values and step rewards before any comparison; arguments as `rewardflow`."""
    return _flow(table, options)[0]


def _flow(table: StepTable, options: RewardFlowOptions) -> tuple[GraphCredit, StateGraph]:
    gamma, shaping_gamma = options["gamma"], options["shaping_gamma"]
    if gamma == 0:
        raise ValueError("gamma must be above 0, got 0: no value would propagate back")

    def by_distance(graph: StateGraph) -> tuple[Floats, Floats]:
        distance = graph.hop_distance(options["aggregate"])
        hops = graph.fill_unreachable(distance, options["unreachable"])
        return distance, np.where(np.isfinite(hops), options["success_value"] * gamma**hops, 0.0)

    steps = transitions(table, options["invalid"], options["no_change_actions"], options["noise_states"])
    graph = StateGraph.from_table(table, steps)
    if is_released(options):
        return released_flow(table, graph, by_distance, options, gamma, shaping_gamma)
    distance, value = by_distance(graph)
    return GraphCredit(graph, distance, value, shaping_gamma * value[graph.target] - value[graph.source]), graph


def is_released(options: ReleaseOptions) -> bool:
    """Return whether an option requests behaviour that only the release has."""
    return options["values"] != "distance" or options["lookup"] != "latent" or options["lose_last"]


def released_flow(
    table: StepTable,
    graph: StateGraph,
    by_distance: Callable[[StateGraph], tuple[Floats, Floats]],
    options: ReleaseOptions,
    gamma: float,
    shaping_gamma: float,
) -> tuple[GraphCredit, StateGraph]:
    """Return values and step rewards as the release computes them, and the graph whose edges are compared.

    Args:
        by_distance: distances and values of a graph's nodes by the paper.
        gamma: discount per edge of the propagation.
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
    """Return float64 (V,): the fixed point of `V(s) = max(own(s), gamma * max over edges V(s'))`, at most 1000 sweeps.

    `own(s)`: the reward of the first edge (no self loop) into s, 0 for a first state. With rewards only at success V is
    that reward times gamma^distance; with rewards on every step, states without a path to success get values that
    depend on the order. A sweep updates only predecessors of nodes raised by the last one; it takes as many sweeps as
    the longest path to a reward, and about -12 / log10(gamma) where negative rewards decay around a cycle.
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
        edges = np.flatnonzero(raised[target])  # a sweep raises only predecessors of nodes raised by the last one
        swept = value.copy()
        np.maximum.at(swept, source[edges], gamma * value[target[edges]])
        rise = swept - value
        if np.max(rise, initial=0.0) <= 1e-12:
            break
        value, raised = swept, rise > 0
    return value


def in_lost_transitions(table: StepTable) -> Bools:
    """Return bool (N,): last rows of the longest episodes of the table.

    The release reads a transition's next state from the following row of a batch padded to its longest trajectory.
    These rows have none: they are not in the graph and keep the environment's reward.
    """
    lost = np.zeros(len(table), np.bool_)
    length = table.episode_length
    lost[table.last[length == length.max(initial=0)]] = True
    return lost


def label_early_ends(table: StepTable, key: str = "You Won!") -> StepTable:
    """Return the table as the authors' ALFWorld manager sees it: every episode shorter than the longest is won.

    The last next state of each trajectory shorter than the longest becomes the state `key`, which is right only while
    all failures reach the time limit.
    """
    states = table.states if key in table.states else (*table.states, key)
    next_state = table.next_state.copy()
    length = table.episode_length
    next_state[table.last[length < length.max(initial=0)]] = states.index(key)
    return dataclasses.replace(table, next_state=next_state, states=states)


class RewardFlow(CreditWrapper, method=rewardflow): ...


_step_level = functools.partial(rewardflow, alpha_trajectory=0.0)
METHOD = Method(
    rewardflow, "Group advantages, plus the gain in discounted distance to success on the group's state graph.",
    options={"gamma": 0.9, **PENALTY}, space={"gamma": (0.8, 0.9)}, contender="rewardflow", colour="#009E73",
    credits=(
        *steps_of("rewardflow", _step_level),
        # The paper gives no step credit to moves without effect; as self loops they are compared too.
        Credit("rewardflow", STEP, "self loops", functools.partial(_step_level, invalid="self_loop")),
        Credit("rewardflow", TOTAL, "", rewardflow),
        Credit("nearest success", "distance", "", _step_level),
        Credit("mean over successes", "distance", "", functools.partial(_step_level, aggregate="mean")),
    ),
    key=("observation, inventory with status (RewardFlow)", rewardflow_key),
)  # fmt: skip
