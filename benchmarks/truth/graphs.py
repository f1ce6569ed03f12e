"""What a player's episodes give credit to work with: state graphs of groups, and what can be compared in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.group import number_pairs
from wrappers.credit.state_graph import StateGraph

#: What `graph_sums` counts: each a ratio, in words.
GRAPHS = {
    "states": "states of a group's graph per step",
    "edges": "edges (state, action, next state) per step",
    "branching": "different actions taken per state",
    "shared": "share of steps in a state that several episodes of the group visited",
    "singletons": "share of steps in a state that the group visited only this once",
    "ties": "of pairs of actions taken in one state, of which one at least can lead to success in the graph, the share "
    "that lead to the same distance",
    "reached": "share of states from which the graph has a way to success",
    "goals": "different success states per group that succeeded",
    "mixed": "share of groups with both won and lost episodes",
}


@dataclass(frozen=True)
class Diagnosis:
    """What groups of `size` episodes have to compare, see `GRAPHS`; `ties` is None where there is no such pair."""

    size: int
    shared: float
    singletons: float
    ties: float | None
    mixed: float


def diagnose(table: StepTable, size: int) -> Diagnosis:
    """Count what can be compared in groups of a size.

    >>> table = StepTable.from_arrays(group=["g"] * 5, trajectory=["a", "a", "b", "c", "c"], t=[0, 1, 0, 0, 1],
    ...     state=["s", "u", "s", "s", "v"], action=["up", "up", "up", "left", "up"],
    ...     next_state=["u", "goal", "pit", "v", "goal"], reward=[0, 1, 0, 0, 1], won=[1, 1, 0, 1, 1])
    >>> diagnose(table, 3)  # from s, up leads nearest to 1 step from the goal, and so does left
    Diagnosis(size=3, shared=0.6, singletons=0.4, ties=1.0, mixed=1.0)
    """
    found = {name: sums.sum(axis=0) for name, sums in graph_sums(table).items()}
    share = {name: float(part / whole) if whole else None for name, (part, whole) in found.items()}
    return Diagnosis(size, share["shared"] or 0.0, share["singletons"] or 0.0, share["ties"], share["mixed"] or 0.0)


def graph_sums(table: StepTable) -> dict[str, Floats]:
    """Return what `GRAPHS` names as float64 (n_groups, 2): per group the parts and the wholes of each ratio.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> found = graph_sums(table)
    >>> found["states"].tolist(), found["reached"].tolist(), found["branching"].tolist()
    ([[4.0, 3.0]], [[3.0, 4.0]], [[3.0, 2.0]])
    """
    groups, n = table.group, table.n_groups
    graph = StateGraph.from_table(table)
    distance = graph.hop_distance()
    states, example = number_pairs(groups, n, table.state, len(table.states))
    _, visit = number_pairs(states, len(example), table.trajectory, table.n_trajectories)
    visitors = np.bincount(states[visit], minlength=len(example))
    alone = np.bincount(states, minlength=len(example)) == 1
    choices, choice = number_pairs(states, len(example), table.action, len(table.actions))
    nearest = np.full(len(choice), np.inf)
    np.minimum.at(nearest, choices, distance[graph.target])

    def per_group(of: Ints, weights: np.ndarray | None = None) -> Floats:
        return np.bincount(of, weights=weights, minlength=n).astype(np.float64)

    steps, nodes, at = per_group(groups), per_group(graph.node_group), groups[example]
    won = per_group(table.trajectory_group, table.trajectory_won)
    goals = per_group(graph.node_group, graph.success)
    tied, pairs = _ties(states[choice], nearest, len(example), len(table))
    ratios = {
        "states": (nodes, steps),
        "edges": (per_group(groups[graph.edges[1]]), steps),
        "branching": (per_group(groups[choice]), per_group(at)),
        "shared": (per_group(groups, visitors[states] > 1), steps),
        "singletons": (per_group(groups, alone[states]), steps),
        "ties": (per_group(at, tied), per_group(at, pairs)),
        "reached": (per_group(graph.node_group, np.isfinite(distance)), nodes),
        "goals": (goals, (goals > 0).astype(np.float64)),
        "mixed": (((won > 0) & (won < per_group(table.trajectory_group))).astype(np.float64), np.ones(n)),
    }
    return {name: np.stack(ratio, axis=1) for name, ratio in ratios.items()}


def _ties(state: Ints, nearest: Floats, n_states: int, longest: int) -> tuple[Ints, Ints]:
    """Pairs of actions per state with equally short ways to success, and all pairs of which one has a way at all."""
    lost = np.isinf(nearest)
    pairs = _pairs(np.bincount(state, minlength=n_states)) - _pairs(np.bincount(state[lost], minlength=n_states))
    same, example = number_pairs(state[~lost], n_states, nearest[~lost].astype(np.int64), 1 + longest)
    tied = np.bincount(state[~lost][example], weights=_pairs(np.bincount(same)), minlength=n_states)
    return tied.astype(np.int64), pairs


def _pairs(counts: Ints) -> Ints:
    return np.asarray(counts * (counts - 1) // 2, np.int64)


def aliased(labelled: StepTable, own: StepTable) -> Bools:
    """Return bool (N,): the row's state stands, in its group, for different states of the other table.

    >>> import dataclasses
    >>> own = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "v"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> aliased(dataclasses.replace(own, state=np.array([0, 1, 0])), own)
    array([ True, False,  True])
    """
    label, example = number_pairs(labelled.group, labelled.n_groups, labelled.state, len(labelled.states))
    _, pair = number_pairs(label, len(example), own.state, len(own.states))
    several = np.bincount(label[pair], minlength=len(example)) > 1
    return np.asarray(several[label], np.bool_)
