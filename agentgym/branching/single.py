"""Branching of a single environment, through the wrappers around it.

Each layer of the stack is saved in the way it allows, the first of these that applies:

1. `TextEnv`, and another environment that has `snapshot()` and `restore(snapshot)`, save themselves;
2. `BranchingWrapper`, what our wrappers are, has `get_state` and `set_state`;
3. of the wrappers that `gym.make` puts around an environment the counters are known;
4. of any other layer all attributes are deep-copied, but spaces, specification and metadata.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.utils import EzPickle
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from agentgym.branching.vector import load_random_state, random_state, seed_random_state
from agentgym.core import Info, TextEnv

#: What the wrappers of `gym.make` know of an episode; not every version of Gymnasium has all of it.
STOCK: dict[type[Any], tuple[str, ...]] = {
    TimeLimit: ("_elapsed_steps",),
    OrderEnforcing: ("_has_reset",),
    # it compares the first steps with what the reset before them showed
    PassiveEnvChecker: ("checked_reset", "checked_step", "checked_data_reuse", "_previous_data"),
}
_SHARED = frozenset({"env", "spec", "metadata", "_cached_spec", "_metadata"})


class _Place:
    """Stands for a layer inside of what was copied from another one."""


class StackState(NamedTuple):
    """What `snapshot` returns: opaque and picklable.

    Attributes:
        names: class of each layer, from the outermost to the environment.
        places: what stands for each layer.
        states: what each layer knows.
    """

    names: tuple[str, ...]
    places: tuple[_Place, ...]
    states: tuple[Any, ...]


class BranchingWrapper:
    """Mix-in of a `gymnasium.Wrapper` whose episodes can be saved and continued, with those of all layers inside.

    A subclass overrides `get_state` and `set_state` where it knows something of an episode, and `shown` where it shows
    something else than what is inside.
    """

    def get_state(self) -> Any:
        """Return what this wrapper (not those inside) knows of the episode; later steps do not change it."""
        return None

    def set_state(self, state: Any) -> None:
        """Load what `get_state` returned."""

    def shown(self, observation: Any, info: Info) -> tuple[Any, Info]:
        """Return what a state looks like from outside, of which `observation` and `info` are seen from inside."""
        return observation, info

    def snapshot(self) -> StackState:
        """Return the episode as it stands, all layers inside included; see `snapshot`."""
        env: Any = self
        return snapshot(env)

    def restore(self, state: StackState, seed: int | None = None) -> tuple[Any, Info]:
        """Continue from a snapshot, and return observation and info of that state; see `restore`."""
        env: Any = self
        return restore(env, state, seed)


def snapshot(env: gym.Env[Any, Any]) -> StackState:
    """Return the episode as it stands behind all wrappers: a picklable value that later steps do not change.

    Args:
        env: a single environment, for instance from `gym.make`, that was reset.

    Raises:
        TypeError: when a layer cannot be saved; the message names it and says what to do.

    >>> import agentgym
    >>> env = gym.make("AgentRL/Sokoban-v0", max_episode_steps=2)
    >>> _ = env.reset(seed=0)
    >>> before, step = snapshot(env), env.step("up")
    >>> _ = env.step("left")
    >>> _ = restore(env, before)
    >>> env.step("up")[0] == step[0], env.step("left")[3]
    (True, True)
    """
    layers = tuple(_layers(env))
    places = tuple([_Place() for _ in layers])
    memo = {id(layer): place for layer, place in zip(layers, places, strict=True)}
    states = tuple([_saved(layer, memo) for layer in layers])
    return StackState(tuple([type(layer).__name__ for layer in layers]), places, states)


def resume(env: gym.Env[Any, Any], state: StackState, seed: int | None = None) -> None:
    """Continue from a `snapshot` as `restore` does, and show nothing: works with wrappers of any kind."""
    layers = tuple(_layers(env))
    names = tuple([type(layer).__name__ for layer in layers])
    if not isinstance(state, StackState):
        raise TypeError(f"expected what snapshot() returned, got {type(state).__name__}")
    if state.names != names:
        raise ValueError(
            f"the snapshot is of a stack of {' in '.join(reversed(state.names))}, the environment is one of "
            f"{' in '.join(reversed(names))}: both must be built alike"
        )
    memo: dict[int, Any] = {id(place): layer for layer, place in zip(layers, state.places, strict=True)}
    for layer, own in zip(layers, state.states, strict=True):
        _load(layer, own, memo, seed)


def restore(env: gym.Env[Any, Any], state: StackState, seed: int | None = None) -> tuple[Any, Info]:
    """Continue from a `snapshot`, of this environment or of one that was built alike.

    Args:
        env: a single environment; it need not have been reset.
        state: the snapshot; it can be restored many times.
        seed: of what is drawn from there on, where the environment draws from Gymnasium's `np_random`; None to draw
            what was drawn after the snapshot.

    Returns:
        observation and info of the state, as the last reset or step showed them.

    Raises:
        TypeError: when it is no snapshot, or a layer cannot say what it shows; the message names it.
        ValueError: when the snapshot is of another stack.
    """
    for layer in _layers(env):
        _check_shows(layer)
    resume(env, state, seed)
    return _seen(env)


def reseed(env: gym.Env[Any, Any], seed: int) -> None:
    """Seed what an environment draws from here on, through the wrappers around it.

    An environment with a method `reseed(seed)`, as every `TextEnv`, seeds itself. Of any other the generator
    `np_random` is seeded, which `gymnasium.Env.reset(seed=seed)` makes and wrappers share. What is drawn from the
    module `random`, from numpy's global functions or from a generator under another name cannot be reached: such an
    environment needs `reseed(seed)`.
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


def _saves_itself(layer: Any) -> bool:
    has = [callable(getattr(layer, name, None)) for name in ("snapshot", "restore")]
    return not isinstance(layer, gym.Wrapper) and all(has)


def _saved(layer: Any, memo: dict[int, _Place]) -> Any:
    if isinstance(layer, TextEnv):
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
        reason = "it holds an EzPickle, whose copy is a new one that knows nothing of the episode"
    else:
        try:
            return copy.deepcopy(_own(layer), dict(memo))
        except Exception as error:  # whatever a foreign __deepcopy__ raises
            reason = f"its attributes cannot be copied: {type(error).__name__}: {error}"
    raise TypeError(
        f"{type(layer).__name__} cannot be saved ({reason}): leave it out, or give the environment's class snapshot() "
        "and restore(snapshot), or write it as an agentgym.core.TextEnv"
    )


def _load(layer: Any, state: Any, memo: dict[int, Any], seed: int | None) -> None:
    if isinstance(layer, TextEnv):
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
    """The attributes of a layer that an episode may have changed."""
    return {
        name: value
        for name, value in vars(layer).items()
        if name not in _SHARED and not isinstance(value, (gym.Space, gym.envs.registration.EnvSpec))
    }


def _check_shows(layer: Any) -> None:
    known = (TextEnv, BranchingWrapper, gym.ActionWrapper, gym.RewardWrapper, gym.ObservationWrapper, *STOCK)
    if not isinstance(layer, known):
        raise TypeError(
            f"{type(layer).__name__} does not say what it shows of a state that was restored: leave it out, make it an "
            "agentgym.branching.single.BranchingWrapper, or use `resume`, which shows nothing"
        )


def _seen(env: Any) -> tuple[Any, Info]:
    if isinstance(env, TextEnv):
        return env.seen()
    observation, info = _seen(env.env)
    if isinstance(env, BranchingWrapper):
        return env.shown(observation, info)
    return (env.observation(observation) if isinstance(env, gym.ObservationWrapper) else observation), info
