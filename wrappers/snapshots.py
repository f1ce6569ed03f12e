"""Snapshots in the infos: a policy is shown where its episodes stand, and can try things before it plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.branching.stack import inside
from wrappers.vector_wrapper import Array, Shown, SubEnvWrapper, objects


class VectorSnapshots(SubEnvWrapper[int]):
    """Adds `infos["snapshot"]` and `infos["episode_number"]`, for policies that search (`policies.search`).

    The snapshot is what `snapshot(i)` of the environment inside returns, to be restored in another one that is built
    like it: this wrapper comes last, outside the others. Episodes are numbered from 0 in the order in which they began;
    a branch that is restored keeps its episode's number.

    Args:
        env: a vector environment, or wrapper of one, that can be branched (`agentgym.branching.Branching`).
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._branching: Any = inside(self.env, self)
        self._begun = 0
        self._shown: Array = objects([])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Number the episodes that begin."""
        for i in indices:
            self.states[i] = self._begun
            self._begun += 1

    def set_state(self, i: int, state: Any) -> None:
        """Continue sub-environment i from what `get_state` returned; later episodes get later numbers."""
        super().set_state(i, state)
        self._begun = max(self._begun, self.states[i] + 1)

    def columns(self) -> dict[str, Array]:
        """Return snapshots and numbers, object (num_envs,) and int64 (num_envs,)."""
        self._shown = objects([self._branching.snapshot(i) for i in range(self.num_envs)])
        return {"snapshot": self._shown, "episode_number": np.asarray(self.states, np.int64)}

    def reseed(self, indices: Any, seeds: Any) -> None:
        """Seed what is drawn from here on; the snapshots that were shown last are brought up to date."""
        super().reseed(indices, seeds)
        for i in np.ravel(indices).tolist():
            self._shown[i] = self._branching.snapshot(i)

    def step(self, actions: Sequence[Any]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play one action per sub-environment; `final_info` has no snapshots, as these episodes cannot be continued."""
        *shown, infos = super().step(actions)
        for name in ("snapshot", "_snapshot"):
            infos.get("final_info", {}).pop(name, None)
        return (*shown, infos)
