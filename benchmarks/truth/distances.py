"""The exact truth of a step: by how many commands it came nearer to success."""

from __future__ import annotations

import numpy as np

from agentgym.sokoban.expert.solver import Solver
from agentgym.sokoban.text import parse_level
from agentgym.trajectory import Floats, StepTable
from wrappers.distance import distance_gains, gained, row_distances

WON = " [success]"


def kinds_of_steps(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> dict[str, float]:
    """Return shares of the steps whose gain is known; arguments as those of `distance_gains`.

    "gained", "unchanged", "lost" and "dead" (into a dead end) add up to 1; "stuck" begin in one, and are unchanged.
    """
    gain, before = distance_gains(table, found), row_distances(table, found)[: len(table)]
    gain, before = gain[~np.isnan(gain)], before[~np.isnan(gain)]
    kinds = {
        "gained": gain > 0, "unchanged": gain == 0, "lost": (gain < 0) & np.isfinite(gain), "dead": np.isinf(gain),
        "stuck": np.isinf(before),
    }  # fmt: skip
    return {name: float(rows.mean()) if len(gain) else 0.0 for name, rows in kinds.items()}


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
            level = parse_level(key, "default")
            found[i] = Solver(level).distance(level.player, level.boxes)
    return found


def distance_changes(table: StepTable, distance: Floats) -> Floats:
    """Return float64 (N,): moves that each step gained, as `distance_gains`, by the result of `state_distances`."""
    return gained(distance[table.state], distance[table.next_state])
