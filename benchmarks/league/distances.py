"""The exact truth of a step: by how many commands it came nearer to success."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import number_pairs
from wrappers.vector_wrapper import Shown, Step, SubEnvWrapper

_WON = " [success]"


class Distances(SubEnvWrapper[None]):
    """Notes how far from success each state is, as its environment knows it, the first time that it is reached.

    An environment that has `distance_bounds()` answers two numbers, which are equal where the distance is known; else
    its `distance()` is exact. Put it outermost. State keys have to be the environment's own, for others may join states
    of different distance.

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

    As `benchmarks.ranking.distance.distance_changes`: a step into a dead end is `-inf`, one within it gains 0.

    Args:
        table: N rows; group labels are task ids.
        found: of `Distances`, for all states of the table but those of success.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a"] * 2, t=[0, 1], state=["s", "u"],
    ...     action=["go", "win"], next_state=["u", "w [success]"], reward=[0, 1], won=[1, 1])
    >>> distance_gains(table, {("g", "s"): (2.0, 3.0), ("g", "u"): (1.0, 1.0)})
    array([nan,  1.])
    """
    n = len(table)
    groups, states = np.tile(table.group, 2), np.concatenate((table.state, table.next_state))
    numbers, example = number_pairs(groups, table.n_groups, states, len(table.states))
    distance = np.array([
        _exact(table.groups[groups[row]], str(table.states[states[row]]), found) for row in example.tolist()
    ])  # fmt: skip
    before, after = distance[numbers[:n]], distance[numbers[n:]]
    with np.errstate(invalid="ignore"):
        gains: Floats = np.where(np.isinf(before) & ~np.isnan(after), 0.0, before - after)
    return gains


def _exact(task: Hashable, state: str, found: dict[tuple[str, str], tuple[float, float]]) -> float:
    if state.endswith(_WON):
        return 0.0
    least, most = found[str(task), state]
    return most if least == most else np.nan
