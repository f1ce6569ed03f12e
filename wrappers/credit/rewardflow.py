"""RewardFlow: a step is worth what it gains in the value of the state, values flowing back from success.

R(s) = gamma^d(s), d = fewest observed steps to success, R = 0 where no way leads there
r_t  = R(s') - R(s)
A_t  = alpha_action * (r_t - mean) / (std + eps) over Group(s) + alpha_trajectory * A^traj

Source: the RewardFlow paper (Eq. 5 is Group(s)) and its release; see docs/credit/rewardflow.md for where they differ.
"""

from __future__ import annotations

import functools
from typing import Annotated, Unpack

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import PENALTY, STEP, TOTAL, Credit, Method, steps_of
from wrappers.credit.options import StatisticsOptions, choose, credit, option, presets
from wrappers.credit.pruning import transitions
from wrappers.credit.published.rewardflow import ReleaseOptions, is_released, released_flow
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.state_graph import Aggregate, GraphCredit, GraphOptions, StateGraph, step_advantages
from wrappers.credit.wrapper import CreditWrapper


class RewardFlowOptions(StatisticsOptions, GraphOptions, ReleaseOptions, total=False):
    """Options of `rewardflow`; std, ddof and eps are those of both levels."""

    gamma: Annotated[float, option(0.9, "share of the value kept per step of distance, above 0", low=0, high=1)]
    aggregate: Annotated[
        Aggregate,
        option(
            "min",
            'distance to the nearest success node, or the "mean" over those of the group that can be reached; only '
            'for values by "distance"',
        ),
    ]
    shaping_gamma: Annotated[
        float,
        option(
            1.0, "factor of R(s') in the step reward; the paper has 1, gamma makes it potential-based", low=0, high=1
        ),
    ]
    alpha_action: Annotated[float, option(1.0, "weight of the step level")]
    alpha_trajectory: Annotated[float, option(1.0, "weight of the episode level")]


#: The authors' generic environment manager, with every last transition in the graph (the method as meant).
PRESETS: dict[str, RewardFlowOptions] = presets(RewardFlowOptions, paper={"outcome": "won"}, authors={"std": "none"})


@credit(RewardFlowOptions, **PRESETS)
def rewardflow(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> Floats:
    """Return the advantage of every step.

    Returns:
        float64 (N,), in the order of the table's rows. Bypassed steps have step level 0.

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


def rewardflow_values(table: StepTable, *, preset: str = "paper", **options: Unpack[RewardFlowOptions]) -> GraphCredit:
    """Return graph, distances, node values and step rewards (before any comparison); arguments as `rewardflow`."""
    return _flow(table, choose(RewardFlowOptions, PRESETS, preset, options))[0]


def _flow(table: StepTable, options: RewardFlowOptions) -> tuple[GraphCredit, StateGraph]:
    """Values and step rewards, and the graph whose edges are compared with each other."""
    gamma, shaping_gamma = options["gamma"], options["shaping_gamma"]
    if gamma == 0:
        raise ValueError("gamma must be above 0, got 0: nothing would flow back")

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


class RewardFlow(CreditWrapper, method=rewardflow):
    """Vector wrapper whose `advantages()` are `rewardflow(table(), **options)`."""


_step_level = functools.partial(rewardflow, alpha_trajectory=0.0)
METHODS = (
    Method(
        "rewardflow",
        rewardflow,
        "GRPO plus the gain in discounted distance to success on the group's state graph.",
        options={"gamma": 0.9, **PENALTY},
        space={"gamma": (0.8, 0.9)},
        contender="rewardflow",
        colour="#009E73",
        credits=(
            *steps_of("rewardflow", _step_level),
            # The paper gives no step credit to moves that change nothing; as self loops they are compared as well.
            Credit("rewardflow", STEP, "self loops", functools.partial(_step_level, invalid="self_loop")),
            Credit("rewardflow", TOTAL, "", rewardflow),
        ),
    ),
)
