"""Base of the vector wrappers that act in every sub-environment: one state each, in every autoreset mode.

Gymnasium's three modes differ in when a sub-environment resets, whether its action counts, and where the end of an
episode is shown. This file makes the distinction once; a wrapper says what happens in one sub-environment.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from agentgym.adapter import adapt, takes_text
from agentgym.branching.vector import Branching, Saved, inside, read_restore

Array = NDArray[Any]
Mask = NDArray[np.bool_]
StateT = TypeVar("StateT")
_Reader = tuple[str, Any, Any]


class Shown:
    """What a reset or a step showed, to be asked for single sub-environments.

    Args:
        space: the single observation space.
        observations: the batch.
        infos: one column per key.
        final: bool (num_envs,), who is shown as its episode ended, from `final_obs` and `final_info`; None: nobody.
    """

    def __init__(
        self, space: gym.Space[Any], observations: Any, infos: Mapping[str, Any], final: Mask | None = None
    ) -> None:
        self._space = space
        self._is_batch = not isinstance(space, (gym.spaces.Dict, gym.spaces.Tuple))
        self._observations = observations
        self._infos = infos
        self._final = final.tolist() if final is not None and final.any() else None

    def observation(self, i: int) -> Any:
        """Return the observation of sub-environment i."""
        if self._final is not None and self._final[i]:
            return self._infos["final_obs"][i]
        return self._observations[i] if self._is_batch else observation_of(self._space, self._observations, i)

    def columns(self, i: int) -> Mapping[str, Any]:
        """Return the columns whose entries i are those of sub-environment i."""
        if self._final is None or not self._final[i]:
            return self._infos
        columns: Mapping[str, Any] = self._infos["final_info"]
        return columns

    def entry(self, name: str, i: int, default: Any = None) -> Any:
        """Return one entry of the info of sub-environment i, the default where there is no such column."""
        columns = self.columns(i)
        return columns[name][i] if name in columns else default

    def info(self, i: int) -> dict[str, Any]:
        """Return the info of sub-environment i as a single environment would show it."""
        readers = self._final_readers if self._final is not None and self._final[i] else self._readers
        return {name: column[i] for name, column, mask in readers if mask is None or mask[i]}

    @cached_property
    def _readers(self) -> list[_Reader]:
        return _readers(self._infos)

    @cached_property
    def _final_readers(self) -> list[_Reader]:
        return _readers(self._infos["final_info"])


@dataclass(frozen=True)
class Step:
    """One step of all sub-environments.

    Attributes:
        played: the sub-environments whose action was played (the others ignored theirs).
        after: what they show after it, before any of them began anew.
        actions: as given to the wrapper's `step`.
        rewards: float64 (num_envs,), from inside.
        terminated: bool (num_envs,).
        truncated: bool (num_envs,).
    """

    played: list[int]
    after: Shown
    actions: Sequence[Any]
    rewards: NDArray[np.float64]
    terminated: Mask
    truncated: Mask


class SubEnvWrapper(Branching, gym.vector.VectorWrapper[Any, Any, Any, Any, Array], Generic[StateT]):
    """A vector wrapper with one state per sub-environment.

    A subclass overrides `begin` and, as needed, `sent`, `advance`, `columns` and `observed`. All it knows about a
    sub-environment is in `states[i]`, so that `snapshot`, `restore` and `fork` can save, copy and continue it; one that
    knows more overrides `get_state` and `set_state`.

    Args:
        env: a vector environment; its `metadata["autoreset_mode"]` says the mode. A text environment of Gymnasium's
            own vector classes, or a single one, is adapted first (`agentgym.adapter.adapt`).

    Raises:
        ValueError: when the environment does not say its autoreset mode.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any]) -> None:
        super().__init__(adapt(env) if takes_text(env) else env)
        env = self.env
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"{env}: metadata['autoreset_mode'] must be an AutoresetMode, got {mode!r}; "
                "set it in the environment's metadata"
            )
        self.mode = mode
        self.states: list[StateT] = [None] * env.num_envs  # type: ignore[list-item]  # until the first reset
        self._over: Mask = np.zeros(env.num_envs, np.bool_)

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Set the states of sub-environments that begin an episode, which `shown` shows."""
        raise NotImplementedError

    def sent(self, actions: Sequence[Any]) -> Sequence[Any]:
        """Return the actions for the environment inside; by default those that came."""
        return actions

    def advance(self, step: Step) -> NDArray[np.float64] | None:
        """Move the states of `step.played` on; return what is added to the rewards, float64 (num_envs,), or None."""
        return None

    def columns(self) -> dict[str, Array]:
        """Return info columns made of the states, each of shape (num_envs,)."""
        return {}

    def observed(self) -> tuple[Any, ...] | None:
        """Return observations made of the states, or None to show those from inside."""
        return None

    @property
    def idle(self) -> Mask:
        """The sub-environments that will ignore their next action: their episode is over."""
        return np.zeros(self.num_envs, np.bool_) if self.mode is AutoresetMode.SAME_STEP else self._over.copy()

    def copied(self, state: StateT) -> StateT:
        """Return a copy of a state that later steps do not change; override it where states are cheaper to copy."""
        return copy.deepcopy(state)

    def get_state(self, i: int) -> Any:
        """Return a copy of what this wrapper (not those inside) knows of sub-environment i."""
        return self.copied(self.states[i])

    def set_state(self, i: int, state: Any) -> None:
        """Load what `get_state` returned, of this sub-environment or another one."""
        self.states[i] = self.copied(state)

    def snapshot(self, i: int) -> Saved:
        """Return sub-environment i as it stands; see `agentgym.branching.vector.Branching`, as for the other verbs."""
        below = inside(self.env, self).snapshot(i)
        return Saved(type(self).__name__, below, (bool(self._over[i]), self.get_state(i)))

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        """Continue sub-environments from snapshots."""
        chosen, given, numbers = read_restore(type(self).__name__, self.num_envs, indices, states, seeds)
        observations, infos = inside(self.env, self).restore(chosen, [state.inside for state in given], numbers)
        for i, state in zip(chosen, given, strict=True):
            self._over[i], kept = state.own
            self.set_state(i, kept)
        mine = self.observed()
        return observations if mine is None else mine, {**infos, **self.columns()}

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all sub-environments, or in those of `options["reset_mask"]`."""
        observations, infos = self.env.reset(seed=seed, options=for_inside(options))
        mask = reset_mask(options)
        began = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask, np.bool_)
        self._over &= ~began
        self._begin(began, observations, infos)
        mine = self.observed()
        return observations if mine is None else mine, {**infos, **self.columns()}

    def step(self, actions: Sequence[Any]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play one action per sub-environment."""
        idle = self.idle
        observations, rewards, terminated, truncated, infos = self.env.step(self.sent(actions))
        over = np.asarray(terminated, np.bool_) | np.asarray(truncated, np.bool_)
        ended = over & ~idle
        began = {
            AutoresetMode.SAME_STEP: over,
            AutoresetMode.NEXT_STEP: idle,
            AutoresetMode.DISABLED: np.zeros(self.num_envs, np.bool_),
        }[self.mode]
        self._over = over
        after = Shown(self.env.single_observation_space, observations, infos, ended & began)
        gains = self.advance(Step(np.flatnonzero(~idle).tolist(), after, actions, rewards, terminated, truncated))
        infos = dict(infos)
        if "final_obs" in infos and (last := self.observed()) is not None:
            infos["final_obs"] = objects([last[i] if ended[i] else None for i in range(self.num_envs)])
        if "final_info" in infos:
            infos["final_info"] = dict(infos["final_info"])
            for name, column in self.columns().items():
                column[~ended] = None if column.dtype == np.object_ else 0
                infos["final_info"] |= {name: column, f"_{name}": ended.copy()}
        self._begin(began, observations, infos)
        mine = self.observed()
        rewards = rewards if gains is None else rewards + gains
        return (
            observations if mine is None else mine, rewards, terminated, truncated, {**infos, **self.columns()},
        )  # fmt: skip

    def _begin(self, began: Mask, observations: Any, infos: Mapping[str, Any]) -> None:
        if began.any():
            shown = Shown(self.env.single_observation_space, observations, infos)
            self.begin(np.flatnonzero(began).tolist(), shown)


def reset_mask(options: Any) -> Mask | None:
    """Return the mask in the options of a reset, None for all sub-environments."""
    return options.get("reset_mask") if isinstance(options, Mapping) else None


def for_inside(options: Any) -> Any:
    """Return the options of a reset for the environment inside.

    It gets a copy: Gymnasium's vector environments take `reset_mask` out of the mapping they are given, which the
    wrapper (and whoever called it) still needs.
    """
    return dict(options) if isinstance(options, Mapping) else options


def objects(values: Sequence[Any]) -> Array:
    """Return an object array (len(values),) of anything, tuples included."""
    # from an iterator: numpy would take tuples of equal length for rows
    return np.fromiter(values, np.object_, len(values))


def observation_of(space: gym.Space[Any], observations: Any, i: int) -> Any:
    """Return sub-environment i's observation from a batch.

    Args:
        space: the single observation space. Batches of `Dict` and `Tuple` spaces hold one batch per part.
        observations: the batch.
        i: which.

    >>> observation_of(gym.spaces.Discrete(4), np.array([3, 1]), 1).item()
    1
    """
    if isinstance(space, gym.spaces.Dict):
        return {name: observation_of(part, observations[name], i) for name, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(observation_of(part, batch, i) for part, batch in zip(space, observations, strict=True))
    return observations[i]


def _readers(infos: Mapping[str, Any]) -> list[_Reader]:
    """Name, entries and mask of the columns with one value per sub-environment.

    `_key` masks the sub-environments that `key` holds for. Entries that hold no array concern no single one and are
    left out, as are the last observation and info of a finished episode.
    """
    found: list[_Reader] = []
    for name, column in infos.items():
        if name.startswith("_") or name in ("final_obs", "final_info"):
            continue
        mask = infos.get(f"_{name}")
        if isinstance(column, Mapping):
            parts = _readers(column)
            count = max((len(part) for _, part, _ in parts), default=0)
            rows = [{key: part[i] for key, part, has in parts if has is None or has[i]} for i in range(count)]
            found.append((name, rows, mask))
        elif isinstance(column, np.ndarray):
            found.append((name, column.tolist() if column.ndim == 1 else column, mask))
    return found
