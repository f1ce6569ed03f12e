"""The potential family: state values estimated from the group's own episodes, and each step's gain in value.

    A_t = alpha_step gate_t C_t + alpha_return B_t + alpha_episode A^E

C_t: gain of step t (or worth of its action in its state), compared; B_t: returns compared at a state; A^E: of episodes.
The presets, six methods of 2026, differ in three choices:

* the value estimate: mean return of visits, Bellman's fixed point on observed steps, or distance to success;
* the comparison: with other steps out of the state, or all steps of the task;
* the gate: everywhere, rarely solved tasks, states whose actions differ beyond chance, states left in several ways.

Formulas and sources: docs/credit/potential.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Unpack

import numpy as np
from scipy.sparse import csr_array

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.forks import along, at_end, over_forks, refuse_forks
from wrappers.credit.group import (
    TOLERANCE,
    episode_advantages,
    group_means,
    largest_of,
    number_pairs,
    refuse_mean,
    visit_advantages,
)
from wrappers.credit.method import PENALTY, STEP, TOTAL, Credit, Method
from wrappers.credit.options import OutcomeOptions, StatisticsOptions, credit, option, options_of, presets
from wrappers.credit.returns import checked_rewards, discounted_returns, episode_scores, outcomes, penalties
from wrappers.credit.state_graph import StateGraph
from wrappers.credit.wrapper import CreditWrapper

#: Relative precision of a fixed point; the closer gamma is to 1, the more iterations.
_ERROR = 1e-13
_NEAREST_TO_1 = 0.999


class ValueOptions(OutcomeOptions, total=False):
    """Estimation of state values."""

    value: Annotated[Literal["mc", "bellman", "distance"], option(
        "mc", 'estimate of V(s): "mc", the mean discounted return of its visits; "bellman", the fixed point of V(s) = '
        'mean of r + gamma V(s\') over the steps out of s; or "distance", gamma^(d - 1), d the fewest observed steps '
        "to success, 0 without a path. The last two estimate a truncated episode's last state, the first counts it as "
        "0",
    )]  # fmt: skip
    gamma: Annotated[float, option(0.95, 'discount of the values, above 0; at most .999 for "bellman"', low=0, high=1)]
    rewards: Annotated[Literal["end", "steps"], option(
        "end", 'rewards that make the returns: the outcome of the episode at its "end", or those of its "steps"; '
        '"distance" uses success alone',
    )]  # fmt: skip
    reward_on: Annotated[Literal["step", "state"], option(
        "step", 'an episode\'s final reward is that of its last "step", or the value of the "state" it ends in, 0 for '
        "a lost episode (values are then discounted by one more step)",
    )]  # fmt: skip
    visits: Annotated[Literal["every", "first"], option(
        "every", 'visits that enter means: "every", or a trajectory\'s "first" per state and action',
    )]  # fmt: skip
    discounted: Annotated[bool, option(False, "the gain is r + gamma V(s') - V(s), not r + V(s') - V(s)")]
    prior: Annotated[float, option(0.0, "number of visits with the group's mean outcome mixed into every V", low=0)]


class StateValues(NamedTuple):
    """Values of states and steps before any comparison; V nodes, N rows.

    graph: states as nodes, steps as edges. value: float64 (V,), 0 in states without actions. earned: float64 (N,),
    reward of each step. worth: float64 (N,), its return, or reward + gamma V(s'). after, before: float64 (N,), the ends
    of its gain, r + V(s') and V(s). counted: bool (N,), visits that enter means.
    """

    graph: StateGraph
    value: Floats
    earned: Floats
    worth: Floats
    after: Floats
    before: Floats
    counted: Bools


def state_values(table: StepTable, options: ValueOptions) -> StateValues:
    """Estimate the values of all states, per group; needs all `ValueOptions`.

    Raises:
        ValueError: gamma is 0, or close to 1 with a fixed point, or options exclude each other.
    """
    gamma, kind, on_state = options["gamma"], options["value"], options["reward_on"] == "state"
    if gamma == 0 or (kind == "bellman" and gamma > _NEAREST_TO_1):
        raise ValueError(f"gamma must be above 0, and at most {_NEAREST_TO_1} for value='bellman', got {gamma}")
    if on_state and options["rewards"] == "steps":
        raise ValueError("reward_on='state' needs rewards='end': rewards before the end belong to steps, not to states")
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
        # One more step of discount; the last step of a won episode leads to its reward.
        value, worth = gamma * value, gamma * worth
        behind = np.where(leads_on, gamma * behind, np.where(table.won, earned, 0.0))
        reward = -penalties(table, options, "discounted")
    after = reward + (gamma if options["discounted"] else 1.0) * behind
    return StateValues(graph, value, earned, worth, after, value[graph.source], counted)


def actions_of_states(graph: StateGraph) -> tuple[Ints, int]:
    """Number the actions taken in each state: int64 (N,), and their number."""
    ids, example = number_pairs(graph.source, graph.n_nodes, graph.action, max(graph.n_actions, 1))
    return ids, len(example)


def difference(after: Floats, before: Floats) -> Floats:
    """Return after - before, exactly 0 where they differ only by rounding.

    >>> difference(np.array([0.1 + 0.2, 0.5]), np.array([0.3, 0.25]))
    array([0.  , 0.25])
    """
    gain = after - before
    return np.where(np.abs(gain) <= TOLERANCE * np.maximum(np.abs(after), np.abs(before)), 0.0, gain)


def _earned(table: StepTable, options: ValueOptions) -> Floats:
    lost = penalties(table, options, "discounted")
    if options["value"] != "distance" and options["rewards"] == "steps":
        return checked_rewards(table.reward) - lost
    return at_end(table, table.trajectory_won if options["value"] == "distance" else outcomes(table, options)) - lost


def _first_visits(table: StepTable, graph: StateGraph) -> Bools:
    """Bool (N,): the trajectory's first step with this action in this state."""
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
        # The remaining error is at most gamma / (1 - gamma) times the last change.
        if gamma * np.abs(value - before).max(initial=0.0) <= (1.0 - gamma) * _ERROR * np.abs(value).max(initial=0.0):
            break
    return value


class PotentialOptions(StatisticsOptions, ValueOptions, total=False):
    """Options of `potential`; std, ddof and eps apply to all levels."""

    measure: Annotated[Literal["gain", "action"], option(
        "gain", 'compared quantity: the "gain" r + V(s\') - V(s), or Q - V of the "action" in its state',
    )]  # fmt: skip
    lam: Annotated[float, option(0.0, "weight of the later gains of the trajectory", low=0, high=1)]
    kappa: Annotated[float, option(0.0, "number of visits with the state's mean mixed into every action's mean", low=0)]
    contrast: Annotated[Literal["state", "task", "both", "none"], option(
        "state", 'a step is compared with: the steps out of its "state", those of its "task", the sum of "both", or '
        '"none": not centred, divided by the deviation over the task',
    )]  # fmt: skip
    gate: Annotated[Literal["none", "success", "variance", "successors"], option(
        "none", 'weight of step credit: 1; "success", (1 - share of won episodes)^gate_power; "variance", tanh(n / '
        "tau) B / (B + W + eps) at a state of n visits, B and W the variances of the steps' worth between and within "
        'actions; or "successors", 1 in states left to several states, else 0',
    )]  # fmt: skip
    gate_power: Annotated[float, option(2.0, 'exponent of the gate "success"', low=0)]
    tau: Annotated[float, option(4.0, 'number of visits that opens the gate "variance"', low=1e-6)]
    alpha_step: Annotated[float, option(1.0, "weight of the step level")]
    alpha_return: Annotated[float, option(0.0, "weight of returns compared at a state")]
    alpha_episode: Annotated[float, option(1.0, "weight of the episode level")]
    episode: Annotated[Literal["everywhere", "elsewhere"], option(
        "everywhere", 'weight of the episode level: 1 "everywhere", or "elsewhere", 1 - gate',
    )]  # fmt: skip


_PAPER: PotentialOptions = {"outcome": "won"}
_BASE = presets(PotentialOptions, paper=_PAPER)["paper"]
PRESETS: dict[str, PotentialOptions] = {
    "g2po": {**_BASE, "reward_on": "state", "contrast": "both"},
    "g2po_authors": {
        **_BASE, "reward_on": "state", "contrast": "both", "outcome": "return", "over": "steps", "singleton": "raw",
        "std": "none", "invalid_penalty": 0.1,
    },
    "pgpo": {**_BASE, "gate": "success", "alpha_return": 1.0, "alpha_episode": 0.0},
    "gated_bepo": {
        **_BASE, "value": "bellman", "discounted": True, "lam": 0.95, "contrast": "none", "gate": "successors",
        "episode": "elsewhere",
    },
    "gagpo": {**_BASE, "discounted": True, "lam": 0.95, "contrast": "task", "alpha_episode": 0.0},
    "ecpo": {**_BASE, "measure": "action", "kappa": 2.0, "gate": "variance"},
    "rtmc": {
        **_BASE, "gamma": 0.99, "visits": "first", "measure": "action", "prior": 2.0, "contrast": "none", "ddof": 0,
        "alpha_episode": 0.0,
    },
}  # fmt: skip


@credit(PotentialOptions, **PRESETS)
@over_forks()
def potential(table: StepTable, *, preset: str = "g2po", **options: Unpack[PotentialOptions]) -> Floats:
    """Return the advantage of every step.

    Args:
        preset: a method: "g2po" ("g2po_authors"), "pgpo", "gated_bepo", "gagpo", "ecpo" or "rtmc".

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> potential(table, preset="pgpo").round(3)  # half of its episodes are won: (1 - 1/2)^2 of the gains count
    array([ 0.884,  0.   , -0.884])
    """
    found = state_values(table, options)
    gate = _gate(table, found, options)
    total = options["alpha_step"] * gate * _step_level(table, found, options)
    if options["alpha_return"]:
        returns = discounted_returns(table, options["gamma"], found.earned) - penalties(table, options, "row")
        compared = visit_advantages(returns, found.graph.source, found.graph.n_nodes, options)
        total = total + options["alpha_return"] * compared
    episodes = episode_advantages(table, episode_scores(table, options), options)
    if options["episode"] == "elsewhere":
        episodes = (1.0 - gate) * episodes
    return total + options["alpha_episode"] * episodes - penalties(table, options, "advantage")


@options_of(potential)
def potential_values(table: StepTable, *, preset: str = "g2po", **options: Unpack[PotentialOptions]) -> StateValues:
    """Return values and gains before any comparison; arguments as `potential`."""
    refuse_forks(table, "values need whole episodes, as in table.unfolded()[0]")
    return state_values(table, options)


def _step_level(table: StepTable, found: StateValues, options: PotentialOptions) -> Floats:
    graph, contrast = found.graph, options["contrast"]
    lost = penalties(table, options, "row")
    # V(s) is equal for all steps out of a state, so it cancels; without it its rounding does not matter.
    if options["measure"] == "action":
        here = _action_values(found, options["kappa"])
        gain = difference(here, found.before)
    elif options["lam"]:
        here = gain = along(table, difference(found.after, found.before), options["gamma"] * options["lam"])
    else:
        here = found.after
        gain = difference(here, found.before)
    if contrast == "none":
        return _scaled(gain - lost, table, options)
    result = np.zeros(len(table))
    if contrast != "task":
        result += visit_advantages(here - lost, graph.source, graph.n_nodes, options)
    if contrast != "state":
        # The code that compares with both subtracts the penalty only from the first comparison.
        values = gain if contrast == "both" else gain - lost
        result += visit_advantages(values, table.group, table.n_groups, options)
    return result


def _scaled(values: Floats, table: StepTable, options: PotentialOptions) -> Floats:
    refuse_mean(options["std"])
    if options["std"] == "none":
        return values
    group, n = table.group, table.n_groups
    squares = (values - group_means(values, group, n)[group]) ** 2
    if options["std"] == "group":
        count = np.bincount(group, minlength=n)
        variance = np.bincount(group, weights=squares, minlength=n) / np.maximum(count - options["ddof"], 1)
    else:
        variance = np.full(n, squares.sum() / max(len(values) - options["ddof"], 1))
    deviation = np.sqrt(variance)
    flat = deviation <= TOLERANCE * largest_of(np.abs(values), group, n)
    return np.where(flat[group], 0.0, values / np.where(flat, 1.0, deviation + options["eps"])[group])


def _action_values(found: StateValues, kappa: float) -> Floats:
    """Float64 (N,): Q of every row's action in its state, mixed with `kappa` visits of the state's mean."""
    rows, worth = found.counted, found.worth[found.counted]
    action, n_actions = actions_of_states(found.graph)
    n = np.bincount(action[rows], minlength=n_actions)[action]
    own = group_means(worth, action[rows], n_actions)[action]
    state = group_means(worth, found.graph.source[rows], found.graph.n_nodes)[found.graph.source]
    mixed: Floats = (n * own + kappa * state) / (n + kappa)
    return mixed


def _gate(table: StepTable, found: StateValues, options: PotentialOptions) -> Floats:
    graph, kind = found.graph, options["gate"]
    if kind == "success":
        won = group_means(table.trajectory_won.astype(np.float64), table.trajectory_group, table.n_groups)
        failed: Floats = 1.0 - won[table.group]
        return failed ** options["gate_power"]
    if kind == "successors":
        edges = number_pairs(graph.source, graph.n_nodes, graph.target, graph.n_nodes)[1]
        ways = np.bincount(graph.source[edges], minlength=graph.n_nodes)
        return (ways[graph.source] > 1).astype(np.float64)
    if kind == "variance":
        return _variance_gate(found, options)
    return np.ones(len(table))


def _variance_gate(found: StateValues, options: PotentialOptions) -> Floats:
    """float64 (N,): tanh(n / tau) B / (B + W + eps) of each row's state, population variances over its visits."""
    source, n_nodes = found.graph.source, found.graph.n_nodes
    action, n_actions = actions_of_states(found.graph)
    own = group_means(found.worth, action, n_actions)[action]
    state = group_means(found.worth, source, n_nodes)[source]
    between = group_means(difference(own, state) ** 2, source, n_nodes)
    within = group_means(difference(found.worth, own) ** 2, source, n_nodes)
    share = np.divide(between, between + within + options["eps"], out=np.zeros(n_nodes), where=between > 0)
    opened: Floats = (np.tanh(np.bincount(source, minlength=n_nodes) / options["tau"]) * share)[source]
    return opened


class Potential(CreditWrapper, method=potential): ...


def _step_credit(preset: str, **options: Any) -> Callable[[StepTable], Floats]:
    return functools.partial(potential, preset=preset, alpha_episode=0.0, **options)


METHODS = (
    Method(
        potential, "Group advantages, plus the gain in mean discounted outcome, compared in state and task.",
        name="g2po", options={"preset": "g2po", **PENALTY},
        credits=(
            Credit("g2po", STEP, "", _step_credit("g2po"), recent=True),
            Credit("g2po", STEP, "authors", _step_credit("g2po_authors"), recent=True),
        ),
    ),
    Method(
        potential,
        "Returns compared in the state plus, in tasks that are rarely won, the gain in mean discounted outcome.",
        name="pgpo", options={"preset": "pgpo", **PENALTY},
        credits=(
            Credit("pgpo", STEP, "", _step_credit("pgpo", alpha_return=0.0, gate="none"), recent=True),
            Credit("pgpo", TOTAL, "", functools.partial(potential, preset="pgpo"), recent=True),
        ),
    ),
    Method(
        potential, "Sums of later gains in Bellman values, if a state was left in several ways; else by episode.",
        name="gated_bepo", options={"preset": "gated_bepo", **PENALTY}, space={"gamma": (0.9, 0.95)},
        contender="gated_bepo:lam=0.0:gate=none", colour="#661100",
        credits=(
            # Only the fixed point: one step ahead, in every state.
            Credit("bellman", STEP, "", _step_credit("gated_bepo", lam=0.0, gate="none"), recent=True),
            Credit("gated_bepo", STEP, "", _step_credit("gated_bepo"), recent=True),
        ),
    ),
    Method(
        potential, "Sums of later gains in mean discounted outcome, compared over the task.", name="gagpo",
        options={"preset": "gagpo", **PENALTY},
        credits=(
            Credit("gagpo", STEP, "", _step_credit("gagpo"), recent=True),
            Credit("gagpo", STEP, "lambda 0", _step_credit("gagpo", lam=0.0), recent=True),
        ),
    ),
    Method(
        potential,
        "Group advantages, plus the value of an action in its state, of little weight for few or scattered returns.",
        name="ecpo", options={"preset": "ecpo", **PENALTY},
        credits=(Credit("ecpo", STEP, "", _step_credit("ecpo"), recent=True),),
    ),
    Method(
        potential, "The value of an action minus that of its state, both from first visits.", name="rtmc",
        options={"preset": "rtmc", **PENALTY}, credits=(Credit("rtmc", STEP, "", _step_credit("rtmc"), recent=True),),
    ),
)  # fmt: skip
