"""MileGPO: distances in the state graph plus, where they tie, credit for approaching milestones and leaving traps.

Milestones: states of won episodes. Traps: states of only lost episodes that several episodes visited or one revisited.
Each has a score S in 0..1 from outcomes, graph, and whether steps into it progressed and beat their siblings.

Phi(s) = max_v S(v) omega^d(s, v)                                           over milestones (+), over traps (-)
delta  = max(w Phi(s') - w Phi(s), 0)                                       w = 1 (+), w_trap (-)
r^G    = success_value gamma^d(s')        r^M = r^G + success_value lam (delta+ - delta-)
A_t    = alpha_step [A^G + eta (A^M - A^G)] + alpha_episode A^E             A^G, A^M: compared at the state

Source: the MileGPO paper (Eqs. 1-22, appendix A.5; no public code); see docs/credit.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple, Unpack

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.evidence import GRAPH, graph_steps
from wrappers.credit.forks import first_copies, refuse_forks
from wrappers.credit.group import group_means, largest_of, number_pairs, visit_advantages
from wrappers.credit.method import PENALTY, STEP, Credit, Method
from wrappers.credit.options import StatisticsOptions, credit, option, options_of, presets
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.state_graph import StateGraph, discounted
from wrappers.credit.wrapper import CreditWrapper


class MileGPOOptions(StatisticsOptions, total=False):
    """Options of `milegpo`."""

    gamma: Annotated[float, option(0.2, "share of the value kept per step of distance to success", above=0, high=1)]
    omega: Annotated[
        float, option(0.2, "share of the score kept per step of distance to a milestone or trap", above=0, high=0.99)
    ]
    success_value: Annotated[float, option(10.0, "value at success, the scale of both rewards")]
    lam: Annotated[float, option(0.25, "weight of milestones and traps in the step reward", low=0)]
    eta: Annotated[float, option(0.2, "weight of the change of the advantage by milestones and traps", low=0)]
    w_degree: Annotated[float, option(0.25, "weight of a milestone's connections in its score", low=0)]
    w_revisit: Annotated[float, option(0.25, "weight of revisits in a trap's score", low=0)]
    w_trap: Annotated[float, option(0.25, "weight of traps against milestones", low=0)]
    trap_score: Annotated[float, option(0.1, "least score of a trap", low=0)]
    trap_failures: Annotated[int, option(
        2, "number of lost episodes that make a visited state a trap, unless one of them revisited it", low=1,
    )]  # fmt: skip
    coverage: Annotated[
        float, option(1.1, "share of won episodes that keeps a milestone without other support; above 1: never", low=0)
    ]
    branches: Annotated[bool, option(False, "a step that beats its siblings keeps a milestone too, not progress alone")]
    rho: Annotated[float, option(0.0, "factor of the score of a milestone without support", low=0, high=1)]
    alpha_step: Annotated[float, option(1.0, "weight of the step level")]
    alpha_episode: Annotated[float, option(1.0, "weight of the episode level")]


PRESETS: dict[str, MileGPOOptions] = presets(
    MileGPOOptions,
    paper={"outcome": "won"},
    webshop={"outcome": "won", "coverage": 0.5, "rho": 0.5, "eta": 1.0, "branches": True, "std": "none"},
)


class Milestones(NamedTuple):
    """Milestones and traps of the state graphs, V nodes, and K distinct pairs of state and next state.

    milestone, trap: float64 (V,), scores, 0..1, 0 for none. near_milestones, near_traps: float64 (V,), Phi of both.
    branch: float64 (K,), advantage of a pair over its siblings, -1..1. pair: int64 (N,), the pair of each row.
    """

    graph: StateGraph
    milestone: Floats
    trap: Floats
    near_milestones: Floats
    near_traps: Floats
    branch: Floats
    pair: Ints


@credit(MileGPOOptions, **PRESETS)
def milegpo(table: StepTable, *, preset: str = "paper", **options: Unpack[MileGPOOptions]) -> Floats:
    """Return the advantage of every step. A group without success has step credit only if a state was revisited.

    Args:
        preset: "paper" (as for ALFWorld) or "webshop".

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> milegpo(table).round(3)
    array([ 1.414,  0.707, -1.414])
    """
    # The visitors' outcomes need whole episodes; a step that several episodes share counts once at its state.
    whole, source = table.unfolded()
    found, rows = milestones(whole, **options), first_copies(source, len(table))
    graph, scale = found.graph, options["success_value"]
    before, after = graph.source[rows], graph.target[rows]
    distance = graph.hop_distance()
    value = scale * discounted(distance, options["gamma"])
    reward = value[after] - penalties(table, options, "row")
    nearer = _rise(found.near_milestones, before, after) - options["w_trap"] * _rise(found.near_traps, before, after)
    compared = visit_advantages(reward, before, graph.n_nodes, options)
    shaped = visit_advantages(reward + scale * options["lam"] * nearer, before, graph.n_nodes, options)
    steps = compared + options["eta"] * (shaped - compared)
    episodes = episode_level(table, options)
    total = options["alpha_step"] * steps + options["alpha_episode"] * episodes
    return total - penalties(table, options, "advantage")


@options_of(milegpo)
def milestones(table: StepTable, *, preset: str = "paper", **options: Unpack[MileGPOOptions]) -> Milestones:
    """Return milestones, traps and branches; arguments as `milegpo`."""
    refuse_forks(table, "outcomes of visitors need whole episodes, as in table.unfolded()[0]")
    graph = StateGraph.from_table(table)
    group, n_groups, n_nodes = graph.node_group, graph.n_groups, graph.n_nodes
    won = table.trajectory_won.astype(np.float64)
    rate = group_means(won, table.trajectory_group, n_groups)
    n_won = np.bincount(table.trajectory_group, weights=won, minlength=n_groups)
    n_lost = np.bincount(table.trajectory_group, minlength=n_groups) - n_won
    # Visits: the states that steps began in, and the last ones.
    node = np.concatenate((graph.source, graph.target[table.last]))
    visitor = np.concatenate((table.trajectory, table.trajectory[table.last]))
    first = number_pairs(node, n_nodes, visitor, table.n_trajectories)[1]
    visitors = np.bincount(node[first], minlength=n_nodes)
    winners = np.bincount(node[first], weights=won[visitor[first]], minlength=n_nodes)
    losers = visitors - winners
    revisits = np.bincount(node, minlength=n_nodes) - visitors
    own_rate = winners / np.maximum(visitors, 1)
    above = own_rate - rate[group]
    pair, example = number_pairs(graph.source, n_nodes, graph.target, n_nodes)
    source, target = graph.source[example], graph.target[example]
    branch, lost_more, alone = _siblings(table, pair, source, n_nodes)
    # Milestones: how much more often their visitors win, how many winners visit them, how connected they are.
    candidate = (winners > 0) & ~graph.success
    covered = winners / np.maximum(n_won[group], 1)
    degree = np.bincount(source, minlength=n_nodes) + np.bincount(target, minlength=n_nodes)
    connected = _shares(np.where(candidate, degree, 0.0), group, n_groups)
    score = np.where(candidate, np.maximum(above, 0) + covered + options["w_degree"] * connected, 0.0)
    # Local evidence, of the pairs that lead to a state.
    distance = graph.hop_distance()
    with np.errstate(invalid="ignore"):
        closer = distance[source] - distance[target]
    closer = np.where(np.isfinite(closer), closer, 0.0)
    failing = np.where(alone, np.maximum(-above[target], 0.0), np.maximum(lost_more, 0.0))
    progress = closer + above[target] - failing
    won_pair = np.zeros(len(example), np.bool_)
    won_pair[pair[table.won]] = True
    progressed = _shares(largest_of(np.where(won_pair, progress, 0.0), target, n_nodes), group, n_groups)
    margin = largest_of(np.abs(branch), group[source], n_groups)
    branch = branch / np.where(margin > 0, margin, 1.0)[group[source]]
    beaten = largest_of(branch, target, n_nodes)
    kept = (progressed > 0) | (covered >= options["coverage"])
    if options["branches"]:
        kept |= beaten > 0
    score = np.where(kept, score * (1.0 + beaten + progressed), options["rho"] * score)
    milestone = _shares(score, group, n_groups)
    # Traps: states of only lost episodes that several episodes visited or one revisited.
    trap = np.maximum(-above, 0.0) + options["w_revisit"] * (losers / np.maximum(n_lost[group], 1)) * (
        revisits / np.maximum(visitors, 1)
    )
    caught = (winners == 0) & ((losers >= options["trap_failures"]) | (revisits > 0)) & (trap >= options["trap_score"])
    trap = _shares(np.where(caught, trap, 0.0), group, n_groups)
    omega = options["omega"]
    return Milestones(
        graph, milestone, trap, _nearness(graph, milestone, omega), _nearness(graph, trap, omega), branch, pair
    )


def _siblings(table: StepTable, pair: Ints, source: Ints, n_nodes: int) -> tuple[Floats, Floats, Bools]:
    first = number_pairs(pair, len(source), table.trajectory, table.n_trajectories)[1]
    rate = group_means(table.won[first].astype(np.float64), pair[first], len(source))
    count = np.bincount(source, minlength=n_nodes)[source]
    total = np.bincount(source, weights=rate, minlength=n_nodes)[source]
    others = (total - rate) / np.maximum(count - 1, 1)
    better = np.where(count > 1, rate - others, 0.0)
    return better, -better, count == 1


def _shares(values: Floats, group: Ints, n_groups: int) -> Floats:
    largest = largest_of(values, group, n_groups)
    return values / np.where(largest > 0, largest, 1.0)[group]


def _nearness(graph: StateGraph, score: Floats, omega: float) -> Floats:
    """float64 (V,): the largest of score(v) omega^d(s, v) over the nodes v, found as a least distance."""
    n, targets = graph.n_nodes, np.flatnonzero(score > 0)
    # score omega^d = omega^(d + log score / log omega): an extra node leads to every target, at that length and 1 more,
    # as a length of 0 would be no edge.
    ahead = 1.0 + np.log(score[targets]) / np.log(omega)
    pairs = number_pairs(graph.target, n, graph.source, n)[1]
    ends = (  # int32: scipy 1.14 searches no matrix whose indices are longer
        np.concatenate((graph.target[pairs], np.full(len(targets), n))).astype(np.int32),
        np.concatenate((graph.source[pairs], targets)).astype(np.int32),
    )
    against: Any = csr_array((np.concatenate((np.ones(len(pairs)), ahead)), ends), shape=(n + 1, n + 1))
    length = dijkstra(against, indices=np.array([n]), min_only=True)[:n] - 1.0
    near = np.isfinite(length)
    return np.where(near, omega ** np.where(near, length, 0.0), 0.0)


def _rise(worth: Floats, before: Ints, after: Ints) -> Floats:
    return np.maximum(worth[after] - worth[before], 0.0)


class MileGPO(CreditWrapper, method=milegpo): ...


def branches(table: StepTable) -> Floats:
    """Return the contrast of branches: the win share of the trajectories that took a step minus its siblings' mean."""
    found = milestones(table)
    return found.branch[found.pair]


def graph_and_branches(table: StepTable) -> Floats:
    """Return `graph_steps` plus 0.3 times the contrast of branches."""
    return graph_steps(table) + 0.3 * branches(table)


_step_level = functools.partial(milegpo, gamma=0.8, omega=0.8, alpha_episode=0.0)
METHOD = Method(
    milegpo, "Distance to success plus, where it ties, a reward for approaching states of wins and leaving traps.",
    options={"gamma": 0.8, "omega": 0.8, **PENALTY},
    credits=(
        Credit("milegpo", STEP, "", _step_level, recent=True),
        Credit("milegpo", STEP, "webshop", functools.partial(_step_level, preset="webshop"), recent=True),
        Credit("branches", STEP, "", branches, recent=True),
        Credit(GRAPH, STEP, "with branches", graph_and_branches, recent=True),
    ),
)  # fmt: skip
