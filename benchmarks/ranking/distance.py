"""The truth that credit is held against: how many moves from the solution a Sokoban step led."""

from __future__ import annotations

import numpy as np

from agentgym.sokoban.expert.solver import Solver
from agentgym.sokoban.text import parse_level
from agentgym.trajectory import Floats, StepTable

_SOLVED = " [success]"


def state_distances(table: StepTable) -> Floats:
    r"""Return float64 (len(table.states),): exact number of moves to the solution, `inf` in a dead end.

    Every state of the table is asked once; states of one room share the solver's table of distances.

    Args:
        table: steps of a Sokoban environment, whose state keys are boards in the default symbols.

    Raises:
        agentgym.outside.text.DataError: a state is no board.

    >>> board = "######\n#PX_O#\n######"
    >>> table = StepTable.from_arrays(group=["g"], trajectory=["a"], t=[0], state=[board], action=["right"],
    ...     next_state=["######\n#_PXO#\n######"], reward=[-0.1], won=[False])
    >>> distance = state_distances(table)
    >>> distance, distance_changes(table, distance)
    (array([2., 1.]), array([1.]))
    """
    found = np.zeros(len(table.states))
    for i, key in enumerate(map(str, table.states)):
        if not key.endswith(_SOLVED):
            level = parse_level(key, "default")
            found[i] = Solver(level).distance(level.player, level.boxes)
    return found


def distance_changes(table: StepTable, distance: Floats) -> Floats:
    """Return float64 (N,): moves that each step gained, `d(s) - d(s')`; positive is nearer to the solution.

    1 is the most a step can gain. A step that changes nothing gains 0, and so does every step in a dead end, where
    nothing can be gained or lost any more. A step into a dead end is `-inf`: below every other step.

    Args:
        table: N rows.
        distance: float64 (len(table.states),), of `state_distances`.
    """
    before, after = distance[table.state], distance[table.next_state]
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(before), 0.0, before - after)
