"""The exact truth of a step: by how many commands it came nearer to success."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.sokoban.expert.solver import Solver
from agentgym.sokoban.text import parse_level
from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import number_pairs
from wrappers.vector_wrapper import Shown, Step, SubEnvWrapper

WON = " [success]"


class Distances(SubEnvWrapper[None]):
    """Notes how far from success each state is, by `distance_bounds()` or the exact `distance()` of its environment.

    Put it outermost; state keys have to be the environment's own, for others may join states of different distance.

    Attributes:
        found: commands that are still needed, at least and at most, by task and state key; inf in a dead end.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.found: dict[tuple[str, str], tuple[float, float]] = {}

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Ask about states that were not reached before."""
        inside: Any = self.unwrapped
        for i in indices:
            place = str(shown.entry("task_id", i)), str(shown.entry("state_key", i))
            if place not in self.found:
                env = inside.envs[i]
                bounds = getattr(env, "distance_bounds", None)
                self.found[place] = (env.distance(),) * 2 if bounds is None else bounds()

    def advance(self, step: Step) -> None:
        """Ask about the states reached."""
        self.begin(step.played, step.after)

    def copied(self, state: None) -> None:
        """Nothing is known of a sub-environment alone."""
        return


def distance_gains(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> Floats:
    """Return float64 (N,): commands that each step gained, `d(s) - d(s')`; nan where one of the two is not exact.

    A step into a dead end is `-inf`, below every other step; one within it gains 0. Group labels are task ids, and
    `found` is that of `Distances`.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a"] * 2, t=[0, 1], state=["s", "u"],
    ...     action=["go", "win"], next_state=["u", "w [success]"], reward=[0, 1], won=[1, 1])
    >>> distance_gains(table, {("g", "s"): (2.0, 3.0), ("g", "u"): (1.0, 1.0)})
    array([nan,  1.])
    """
    distance = _rows(table, found)
    return _gained(distance[: len(table)], distance[len(table) :])


def kinds_of_steps(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> dict[str, float]:
    """Return shares of the steps whose gain is known; arguments as those of `distance_gains`.

    "gained", "unchanged", "lost" and "dead" (into a dead end) add up to 1; "stuck" begin in one, and are unchanged.
    """
    gain, before = distance_gains(table, found), _rows(table, found)[: len(table)]
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
    return _gained(distance[table.state], distance[table.next_state])


def _gained(before: Floats, after: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        gains: Floats = np.where(np.isinf(before) & ~np.isnan(after), 0.0, before - after)
    return gains


def _rows(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> Floats:
    """Distances before every step, then after every step; nan where one is not exact."""
    groups, states = np.tile(table.group, 2), np.concatenate((table.state, table.next_state))
    numbers, example = number_pairs(groups, table.n_groups, states, len(table.states))
    exact = [_exact(table.groups[groups[row]], str(table.states[states[row]]), found) for row in example.tolist()]
    return np.array(exact)[numbers]


def _exact(task: Hashable, state: str, found: dict[tuple[str, str], tuple[float, float]]) -> float:
    if state.endswith(WON):
        return 0.0
    least, most = found[str(task), state]
    return most if least == most else np.nan
