"""Frontier: credit by the best observed continuation of the group, with optimism where observation ended.

Q(s, a) = mean of r + gamma V(s') over the visits of (s, a)
V(s)    = max of Q(s, a) over the actions taken in s; if there are none: optimism after a time limit, 0 after an end

The first of these that is not 0 credits a step; all but the first are multiplied by `share`:

* Q against the other steps out of s, where they differ without optimism;
* Q against the other steps out of s, where they differ only by optimism;
* the gain Q / gamma - V(s) without optimism, divided by its root mean square over the group;
* the contribution of (s, a) to the outcomes above their mean, by ridge regression.

Not published: a combination of published estimators, selected by the true worth of steps; see docs/credit/frontier.md.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple, Unpack

import numpy as np
from scipy.sparse import csr_array

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.fill_silent import contributions, filled
from wrappers.credit.forks import at_end, over_forks, refuse_forks
from wrappers.credit.group import (
    LEAST_SCALE,
    episode_advantages,
    group_means,
    largest_of,
    refuse_mean,
    visit_advantages,
)
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import StatisticsOptions, credit, option, options_of, presets
from wrappers.credit.potential import actions_of_states, difference
from wrappers.credit.returns import checked_rewards, episode_scores, outcomes, penalties
from wrappers.credit.state_graph import StateGraph
from wrappers.credit.wrapper import CreditWrapper

#: A fixed point is found to this share of the largest value.
_ERROR = 1e-13


class FrontierOptions(StatisticsOptions, total=False):
    """Options of `frontier`."""

    gamma: Annotated[float, option(0.9, "discount of the values", low=1e-6, high=0.999)]
    rewards: Annotated[Literal["steps", "end"], option(
        "steps", 'rewards that make the values: of all "steps", or the outcome of the episode (option `outcome`) at '
        'its "end"',
    )]  # fmt: skip
    optimism: Annotated[float, option(
        0.01, "value of a state observed only where a time limit cut an episode, as a share of the largest of these "
        "rewards in the group (of 1 if all are 0)", low=0,
    )]  # fmt: skip
    share: Annotated[
        float, option(0.1, "weight of credit that is not a comparison of observed rewards out of one state", low=0)
    ]
    alpha_step: Annotated[float, option(1.0, "weight of the step level")]
    alpha_episode: Annotated[float, option(1.0, "weight of the episode level")]


#: There is no paper, so one preset.
PRESETS: dict[str, FrontierOptions] = presets(FrontierOptions, default={})


class FrontierValues(NamedTuple):
    """Values of states and actions before any comparison.

    graph: V nodes (states), N rows (steps as edges). value: float64 (V,), 0 at the end of an episode. worth: float64
    (N,), Q.
    """

    graph: StateGraph
    value: Floats
    worth: Floats


@credit(FrontierOptions, **PRESETS)
@over_forks()
def frontier(table: StepTable, *, preset: str = "default", **options: Unpack[FrontierOptions]) -> Floats:
    """Return the advantage of every step; time and memory as `attribution`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> frontier(table).round(3)  # from "s", right is worth .9 and left 0; "up" gained 1 / .9 - 1 and is not compared
    array([ 1.414,  0.728, -1.414])
    """
    steps = _step_level(table, options)
    episodes = episode_advantages(table, episode_scores(table, options), options)
    advantages = options["alpha_step"] * steps + options["alpha_episode"] * episodes
    return advantages - penalties(table, options, "advantage")


@options_of(frontier)
def frontier_values(table: StepTable, *, preset: str = "default", **options: Unpack[FrontierOptions]) -> FrontierValues:
    """Return values before any comparison; arguments as `frontier`."""
    refuse_forks(table, "values need whole episodes, as in table.unfolded()[0]")
    return _values(table, options, options["optimism"])


def _step_level(table: StepTable, options: FrontierOptions) -> Floats:
    hoped, seen = _values(table, options, options["optimism"]), _values(table, options, 0.0)
    graph, lost = seen.graph, penalties(table, options, "row")
    compared = visit_advantages(hoped.worth - lost, graph.source, graph.n_nodes, options)
    # If rewards separate some steps of a state, optimism orders the others; without rewards its weight is `share`.
    differ = visit_advantages(seen.worth - lost, graph.source, graph.n_nodes, options) != 0
    rewarded = np.bincount(graph.source, weights=differ, minlength=graph.n_nodes) > 0
    compared = np.where(rewarded[graph.source], compared, options["share"] * compared)
    gained = _scaled(difference(seen.worth / options["gamma"], seen.value[graph.source]), table, options)
    contributed = visit_advantages(contributions(table, options["outcome"]), table.group, table.n_groups, options)
    return filled(compared, filled(gained, contributed, 1.0), options["share"])


def _scaled(values: Floats, table: StepTable, options: FrontierOptions) -> Floats:
    refuse_mean(options["std"])
    if options["std"] == "none":
        return values
    squares = group_means(values**2, table.group, table.n_groups)
    if options["std"] == "batch":
        squares = np.full(table.n_groups, (values**2).mean() if len(values) else 0.0)
    scale: Floats = np.sqrt(squares)[table.group]
    return np.divide(values, scale + options["eps"], out=np.zeros(len(values)), where=scale > LEAST_SCALE)


def _values(table: StepTable, options: FrontierOptions, optimism: float) -> FrontierValues:
    gamma, graph = options["gamma"], StateGraph.from_table(table)
    reward = checked_rewards(table.reward)
    if options["rewards"] == "end":
        reward = at_end(table, outcomes(table, options))
    reward = reward - penalties(table, options, "discounted")
    largest = largest_of(np.abs(reward), table.group, graph.n_groups)
    # Actions are numbered state by state: those of a state lie together.
    action, n_actions = actions_of_states(graph)
    state = np.empty(n_actions, np.int64)
    state[action] = graph.source
    begins = np.flatnonzero(np.diff(state, prepend=-1))
    leads_on = np.ones(len(table), np.bool_)
    leads_on[table.last] = table.truncated[table.last] & ~table.trajectory_won
    value = np.zeros(graph.n_nodes)
    reached = graph.target[leads_on]
    value[reached] = optimism * np.where(largest > 0, largest, 1.0)[graph.node_group[reached]]
    value[state] = 0.0
    mean = group_means(reward, action, n_actions)
    share = gamma / np.bincount(action, minlength=n_actions)[action[leads_on]]
    size = (n_actions, graph.n_nodes)
    onward: Any = csr_array((share, (action[leads_on], reached)), shape=size)  # adds equal edges up
    worth = np.zeros(n_actions)
    for _ in range(math.ceil(math.log(_ERROR) / math.log(gamma)) if n_actions else 0):
        before, worth = worth, mean + onward @ value
        value[state[begins]] = np.maximum.reduceat(worth, begins)
        # The remaining error is at most gamma / (1 - gamma) times the last change.
        if gamma * np.abs(worth - before).max() <= (1.0 - gamma) * _ERROR * np.abs(worth).max():
            break
    return FrontierValues(graph, value, worth[action])


class Frontier(CreditWrapper, method=frontier): ...


METHOD = Method(
    frontier,
    "Group advantages, plus the best continuation seen, optimistic at time limits; gains or attribution if that is 0.",
    options={"preset": "default", **PENALTY}, space={"gamma": (0.9, 0.95)}, contender="frontier", colour="#222222",
    ours=True,
)  # fmt: skip
