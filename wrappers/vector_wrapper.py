"""Base of wrappers with one state per sub-environment, and their form for single environments.

`SubEnvWrapper` handles Gymnasium's three autoreset modes once: when a sub-environment resets, whether its action
counts, and where the end of an episode is shown. `SingleForm` runs the same hooks around a single environment.
"""

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from agentgym.adapter import adapt, takes_text
from agentgym.branching import Branching, BranchingWrapper, Saved
from agentgym.branching.stack import inside, read_restore

Array = NDArray[Any]
Mask = NDArray[np.bool_]
StateT = TypeVar("StateT")
_Reader = tuple[str, Any, Any]


class Shown:
    """Result of a reset or step, read per sub-environment.

    `space`: the single observation space. `final`: bool (num_envs,), whose `final_obs` and `final_info` are read.
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

    def entry(self, name: str, i: int, default: Any = None) -> Any:
        """Return one entry of the info of sub-environment i, or the default without such a column."""
        columns = self._infos["final_info"] if self._final is not None and self._final[i] else self._infos
        return columns[name][i] if name in columns else default

    def info(self, i: int) -> dict[str, Any]:
        """Return the info of sub-environment i in the form of a single environment."""
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
        played: sub-environments whose action was played (the others ignored theirs).
        after: their observations and infos after it, before any reset.
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

    A subclass overrides `begin` and, as needed, `sent`, `advance`, `columns` and `observed`. Everything about a
    sub-environment is in `states[i]`, so that `snapshot`, `restore` and `fork` work; with more state it overrides
    `get_state` and `set_state`. `frozen`: states are replaced and never changed in place.

    Args:
        env: a vector environment; its `metadata["autoreset_mode"]` gives the mode. A text environment of Gymnasium's
            vector classes, or a single one, is adapted first (`agentgym.adapter.adapt`).

    Raises:
        ValueError: when the environment has no autoreset mode.
    """

    frozen: ClassVar[bool] = False

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
        """Set the states of sub-environments that begin an episode, shown in `shown`."""
        raise NotImplementedError

    def sent(self, actions: Sequence[Any]) -> Sequence[Any]:
        """Return the actions for the inner environment; default unchanged."""
        return actions

    def advance(self, step: Step) -> NDArray[np.float64] | None:
        """Update the states of `step.played`; return what is added to the rewards, float64 (num_envs,), or None."""
        return None

    def columns(self) -> dict[str, Array]:
        """Return info columns, each of shape (num_envs,)."""
        return {}

    def observed(self) -> tuple[Any, ...] | None:
        """Return observations, or None for those from inside."""
        return None

    @property
    def idle(self) -> Mask:
        """Sub-environments that will ignore their next action: their episode is over."""
        return np.zeros(self.num_envs, np.bool_) if self.mode is AutoresetMode.SAME_STEP else self._over.copy()

    def copied(self, state: StateT) -> StateT:
        """Return a copy of a state; override it if a cheaper copy exists."""
        return state if self.frozen else copy.deepcopy(state)

    def get_state(self, i: int) -> Any:
        """Return a copy of this wrapper's (not the inner ones') state of sub-environment i."""
        return self.copied(self.states[i])

    def set_state(self, i: int, state: Any) -> None:
        """Load a `get_state` of this or another sub-environment."""
        self.states[i] = self.copied(state)

    def snapshot(self, i: int) -> Saved:
        below = inside(self.env, self).snapshot(i)
        return Saved(type(self).__name__, below, (bool(self._over[i]), self.get_state(i)))

    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        chosen, given, numbers = read_restore(type(self).__name__, self.num_envs, indices, states, seeds)
        observations, infos = inside(self.env, self).restore(chosen, [state.inside for state in given], numbers)
        for i, state in zip(chosen, given, strict=True):
            self._over[i], kept = state.own
            self.set_state(i, kept)
        return self._seen(observations, infos)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=for_inside(options))
        mask = reset_mask(options)
        began = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask, np.bool_)
        self._over &= ~began
        self._begin(began, observations, infos)
        return self._seen(observations, infos)

    def step(self, actions: Sequence[Any]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
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
        observations, infos = self._seen(observations, infos)
        return observations, rewards if gains is None else rewards + gains, terminated, truncated, infos

    def _seen(self, observations: Any, infos: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        mine = self.observed()
        return observations if mine is None else mine, {**infos, **self.columns()}

    def _begin(self, began: Mask, observations: Any, infos: Mapping[str, Any]) -> None:
        if began.any():
            shown = Shown(self.env.single_observation_space, observations, infos)
            self.begin(np.flatnonzero(began).tolist(), shown)


class Alone(gym.vector.VectorEnv[Any, Any, Array]):
    """A single environment as a vector environment of one, for the hooks of a `SubEnvWrapper`."""

    num_envs = 1

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.DISABLED}
        # A wrapper that reads neither of them needs no environment that has them.
        self.single_observation_space = getattr(env, "observation_space", None)  # type: ignore[assignment]
        self.single_action_space = getattr(env, "action_space", None)  # type: ignore[assignment]

    @property
    def unwrapped(self) -> Any:
        """The single environment without its wrappers."""
        return self.env.unwrapped

    def __repr__(self) -> str:
        return str(self.env)


class ShownAlone(Shown):
    """Result of a reset or step of a single environment."""

    def __init__(self, observation: Any, info: dict[str, Any]) -> None:
        self._observation, self._info = observation, info

    def observation(self, i: int) -> Any:
        return self._observation

    def entry(self, name: str, i: int, default: Any = None) -> Any:
        return self._info.get(name, default)

    def info(self, i: int) -> dict[str, Any]:
        return self._info


class SingleForm(BranchingWrapper, gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The single form of a `SubEnvWrapper`, which a subclass names as `form`.

    Args:
        *args: arguments of the vector form, also by name.
        **kwargs: arguments of the vector form.

    Attributes:
        vector: the vector form, around only this environment.
    """

    form: ClassVar[type[SubEnvWrapper[Any]]]
    unrecorded: ClassVar[tuple[str, ...]] = ()
    """Arguments that do not belong to `env.spec`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = inspect.signature(cls.form)  # type: ignore[attr-defined]

    def __init__(self, env: gym.Env[Any, Any], *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(self.form).bind(env, *args, **kwargs)
        given.apply_defaults()
        named = {name: value for name, value in given.arguments.items() if name not in ("env", *self.unrecorded)}
        for name, parameter in given.signature.parameters.items():
            named |= named.pop(name) if parameter.kind is inspect.Parameter.VAR_KEYWORD else {}
        # Functions and models among the arguments are not copied.
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **named)
        gym.Wrapper.__init__(self, env)
        self.vector: Any = self.form(Alone(env), *args, **kwargs)
        for name in ("observation_space", "action_space"):
            space = getattr(self.vector, f"single_{name}")
            if space is not getattr(env, name, None):
                setattr(self, name, space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.vector.begin([0], ShownAlone(observation, info))
        return self.shown(observation, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        [sent] = self.vector.sent([action])
        observation, reward, terminated, truncated, info = self.env.step(sent)
        flags = np.array([[terminated], [truncated]], np.bool_)
        step = Step([0], ShownAlone(observation, info), [action], np.array([reward], np.float64), *flags)
        gains = self.vector.advance(step)
        if gains is not None:
            reward = float(reward) + float(gains[0])
        observation, info = self.shown(observation, info)
        return observation, reward, terminated, truncated, info

    def get_state(self) -> Any:
        return self.vector.get_state(0)

    def set_state(self, state: Any) -> None:
        self.vector.set_state(0, state)

    def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mine = self.vector.observed()
        own = {name: column.tolist()[0] for name, column in self.vector.columns().items()}
        # Gymnasium's checker asks for observations that share nothing with earlier ones.
        return observation if mine is None else copy.deepcopy(mine[0]), {**info, **own}


def reset_mask(options: Any) -> Mask | None:
    """Return the mask in the options of a reset, None for all sub-environments."""
    return options.get("reset_mask") if isinstance(options, Mapping) else None


def for_inside(options: Any) -> Any:
    """Return a copy of the options of a reset: Gymnasium's vector environments remove `reset_mask` from them."""
    return dict(options) if isinstance(options, Mapping) else options


def objects(values: Sequence[Any]) -> Array:
    """Return an object array (len(values),) of anything, tuples included."""
    # from an iterator: numpy would take tuples of equal length for rows
    return np.fromiter(values, np.object_, len(values))


def observation_of(space: gym.Space[Any], observations: Any, i: int) -> Any:
    """Return sub-environment i's observation from a batch, also of `Dict` and `Tuple` spaces.

    >>> observation_of(gym.spaces.Discrete(4), np.array([3, 1]), 1).item()
    1
    """
    if isinstance(space, gym.spaces.Dict):
        return {name: observation_of(part, observations[name], i) for name, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(observation_of(part, batch, i) for part, batch in zip(space, observations, strict=True))
    return observations[i]


def _readers(infos: Mapping[str, Any]) -> list[_Reader]:
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
