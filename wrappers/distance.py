"""How far each state is from success, as the environment knows it: the truth that credit is compared with."""

from collections.abc import Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import number_pairs
from wrappers.vector_wrapper import Shown, Step, SubEnvWrapper

_WON, _FAILED = " [success]", " [failure]"


class Distances(SubEnvWrapper[None]):
    """Notes the distance to success of every state, the first time that it is reached.

    An environment with `distance_bounds()` answers two numbers, which are equal where the distance is known; else its
    `distance()` is exact. Put the wrapper outermost. States are identified by their keys in tables: where a
    canonical key joins states, the distance of the first one counts.

    Args:
        env: a vector environment whose sub-environments have `distance()`.

    Attributes:
        found: steps that are still needed, at least and at most, by task and state key; inf in a dead end.

    Raises:
        ValueError: a sub-environment has no `distance()`.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self.found: dict[tuple[str, str], tuple[float, float]] = {}
        first = getattr(self.unwrapped, "envs", [None])[0]
        if not hasattr(first, "distance"):
            raise ValueError(
                f"{type(first).__name__} has no distance(), so no step's exact gain is known; Sokoban and "
                "ALFWorld have one, and your own environment may define it"
            )

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        inside: Any = self.unwrapped
        for i in indices:
            key = shown.entry("canonical_key", i)
            place = str(shown.entry("task_id", i)), str(shown.entry("state_key", i) if key is None else key)
            if place not in self.found:
                env = inside.envs[i]
                bounds = getattr(env, "distance_bounds", None)
                self.found[place] = (env.distance(),) * 2 if bounds is None else bounds()

    def advance(self, step: Step) -> None:
        self.begin(step.played, step.after)

    def copied(self, state: None) -> None:
        return


def distance_gains(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> Floats:
    """Return float64 (N,): steps that each step gained, `d(s) - d(s')`; nan where one of the two is not exact.

    A step into a dead end is `-inf`, below every other step; one within it gains 0.

    Args:
        found: of `Distances`, for all states of the table but those in which an episode succeeded or failed.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a"] * 2, t=[0, 1], state=["s", "u"],
    ...     action=["go", "win"], next_state=["u", "w [success]"], reward=[0, 1], won=[1, 1])
    >>> distance_gains(table, {("g", "s"): (2.0, 3.0), ("g", "u"): (1.0, 1.0)})
    array([nan,  1.])
    """
    distance = row_distances(table, found)
    return gained(distance[: len(table)], distance[len(table) :])


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


def gained(before: Floats, after: Floats) -> Floats:
    """Return `before - after`, float64 (N,), 0 between two dead ends."""
    with np.errstate(invalid="ignore"):
        gains: Floats = np.where(np.isinf(before) & ~np.isnan(after), 0.0, before - after)
    return gains


def row_distances(table: StepTable, found: dict[tuple[str, str], tuple[float, float]]) -> Floats:
    """Return the distances before every step, then those after every step, float64 (2 N,); nan if not known."""
    groups, states = np.tile(table.group, 2), np.concatenate((table.state, table.next_state))
    numbers, example = number_pairs(groups, table.n_groups, states, len(table.states))
    exact = [_exact(table.groups[groups[row]], str(table.states[states[row]]), found) for row in example.tolist()]
    return np.array(exact)[numbers]


def _exact(task: Hashable, state: str, found: dict[tuple[str, str], tuple[float, float]]) -> float:
    if state.endswith((_WON, _FAILED)):
        return 0.0 if state.endswith(_WON) else np.inf
    least, most = found.get((str(task), state), (np.nan, np.nan))
    return most if least == most else np.nan
