"""Saves and continues an environment and its wrappers layer by layer, in the same stack or an equally built one.

Of layers without snapshots all attributes except spaces, specification and metadata are deep-copied.
"""

import copy
import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle
from gymnasium.utils.seeding import np_random
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

#: State of `gym.make`'s wrappers; not every Gymnasium version has all of it.
STOCK: dict[type[Any], tuple[str, ...]] = {
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    # it compares the first steps with what the reset before them showed
    PassiveEnvChecker: ("checked_reset", "checked_step", "checked_data_reuse", "_previous_data"),
}
_SHARED = frozenset({"env", "spec", "metadata", "_cached_spec", "_metadata"})


class Saved(NamedTuple):
    """An episode as the layer of class `layer` saved it: its `own` state and what the layer `inside` saved."""

    layer: str
    inside: Any
    own: Any


class Branching:
    """Methods of a vector environment or wrapper whose sub-environments can be saved and continued."""

    @abstractmethod
    def snapshot(self, i: int) -> Any:
        """Return the state of sub-environment i as a picklable value that later steps do not change.

        It includes the random state, the last info and the inner wrappers' state, but no data that sub-environments
        share. Raises ResetNeeded before the first reset, a TypeError that names a layer that cannot be saved.
        """

    @abstractmethod
    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        """Continue sub-environments from snapshots of this or an equally built stack; return the batch as `reset` does.

        `indices` are distinct integers, with a snapshot each in `states` and a seed (or None) each in `seeds` for later
        draws; or one integer with one snapshot and seed. `seeds=None` keeps the snapshots' random state. Before the
        first reset all sub-environments must be given. A call that raises changes nothing: ResetNeeded, IndexError for
        a wrong index, TypeError or ValueError for other arguments.
        """

    def fork(self, i: int, into: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        """Copy sub-environment i into others: `restore(into, [snapshot(i)] * len(into), seeds)`."""
        state = self.snapshot(i)
        return self.restore(into, state if _is_whole(into) else [state] * len(into), seeds)

    def reseed(self, indices: Any, seeds: Any) -> None:
        """Seed later draws of sub-environments; states and observations stay.

        Episodes that were reset with one seed draw the same numbers; this makes their draws independent. Arguments
        and errors are those of `restore`; a TypeError too if the environment has no `reseed`.
        """
        reseed_each(getattr(self, "env", None), indices, seeds)


def reseed_each(envs: Any, indices: Any, seeds: Any) -> None:
    """Call `Branching.reseed` through vector wrappers of any kind."""
    while not callable(getattr(envs, "reseed", None)) and isinstance(envs, gym.vector.VectorWrapper):
        envs = envs.env
    if not callable(getattr(envs, "reseed", None)):
        raise TypeError(
            f"draws of {type(envs).__name__} cannot be reseeded, because it has no reseed(indices, seeds): add this "
            "method to its class (see agentgym.branching.Branching)"
        )
    envs.reseed(indices, seeds)


def inside(env: Any, wrapper: Any) -> Any:
    """Return the vector environment inside a wrapper, or raise a TypeError that says why it cannot be branched."""
    if callable(getattr(env, "snapshot", None)) and callable(getattr(env, "restore", None)):
        return env
    kind = "a wrapper" if isinstance(env, gym.vector.VectorWrapper) else "an environment"
    raise TypeError(
        f"{type(wrapper).__name__}: sub-environments cannot be branched through {type(env).__name__}, {kind} without "
        "snapshot(i) and restore(indices, states, seeds=None): leave it out, or give its class these two methods (see "
        "agentgym.branching.Branching; wrappers.SubEnvWrapper has them)"
    )


def check_index(i: Any, count: int) -> int:
    """Return an index below `count`, or raise an error that says what is expected."""
    if isinstance(i, (bool, np.bool_)) or not _is_whole(i):
        raise TypeError(f"expected the index of a sub-environment, an integer in 0..{count - 1}, got {i!r:.200}")
    if not 0 <= i < count:
        raise IndexError(f"there is no sub-environment {i}: indices are 0..{count - 1}")
    return operator.index(i)


def read_restore(
    layer: str, count: int, indices: Any, states: Any, seeds: Any
) -> tuple[list[int], list[Saved], list[int | None]]:
    """Check the arguments of `Branching.restore` for `count` places; return indices, snapshots and seeds."""
    if _is_whole(indices):
        indices, states, seeds = [indices], [states], None if seeds is None else [seeds]
    chosen = _read_indices(indices, count)
    given = _batch("states", states, len(chosen))
    for state in given:
        if not isinstance(state, Saved):
            raise TypeError(f"{layer}.restore: expected what snapshot(i) returned, got {type(state).__name__}")
        if state.layer != layer:
            raise ValueError(
                f"{layer}.restore: the snapshot was taken by {state.layer}; restore it through a stack of the same "
                "wrappers in the same order"
            )
    numbers = [None] * len(chosen) if seeds is None else _batch("seeds", seeds, len(chosen))
    return chosen, given, [None if seed is None else _read_seed(seed, ", or None") for seed in numbers]


def read_reseed(count: int, indices: Any, seeds: Any) -> list[tuple[int, int]]:
    """Check the arguments of `Branching.reseed` for `count` places; return pairs of index and seed."""
    if _is_whole(indices):
        indices, seeds = [indices], [seeds]
    chosen = _read_indices(indices, count)
    return list(zip(chosen, [_read_seed(seed) for seed in _batch("seeds", seeds, len(chosen))], strict=True))


def _read_indices(indices: Any, count: int) -> list[int]:
    chosen = [check_index(i, count) for i in _batch("indices", indices)]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"indices must be distinct, got {chosen!r:.200}")
    return chosen


