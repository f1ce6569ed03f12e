"""Snapshots in the infos, so that a policy can try actions before it plays."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.branching.stack import inside
from wrappers.vector_wrapper import Array, Shown, SubEnvWrapper, objects


class VectorSnapshots(SubEnvWrapper[int]):
    """Add `infos["snapshot"]` and `infos["episode_number"]`, for policies that search (`policies.search`).

    The snapshot is the inner environment's `snapshot(i)`, to be restored in one built like it, so put this wrapper
    outermost. Episodes are numbered from 0 in order of their start; a restored branch keeps its number.

    Args:
        env: a vector environment, or wrapper of one, that can be branched (`agentgym.branching.Branching`).
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._branching: Any = inside(self.env, self)
        self._begun = 0
        self._shown: Array = objects([])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            self.states[i] = self._begun
            self._begun += 1

    def set_state(self, i: int, state: Any) -> None:
        super().set_state(i, state)
        self._begun = max(self._begun, self.states[i] + 1)

    def columns(self) -> dict[str, Array]:
        self._shown = objects([self._branching.snapshot(i) for i in range(self.num_envs)])
        return {"snapshot": self._shown, "episode_number": np.asarray(self.states, np.int64)}

    def reseed(self, indices: Any, seeds: Any) -> None:
        super().reseed(indices, seeds)
        for i in np.ravel(indices).tolist():
            self._shown[i] = self._branching.snapshot(i)

    def step(self, actions: Sequence[Any]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        *shown, infos = super().step(actions)
        for name in ("snapshot", "_snapshot"):
            infos.get("final_info", {}).pop(name, None)
        return (*shown, infos)
