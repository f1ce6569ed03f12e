"""Base of the credit wrappers: record a vector environment, then score the steps of finished groups."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.adapter import adapt, takes_text
from agentgym.branching import Branching, Saved
from agentgym.branching.stack import check_index, inside, read_restore
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.vector_wrapper import Array, for_inside, reset_mask


class CreditWrapper(Branching, gym.vector.VectorWrapper[Any, Any, Array]):
    """Record the episodes begun by `reset` and return one advantage per step when all have ended.

    Sub-environments with the same `task_id` form a group. A full `reset` starts a new table; a masked one
    (`options={"reset_mask": ...}`) adds episodes to it. Observations, rewards and infos are unchanged. With autoreset
    `DISABLED`, give finished sub-environments `""`; in other modes automatically started episodes are played but not
    recorded, because they belong to no group. A restored or forked sub-environment continues in a trajectory cut from
    the saved one (`StepTable.parent`), in the same group.

    Args:
        env: a vector environment with this project's info keys (see `agentgym.adapter.adapt`); a reply wrapper's
            `"command"` and a state wrapper's `"canonical_key"` are used if present.
        **options: of the method. Options with one number per row (`weights`, `kl`, an array of `cost`) need rows: use
            the function with `table()`.

    Raises:
        ValueError, TypeError: at once, on an unknown or invalid preset or option.
    """

    method: ClassVar[Callable[..., Floats]]

    def __init_subclass__(cls, *, method: Callable[..., Floats] | None = None, **given: Any) -> None:
        """Make `class Mine(CreditWrapper, method=mine)` the wrapper of `mine`."""
        super().__init_subclass__(**given)
        if method is not None:
            type.__setattr__(cls, "method", staticmethod(method))
            cls.__doc__ = (
                cls.__doc__ or f"Vector wrapper whose `advantages()` are `{method.__name__}(table(), **options)`."
            )

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Array], *, preset: str | None = None, **options: Any
    ) -> None:
        super().__init__(adapt(env) if takes_text(env) else env)
        self._options: dict[str, Any] = options if preset is None else {"preset": preset, **options}
        type(self).method(_NO_STEPS, **self._options)  # wrong options fail here, not after the first rollout
        self._builder: TableBuilder | None = None
        self._playing: Bools = np.zeros(self.num_envs, np.bool_)
        #: Task of each sub-environment's last recorded episode, its group.
        self.tasks: list[str] = [""] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=for_inside(options))  # type: ignore[arg-type]
        mask = reset_mask(options)
        if self._builder is None or mask is None:
            # An episode is recorded until it ends, whatever the environment's autoreset mode does then.
            self._builder = TableBuilder(self.num_envs, AutoresetMode.DISABLED)
        self._builder.reset(infos, mask)
        self._playing |= True if mask is None else mask
        for i in range(self.num_envs) if mask is None else np.flatnonzero(mask):
            self.tasks[i] = str(infos["task_id"][i])
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        if self._builder is None:
            raise gym.error.ResetNeeded(f"{type(self).__name__}.step: no episodes yet; call reset() first")
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        self._builder.step(actions, rewards, terminated, truncated, _before_autoreset(infos))
        self._playing &= ~(terminated | truncated)
        return observations, rewards, terminated, truncated, infos

    def snapshot(self, i: int) -> Saved:
        below = inside(self.env, self).snapshot(i)
        i = check_index(i, self.num_envs)
        recorded = None if self._builder is None else self._builder.snapshot(i)
        return Saved(type(self).__name__, below, (recorded, bool(self._playing[i]), self.tasks[i]))

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        chosen, given, numbers = read_restore(type(self).__name__, self.num_envs, indices, states, seeds)
        observations, infos = inside(self.env, self).restore(chosen, [state.inside for state in given], numbers)
        if self._builder is None:
            self._builder = TableBuilder(self.num_envs, AutoresetMode.DISABLED)
        self._builder.restore(chosen, [state.own[0] for state in given])
        for i, state in zip(chosen, given, strict=True):
            _, self._playing[i], self.tasks[i] = state.own
        return observations, infos

    def table(self) -> StepTable:
        """Return the recorded steps, trajectory by trajectory.

        Raises:
            ValueError: before the first reset, or while an episode of some group still runs.
        """
        name = type(self).__name__
        if self._builder is None:
            raise ValueError(f"{name} has recorded nothing: call reset() and step() until all episodes have ended")
        if self._playing.any():
            indices = np.flatnonzero(self._playing)
            shown = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
            raise ValueError(
                f"{name}: {len(indices)} of {self.num_envs} sub-environments still play ({shown}), their groups are "
                "not complete; step on until each of them has terminated or truncated once"
            )
        return self._builder.table()

    def advantages(self) -> Floats:
        """Return float64 (len(table()),), one advantage per row of `table()`; nan: not scored.

        Raises:
            ValueError: as `table`.
        """
        return type(self).method(self.table(), **self._options)


def _before_autoreset(infos: Mapping[str, Any]) -> Mapping[str, Any]:
    final, mask = infos.get("final_info"), infos.get("_final_info")
    if final is None or mask is None or not mask.any():
        return infos
    merged = dict(infos)
    for key, column in final.items():
        if key in infos and not key.startswith("_") and isinstance(column, np.ndarray):
            merged[key] = infos[key].astype(np.result_type(infos[key], column))
            merged[key][mask] = column[mask]
            has = final.get(f"_{key}", mask)
            if not has[mask].all():
                merged[f"_{key}"] = infos.get(f"_{key}", np.ones_like(mask)) & (has | ~mask)
    return merged


_NO_STEPS = StepTable.from_arrays(group=[], trajectory=[], t=[], state=[], action=[], next_state=[], reward=[], won=[])
