"""What groups of a player's episodes can compare."""

from dataclasses import dataclass

import numpy as np

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.group import number_pairs
from wrappers.credit.state_graph import StateGraph


@dataclass(frozen=True)
class Diagnosis:
    """What groups of `size` episodes have to compare.

    `shared`: share of steps in a state that several episodes of the group visited; `singletons`: that the group visited
    only this once; `ties`: of pairs of actions taken in one state, at least one of which can lead to success in the
    graph, the share that lead to the same distance, None without a pair; `mixed`: groups with won and lost episodes.
    """

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
    groups, n = table.group, table.n_groups
    graph = StateGraph.from_table(table)
    states, example = number_pairs(groups, n, table.state, len(table.states))
    _, visit = number_pairs(states, len(example), table.trajectory, table.n_trajectories)
    visitors = np.bincount(states[visit], minlength=len(example))
    alone = np.bincount(states, minlength=len(example)) == 1
    choices, choice = number_pairs(states, len(example), table.action, len(table.actions))
    nearest = np.full(len(choice), np.inf)
    np.minimum.at(nearest, choices, graph.hop_distance()[graph.target])
    tied, pairs = (each.sum() for each in _ties(states[choice], nearest, len(example), len(table)))
    won = np.bincount(table.trajectory_group, table.trajectory_won, n)
    mixed = (won > 0) & (won < np.bincount(table.trajectory_group, minlength=n))
    return Diagnosis(
        size, float((visitors[states] > 1).mean()), float(alone[states].mean()), float(tied / pairs) if pairs else None,
        float(mixed.mean()),
    )  # fmt: skip


def _ties(state: Ints, nearest: Floats, n_states: int, longest: int) -> tuple[Ints, Ints]:
    """Pairs of actions per state with equally short ways to success, and all pairs in which at least one has a way."""
    lost = np.isinf(nearest)
    pairs = _pairs(np.bincount(state, minlength=n_states)) - _pairs(np.bincount(state[lost], minlength=n_states))
    same, example = number_pairs(state[~lost], n_states, nearest[~lost].astype(np.int64), 1 + longest)
    tied = np.bincount(state[~lost][example], weights=_pairs(np.bincount(same)), minlength=n_states)
    return tied.astype(np.int64), pairs


def _pairs(counts: Ints) -> Ints:
    return np.asarray(counts * (counts - 1) // 2, np.int64)
