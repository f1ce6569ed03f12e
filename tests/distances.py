"""Exact distances in Sokoban by the solver alone: what the truths of the benchmarks are held against."""

import numpy as np

from agentgym.sokoban.expert.solver import Solver
from agentgym.sokoban.text import parse_level
from agentgym.trajectory import Floats, StepTable
from wrappers.distance import gained

WON = " [success]"


def state_distances(table: StepTable) -> Floats:
    r"""Return float64 (len(table.states),): exact number of moves to the solution of Sokoban, `inf` in a dead end.

    State keys are boards in the default symbols; `agentgym.outside.text.DataError` where one is no board.

    >>> board = "######\n#PX_O#\n######"
    >>> table = StepTable.from_arrays(group=["g"], trajectory=["a"], t=[0], state=[board], action=["right"],
    ...     next_state=["######\n#_PXO#\n######"], reward=[-0.1], won=[False])
    >>> distance = state_distances(table)
    >>> distance, distance_changes(table, distance)
    (array([2., 1.]), array([1.]))
    """
    found = np.zeros(len(table.states))
    for i, key in enumerate(map(str, table.states)):
        if not key.endswith(WON):
            level = parse_level(key)
            found[i] = Solver(level).distance(level.player, level.boxes)
    return found


def distance_changes(table: StepTable, distance: Floats) -> Floats:
    """Return float64 (N,): moves that each step gained, as `distance_gains`, by the result of `state_distances`."""
    return gained(distance[table.state], distance[table.next_state])
