"""GraphGPO: a step scored by the distance to success of its next state, compared with the other edges out of its state.

d(s) = least cost of an observed path to success, d_max + 1 of the group if there is none
R    = success_value * omega^(d(s') + c)
A_t  = beta_graph * (R - mean) / (std + eps) over the edges out of s + beta_episode * A^E

Source: the GraphGPO paper (Eqs. 4 and 5) and its recipe; see docs/credit/graphgpo.md for differences.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Literal, Unpack

from agentgym.trajectory import Floats, StepTable
from wrappers.canonical import graphgpo_key
from wrappers.credit.method import PENALTY, TOTAL, Credit, Method, steps_of
from wrappers.credit.options import StatisticsOptions, credit, option, options_of, presets
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.state_graph import (
    GraphCredit,
    GraphOptions,
    StateGraph,
    discounted,
    step_advantages,
    step_costs,
    transitions,
)
from wrappers.credit.wrapper import CreditWrapper


class GraphGPOOptions(StatisticsOptions, GraphOptions, total=False):
    """Options of `graphgpo`."""

    omega: Annotated[float, option(
        0.8, "share of the value kept per unit of cost; the paper's depends on the environment, .1 to .8, see "
        "`baselines.recipes.papers` (at .1 far states differ by less than eps)", above=0, high=1,
    )]  # fmt: skip
    cost: Annotated[float | Floats | Mapping[Hashable, float], option(
        1.0, "of a step: one number, float64 (N,), or a mapping from action to cost (default 1)",
    )]  # fmt: skip
    exponent: Annotated[Literal["next_plus_cost", "next"], option(
        "next_plus_cost", "d(s') + c (paper), or d(s') alone (authors' code)", authors="next",
    )]  # fmt: skip
    beta_graph: Annotated[float, option(1.0, "weight of the step level")]
    beta_episode: Annotated[float, option(1.0, "weight of the episode level")]


PRESETS: dict[str, GraphGPOOptions] = presets(
    GraphGPOOptions,
    paper={"outcome": "won", "invalid": "keep", "unreachable": "d_max+1", "unit": "edge"},
    authors={"success_value": 10.0, "unreachable": "d_max+1"},
)


@credit(GraphGPOOptions, **PRESETS)
def graphgpo(table: StepTable, *, preset: str = "paper", **options: Unpack[GraphGPOOptions]) -> Floats:
    """Return the advantage of every step.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> graphgpo(table).round(3)  # from "s", right is worth .8^2 and left .8^4
    array([ 1.414,  0.707, -1.414])
    """
    return advantages_of(table, graphgpo_values(table, **options), options)


def advantages_of(table: StepTable, credit: GraphCredit, options: GraphGPOOptions) -> Floats:
    """Return `graphgpo` from given values, float64 (N,); needs full options."""
    reward = credit.step_reward - penalties(table, options, "row")
    steps = step_advantages(credit.graph, reward, options["unit"], options)
    advantages = options["beta_graph"] * steps + options["beta_episode"] * episode_level(table, options)
    return advantages - penalties(table, options, "advantage")


@options_of(graphgpo)
def graphgpo_values(table: StepTable, *, preset: str = "paper", **options: Unpack[GraphGPOOptions]) -> GraphCredit:
    """Return graph, distances, node values `success_value * omega^d` and step rewards; arguments as `graphgpo`."""
    omega = options["omega"]
    steps = transitions(table, options["invalid"], options["no_change_actions"], options["noise_states"])
    graph = StateGraph.from_table(table, steps)
    given: Any = options["cost"]
    cost = step_costs(table, given)
    found = float(given) * graph.hop_distance() if isinstance(given, numbers.Real) else graph.cost_distance(cost)
    distance = graph.fill_unreachable(found, options["unreachable"])
    value = options["success_value"] * discounted(distance, omega)
    step_reward = value[graph.target]
    if options["exponent"] == "next_plus_cost":
        step_reward = step_reward * omega**cost
    return GraphCredit(graph, distance, value, step_reward)


class GraphGPO(CreditWrapper, method=graphgpo): ...


METHOD = Method(
    graphgpo, "Group advantages, plus the discounted distance to success after each edge of the group's state graph.",
    options={"omega": 0.8, **PENALTY}, space={"omega": (0.5, 0.8)}, contender="graphgpo", colour="#D55E00",
    credits=(
        *steps_of("graphgpo", functools.partial(graphgpo, beta_episode=0.0)),
        Credit("graphgpo", TOTAL, "", graphgpo),
    ),
    key=("observation, location, inventory with status (GraphGPO)", graphgpo_key),
)  # fmt: skip