def _read_seed(seed: Any, otherwise: str = "") -> int:
    if isinstance(seed, (bool, np.bool_)) or not _is_whole(seed) or seed < 0:
        raise ValueError(f"seeds must be integers of at least 0{otherwise}, got {seed!r:.200}")
    return int(seed)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _batch(name: str, values: Any, count: int | None = None) -> list[Any]:
    flat = isinstance(values, np.ndarray) and values.ndim == 1
    if isinstance(values, (str, bytes, Saved)) or not (flat or isinstance(values, Sequence)):
        raise TypeError(f"{name} must be a list, a tuple or an array with one entry per index, got {values!r:.200}")
    if count is not None and len(values) != count:
        raise ValueError(f"{name} must hold one entry per index ({count}), got {len(values)}")
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


class _Place:
    """Placeholder for the inner layer in a copy of a layer's attributes."""


class BranchingWrapper:
    """Mix-in of a `gymnasium.Wrapper` whose episodes can be saved and continued with all inner layers.

    Override `get_state` and `set_state` if the wrapper has state, and `shown` if it changes what is observed.
    """

    def get_state(self) -> Any:
        """Return this wrapper's state (without inner layers); later steps do not change it."""
        return None

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned."""

    def shown(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the outer observation and info for those seen from inside."""
        return observation, info

    def snapshot(self) -> Saved:
        return snapshot(self)  # type: ignore[arg-type]  # it is mixed into a wrapper

    def restore(self, state: Saved, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        return restore(self, state, seed)  # type: ignore[arg-type]


def snapshot(env: gym.Env[Any, Any]) -> Saved:
    """Return the episode of a single environment with all its wrappers; later steps do not change it.

    Raises a TypeError that names a layer that cannot be saved and says what to do.
    """
    layers = tuple(_layers(env))
    places = [_Place() for _ in layers]
    memo = {id(layer): place for layer, place in zip(layers, places, strict=True)}
    saved: Any = None
    for layer, place in zip(layers[::-1], places[::-1], strict=True):
        saved = Saved(type(layer).__name__, saved, (place, _saved(layer, memo)))
    found: Saved = saved
    return found


def resume(env: gym.Env[Any, Any], state: Saved, seed: int | None = None) -> None:
    """Continue from a `snapshot` as `restore` does, without observing; works with any wrapper."""
    layers = tuple(_layers(env))
    if not isinstance(state, Saved):
        raise TypeError(f"expected what snapshot() returned, got {type(state).__name__}")
    parts: list[Saved] = [state]
    while isinstance(parts[-1].inside, Saved):
        parts.append(parts[-1].inside)
    names, own = [part.layer for part in parts], [type(layer).__name__ for layer in layers]
    if names != own:
        raise ValueError(
            f"the snapshot is of a stack of {' in '.join(reversed(names))}, the environment is one of "
            f"{' in '.join(reversed(own))}: both must have the same layers"
        )
    memo: dict[int, Any] = {id(part.own[0]): layer for layer, part in zip(layers, parts, strict=True)}
    for layer, part in zip(layers, parts, strict=True):
        _load(layer, part.own[1], memo, seed)


def restore(env: gym.Env[Any, Any], state: Saved, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Continue from a `snapshot` of this or an equally built environment; return observation and info of that state.

    The environment need not have been reset, and a snapshot can be restored many times. `seed` seeds later draws from
    `np_random`; with None they are those after the snapshot. Raises a TypeError for no snapshot or a layer that cannot
    return its observation, a ValueError for a snapshot of another stack.
    """
    known = (BranchingWrapper, gym.ActionWrapper, gym.RewardWrapper, gym.ObservationWrapper, *STOCK)
    for layer in _layers(env):
        if not (isinstance(layer, known) or _is_ours(layer)):
            raise TypeError(
                f"{type(layer).__name__} cannot return the observation of a restored state: leave it out, make it "
                "an agentgym.branching.BranchingWrapper, or use `resume`, which returns nothing"
            )
    resume(env, state, seed)
    return _seen(env)


def reseed(env: gym.Env[Any, Any], seed: int) -> None:
    """Seed later draws of a single environment through its wrappers, by its `reseed(seed)` or else its `np_random`.

    Draws from the module `random`, numpy's global functions or another generator need such a method.
    """
    if env.has_wrapper_attr("reseed"):
        env.get_wrapper_attr("reseed")(seed)
    else:
        seed_random_state(env.unwrapped, seed)


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env


def _is_ours(layer: Any) -> bool:
    return not isinstance(layer, gym.Wrapper) and all(hasattr(layer, name) for name in ("resume", "seen", "snapshot"))


def _saves_itself(layer: Any) -> bool:
    has = [callable(getattr(layer, name, None)) for name in ("snapshot", "restore")]
    return not isinstance(layer, gym.Wrapper) and all(has)


def _saved(layer: Any, memo: dict[int, _Place]) -> Any:
    if _is_ours(layer):
        return layer.snapshot()
    if _saves_itself(layer):
        return layer.snapshot(), random_state(layer)
    if isinstance(layer, BranchingWrapper):
        return layer.get_state()
    if type(layer) in STOCK:
        return {name: getattr(layer, name) for name in STOCK[type(layer)] if hasattr(layer, name)}
    reason = ""
    if any(getattr(base, "__slots__", ()) for base in type(layer).__mro__):
        reason = "it keeps attributes in __slots__"
    elif any(isinstance(value, EzPickle) and id(value) not in memo for value in vars(layer).values()):
        reason = "it holds an EzPickle, whose copy is a new object without the episode"
    else:
        try:
            return copy.deepcopy(_own(layer), dict(memo))
        except Exception as error:  # a foreign __deepcopy__ may raise anything
            reason = f"its attributes cannot be copied: {type(error).__name__}: {error}"
    raise TypeError(
        f"{type(layer).__name__} cannot be saved ({reason}): leave it out, or give the environment's class snapshot() "
        "and restore(snapshot), or write it as an agentgym.core.TextEnv"
    )


def _load(layer: Any, state: Any, memo: dict[int, Any], seed: int | None) -> None:
    if _is_ours(layer):
        layer.resume(state, seed)
        return
    if _saves_itself(layer):
        saved, random = state
        layer.restore(saved)
        load_random_state(layer, random)
    elif isinstance(layer, BranchingWrapper):
        layer.set_state(state)
    elif type(layer) in STOCK:
        vars(layer).update(state)
    else:
        for name in _own(layer):
            del vars(layer)[name]
        vars(layer).update(copy.deepcopy(state, dict(memo)))
    if seed is not None and not isinstance(layer, gym.Wrapper):
        reseed(layer, seed)


def _own(layer: Any) -> dict[str, Any]:
    fixed = gym.Space, gym.envs.registration.EnvSpec
    return {name: value for name, value in vars(layer).items() if not (name in _SHARED or isinstance(value, fixed))}


def _seen(env: Any) -> tuple[Any, dict[str, Any]]:
    if _is_ours(env):
        seen: tuple[Any, dict[str, Any]] = env.seen()
        return seen
    observation, info = _seen(env.env)
    if isinstance(env, BranchingWrapper):
        return env.shown(observation, info)
    return (env.observation(observation) if isinstance(env, gym.ObservationWrapper) else observation), info


def random_state(env: gym.Env[Any, Any]) -> tuple[Any, int]:
    """Return the state and the seed of an environment's generator."""
    return env.np_random.bit_generator.state, env.np_random_seed


def load_random_state(env: gym.Env[Any, Any], state: tuple[Any, int]) -> None:
    """Load what `random_state` returned."""
    generator, seed = state
    kind: Any = getattr(np.random, generator["bit_generator"])
    if env._np_random is None or type(env._np_random.bit_generator) is not kind:
        env._np_random = np.random.Generator(kind(0))
    env._np_random.bit_generator.state = generator
    env._np_random_seed = seed


def seed_random_state(env: gym.Env[Any, Any], seed: int) -> None:
    """Seed an environment's generator as a reset does; an existing generator object is kept."""
    new, env._np_random_seed = np_random(seed)
    held = env._np_random
    if held is None or type(held.bit_generator) is not type(new.bit_generator):
        env._np_random = new
    else:
        held.bit_generator.state = new.bit_generator.state
