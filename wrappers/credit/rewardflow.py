"""RewardFlow: a step is worth what it gains in the value of the state, values flowing back from success.

R(s) = gamma^d(s), d = fewest observed steps to success, R = 0 where no way leads there
r_t  = R(s') - R(s)
A_t  = alpha_action * (r_t - mean) / (std + eps) over Group(s) + alpha_trajectory * A^traj

Source: the RewardFlow paper (Eq. 5 is Group(s)) and its release; see docs/credit/rewardflow.md for where they differ.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, Unpack

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import StatisticsOptions, episode_advantages
from wrappers.credit.grpo import PRESETS as GRPO_PRESETS
from wrappers.credit.options import choose
from wrappers.credit.pruning import NO_CHANGE_ACTIONS, Invalid, transitions
from wrappers.credit.returns import episode_scores, penalties
from wrappers.credit.reward_propagation import in_lost_transitions, propagated_values
from wrappers.credit.state_graph import Aggregate, GraphCredit, StateGraph, Unit, Unreachable, step_advantages
from wrappers.credit.wrapper import CreditWrapper


class RewardFlowOptions(StatisticsOptions, total=False):
    """Those of `StatisticsOptions` (std, ddof, eps at both levels, the rest for episodes) and of the step level.

    gamma: share of the value kept per step of distance, above 0 and at most 1.
    success_value: value of a success state.
    unreachable: distance of a state without a way to success: "infinite" (value 0) or "d_max+1" of its group.
    aggregate: distance to the nearest success node ("min"), or the "mean" over those of the group that can be
        reached; only for values by "distance".
    values: "distance" (above) or "propagated": the largest discounted *reward* ahead, as the authors' code has it.
    shaping_gamma: factor of R(s') in the step reward; the paper has 1, gamma makes it potential-based.
    unit: what is compared at a state: every "visit", or every distinct "edge" once.
    invalid: rows that did not change the state: "bypass", "self_loop" or "keep", see `wrappers.credit.pruning`.
    no_change_actions: first words of actions that only look.
    noise_states: states that are only shown, such as ("Nothing happens.",): rows that lead to one changed nothing.
    lookup: where a bypassed graph is asked for values, and what is compared: the "latent" state of a row, or the
        state "shown" (the authors' ALFWorld manager: a noise text is worth 0, the step out of it gains it all back).
    lose_last: the authors' code loses the last transition of the longest trajectories of the batch; True does too.
    alpha_action: weight of the step level.
    alpha_trajectory: weight of the episode level.
    """

    gamma: float
    success_value: float
    unreachable: Unreachable
    aggregate: Aggregate
    values: Literal["distance", "propagated"]
    shaping_gamma: float
    unit: Unit
    invalid: Invalid
    no_change_actions: tuple[str, ...]
    noise_states: tuple[str, ...]
    lookup: Literal["latent", "shown"]
    lose_last: bool
    alpha_action: float
    alpha_trajectory: float


_PAPER: RewardFlowOptions = {
    **GRPO_PRESETS["paper"],
    "outcome": "won",
    "gamma": 0.9,
    "success_value": 1.0,
    "unreachable": "infinite",
    "aggregate": "min",
    "values": "distance",
    "shaping_gamma": 1.0,
    "unit": "visit",
    "invalid": "bypass",
    "no_change_actions": NO_CHANGE_ACTIONS,
    "noise_states": (),
    "lookup": "latent",
    "lose_last": False,
    "alpha_action": 1.0,
    "alpha_trajectory": 1.0,
}
#: The authors' generic environment manager, with every last transition in the graph (the method as meant).
PRESETS: dict[str, RewardFlowOptions] = {
    "paper": _PAPER,
    "authors": {
        **_PAPER,
        **GRPO_PRESETS["authors"],
        "std": "none",
        "values": "propagated",
        "invalid": "keep",
    },
}


def rewardflow(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> Floats:
    """Return the advantage of every step.

    Args:
        table: N steps of finished groups.
        preset: "paper" or "authors".
        **options: any of `RewardFlowOptions` (gamma, success_value, unreachable, aggregate, values, shaping_gamma,
            unit, invalid, no_change_actions, noise_states, lookup, lose_last, alpha_action, alpha_trajectory, and
            those of `StatisticsOptions`), instead of the preset's.

    Returns:
        float64 (N,), in the order of the table's rows. Bypassed steps have step level 0.

    Raises:
        ValueError: on an unknown preset or an option's value out of range.
        TypeError: on an unknown option.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> rewardflow(table).round(3)  # from "s", right gains 0.9 - 0.81 and left 0 - 0.81
    array([ 1.414,  0.707, -1.414])
    """
    chosen = choose(RewardFlowOptions, PRESETS, preset, options)
    credit, compared = _flow(table, chosen)
    steps = step_advantages(compared, credit.step_reward - penalties(table, chosen, "row"), chosen["unit"], chosen)
    episodes = episode_advantages(table, episode_scores(table, chosen), chosen)
    advantages = chosen["alpha_action"] * steps + chosen["alpha_trajectory"] * episodes
    return advantages - penalties(table, chosen, "advantage")


def rewardflow_values(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> GraphCredit:
    """Return graph, distances, node values and step rewards (before any comparison); arguments as `rewardflow`."""
    return _flow(table, choose(RewardFlowOptions, PRESETS, preset, options))[0]


def _flow(table: StepTable, options: RewardFlowOptions) -> tuple[GraphCredit, StateGraph]:
    """Values and step rewards, and the graph whose edges are compared with each other."""
    gamma = options["gamma"]
    if gamma == 0:
        raise ValueError("gamma must be above 0, got 0: nothing would flow back")
    steps = transitions(table, options["invalid"], options["no_change_actions"], options["noise_states"])
    lost = in_lost_transitions(table) if options["lose_last"] else np.zeros(len(table), np.bool_)
    whole = StateGraph.from_table(table, steps)
    graph = dataclasses.replace(whole, is_edge=whole.is_edge & ~lost)
    distance = graph.hop_distance(options["aggregate"])
    if options["values"] == "propagated":
        value = propagated_values(table, graph, gamma)
    else:
        filled = graph.fill_unreachable(distance, options["unreachable"])
        known = np.isfinite(filled)
        value = np.zeros(graph.n_nodes)
        value[known] = options["success_value"] * gamma ** filled[known]
    compared, asked = whole, value
    if options["lookup"] == "shown":
        compared = StateGraph.from_table(table)
        asked = graph.values_of(compared, value)
    gain = options["shaping_gamma"] * asked[compared.target] - asked[compared.source]
    return GraphCredit(graph, distance, value, np.where(lost, table.reward, gain)), compared


class RewardFlow(CreditWrapper):
    """Vector wrapper whose `advantages()` are `rewardflow(table(), **options)`."""

    method = staticmethod(rewardflow)
