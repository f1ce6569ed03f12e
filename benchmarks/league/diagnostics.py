"""What a player's episodes give credit to work with, in groups of one size."""

from __future__ import annotations

import numpy as np

from agentgym.trajectory import StepTable
from benchmarks.league.results import Diagnosis
from benchmarks.ranking.rollouts import mixed_groups
from wrappers.credit.group import number_pairs
from wrappers.credit.state_graph import distance_to_success


def diagnose(table: StepTable, size: int) -> Diagnosis:
    """Count what can be compared.

    Args:
        table: N rows, in groups of the size.
        size: trajectories per group.

    >>> table = StepTable.from_arrays(group=["g"] * 5, trajectory=["a", "a", "b", "c", "c"], t=[0, 1, 0, 0, 1],
    ...     state=["s", "u", "s", "s", "v"], action=["up", "up", "up", "left", "up"],
    ...     next_state=["u", "goal", "pit", "v", "goal"], reward=[0, 1, 0, 0, 1], won=[1, 1, 0, 1, 1])
    >>> diagnose(table, 3)  # from s, up leads nearest to 1 step from the goal, and so does left
    Diagnosis(size=3, shared=0.6, singletons=0.4, ties=1.0, mixed=1.0)
    """
    states, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    n_states = len(example)
    visits, _ = number_pairs(states, n_states, table.trajectory, table.n_trajectories)
    visitors = np.bincount(states[np.unique(visits, return_index=True)[1]], minlength=n_states)
    alone = np.bincount(states, minlength=n_states) == 1
    return Diagnosis(
        size,
        float((visitors[states] > 1).mean()),
        float(alone[states].mean()),
        _ties(table, states, n_states),
        mixed_groups(table),
    )


def _ties(table: StepTable, states: np.ndarray, n_states: int) -> float | None:
    """Share of pairs of actions of a state of a group between whose shortest ways the group's graph sees no difference.

    Pairs of which neither has a way to success are left out: there the graph says nothing at all.
    """
    choices, example = number_pairs(states, n_states, table.action, len(table.actions))
    nearest = np.full(len(example), np.inf)
    np.minimum.at(nearest, choices, distance_to_success(table).after)
    state = states[example]
    pairs = _pairs(np.bincount(state, minlength=n_states)).sum()
    lost = np.isinf(nearest)
    pairs -= _pairs(np.bincount(state[lost], minlength=n_states)).sum()
    same, _ = number_pairs(state[~lost], n_states, nearest[~lost].astype(np.int64), 1 + len(table))
    tied = _pairs(np.bincount(same)).sum()
    return float(tied / pairs) if pairs else None


def _pairs(counts: np.ndarray) -> np.ndarray:
    return np.asarray(counts * (counts - 1) // 2)
