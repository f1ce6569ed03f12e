"""Follow which places of a vector environment play, stand still, end or begin, in every autoreset mode.

Gymnasium's three modes differ in when a place resets and whether its action counts. The vector wrappers of this
folder ask this file instead of repeating the case distinction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Phase:
    """What one step meant in each place; bool arrays of shape (places,).

    Attributes:
        played: the place's action was played (the others ignored it).
        ended: the played step was the last of its episode.
        began: the returned observation is the first of a new episode. Under `SAME_STEP` a place can end and begin
            in one step: its last observation and info are then in `final_obs` and `final_info`.
    """

    played: Mask
    ended: Mask
    began: Mask


class Places:
    """Call `reset` with the options of every reset, and `step` with the flags of every step.

    Args:
        envs: the vector environment; its `metadata["autoreset_mode"]` says the mode.

    Raises:
        ValueError: when the environment does not say its autoreset mode.
    """

    def __init__(self, envs: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"{envs}: metadata['autoreset_mode'] must be an AutoresetMode, got {mode!r}; "
                "set it in the environment's metadata"
            )
        self.mode = mode
        self.num_envs = envs.num_envs
        self._over = np.zeros(self.num_envs, np.bool_)

    @property
    def idle(self) -> Mask:
        """The places that will ignore their next action: their episode is over."""
        if self.mode is AutoresetMode.SAME_STEP:
            return np.zeros(self.num_envs, np.bool_)
        return self._over.copy()

    def reset(self, options: Any) -> Mask:
        """Return the mask of the places that a reset with these options begins."""
        mask = options.get("reset_mask") if isinstance(options, Mapping) else None
        began = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask, np.bool_).copy()
        self._over &= ~began
        return began

    def step(self, terminated: Mask, truncated: Mask) -> Phase:
        """Return what the step with these flags meant."""
        idle = self.idle
        over = np.asarray(terminated, np.bool_) | np.asarray(truncated, np.bool_)
        began = {
            AutoresetMode.SAME_STEP: over,
            AutoresetMode.NEXT_STEP: idle,
            AutoresetMode.DISABLED: np.zeros(self.num_envs, np.bool_),
        }[self.mode]
        self._over = over
        return Phase(played=~idle, ended=over & ~idle, began=began)


def for_inside(options: Any) -> Any:
    """Return the options of a reset for the environment inside.

    It gets a copy: Gymnasium's vector environments take `reset_mask` out of the mapping they are given, which the
    wrapper (and whoever called it) still needs.
    """
    return dict(options) if isinstance(options, Mapping) else options


def with_column(
    infos: Mapping[str, Any], phase: Phase, key: str, now: NDArray[Any], last: NDArray[Any]
) -> dict[str, Any]:
    """Return infos with a new key: `now` for the places as they stand, `last` in `final_info` where one exists.

    Args:
        infos: as returned by `envs.step`; not changed.
        phase: what the step meant.
        key: name of the new key.
        now: one value per place, for `infos[key]`.
        last: one value per place, used for the places whose episode ended under `SAME_STEP`.
    """
    result = {**infos, key: now}
    if "final_info" in infos:
        column = np.full(len(last), None if last.dtype == np.object_ else 0, last.dtype)
        column[phase.ended] = last[phase.ended]
        result["final_info"] = {**infos["final_info"], key: column, f"_{key}": phase.ended.copy()}
    return result
