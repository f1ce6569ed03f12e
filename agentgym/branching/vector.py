"""Branching: save a sub-environment as it stands, and continue from there in it or in others.

A stack of a vector environment and wrappers is saved from the outside in: each layer adds what it knows of the
sub-environment to what the layer inside has saved (`Saved`). `Branching` declares the verbs; `agentgym.vector` and the
wrappers have them.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils.seeding import np_random


class Saved(NamedTuple):
    """A sub-environment as one layer of a stack saved it.

    Attributes:
        layer: class name of the layer.
        inside: what the layer inside saved.
        own: what this layer knows of the sub-environment.
    """

    layer: str
    inside: Any
    own: Any


class Branching:
    """The verbs of a vector environment, or a wrapper of one, whose sub-environments can be saved and continued.

    >>> import agentgym
    >>> envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=3)
    >>> _ = envs.reset(seed=0)
    >>> observations, infos = envs.fork(0, [1, 2])
    >>> observations[0] == observations[1] == observations[2]
    True
    """

    @abstractmethod
    def snapshot(self, i: int) -> Any:
        """Return sub-environment i as it stands behind this layer: a picklable value that nothing changes later.

        It holds the environment's state, flags, elapsed steps, random state and last info, and what each wrapper from
        here on inside knows of i. What sub-environments share (the graphs of a shaping, say) is not part of it.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
            IndexError: when there is no sub-environment i.
            TypeError: when a layer inside cannot be saved; the message names it.
        """

    @abstractmethod
    def restore(self, indices: Any, states: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        """Continue sub-environments from snapshots, of themselves or of others in an equally built stack.

        Before the first reset all sub-environments must be given. A call with wrong arguments changes nothing.

        Args:
            indices: which sub-environments, a sequence of distinct integers; or one integer.
            states: a snapshot for each; for one integer the snapshot itself.
            seeds: None to keep the random state of the snapshots; or an integer (or None) for each, which seeds what is
                drawn from there on. For one integer the seed itself.

        Returns:
            observations and infos of the whole batch, as `reset` does.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset, when a sub-environment is left out.
            IndexError: when there is no such sub-environment.
            TypeError, ValueError: when indices, states and seeds do not belong together, or a state is no snapshot of
                such a stack.
        """

    def fork(self, i: int, into: Any, seeds: Any = None) -> tuple[Any, dict[str, Any]]:
        """Continue sub-environment i in others too: `restore(into, [snapshot(i)] * len(into), seeds)`.

        Args:
            i: which to copy. It goes on as it was, unless it is in `into` with a seed.
            into: where to, as the indices of `restore`; what these played is dropped.
            seeds: as of `restore`.

        Returns:
            observations and infos of the whole batch, as `reset` does.
        """
        state = self.snapshot(i)
        return self.restore(into, state if _is_whole(into) else [state] * len(into), seeds)

    def reseed(self, indices: Any, seeds: Any) -> None:
        """Seed what sub-environments draw from here on; where they stand, and what they show, stays as it is.

        Episodes that were reset with one seed begin alike and meet the same luck; this gives each its own. It goes
        through every wrapper, to what `agentgym.core.TextEnv.reseed` and `agentgym.branching.single.reseed` do.

        Args:
            indices: which sub-environments, a sequence of distinct integers; or one integer.
            seeds: an integer of at least 0 for each; for one integer the seed itself.

        Raises:
            gymnasium.error.ResetNeeded: before the first reset.
            IndexError: when there is no such sub-environment.
            TypeError, ValueError: when indices and seeds do not belong together, or the environment inside has no
                `reseed`.

        >>> import agentgym
        >>> envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=2)
        >>> _ = envs.reset(seed=[7, 7])
        >>> envs.reseed([0, 1], [1, 2])
        >>> envs.envs[0].np_random.random() == envs.envs[1].np_random.random()
        False
        """
        reseed(getattr(self, "env", None), indices, seeds)


def reseed(envs: Any, indices: Any, seeds: Any) -> None:
    """Seed what sub-environments draw from here on, see `Branching.reseed`, through vector wrappers of any kind."""
    while not callable(getattr(envs, "reseed", None)) and isinstance(envs, gym.vector.VectorWrapper):
        envs = envs.env
    if not callable(getattr(envs, "reseed", None)):
        raise TypeError(
            f"what {type(envs).__name__} draws cannot be seeded anew, for it has no reseed(indices, seeds): give its "
            "class this method (see agentgym.branching.vector.Branching)"
        )
    envs.reseed(indices, seeds)


def inside(env: Any, wrapper: Any) -> Any:
    """Return the environment in a wrapper, or raise a TypeError that says why it cannot be branched."""
    if callable(getattr(env, "snapshot", None)) and callable(getattr(env, "restore", None)):
        return env
    kind = "a wrapper" if isinstance(env, gym.vector.VectorWrapper) else "an environment"
    raise TypeError(
        f"{type(wrapper).__name__}: sub-environments cannot be branched through {type(env).__name__}, {kind} without "
        "snapshot(i) and restore(indices, states, seeds=None): leave it out, or give its class these two methods (see "
        "agentgym.branching.vector.Branching; wrappers.SubEnvWrapper has them)"
    )


def check_index(i: Any, count: int) -> int:
    """Return the index of one of `count` sub-environments, or raise an error that says what it should be."""
    if isinstance(i, (bool, np.bool_)) or not _is_whole(i):
        raise TypeError(f"expected the index of a sub-environment, an integer in 0..{count - 1}, got {i!r:.200}")
    if not 0 <= i < count:
        raise IndexError(f"there is no sub-environment {i}: indices are 0..{count - 1}")
    return operator.index(i)


def read_restore(
    layer: str, count: int, indices: Any, states: Any, seeds: Any
) -> tuple[list[int], list[Saved], list[int | None]]:
    """Check the arguments of `restore`, and return one index, snapshot and seed (or None) each.

    Args:
        layer: class name of whoever restores.
        count: number of sub-environments.
        indices: as of `restore`, like the other two.
        states: see `restore`.
        seeds: see `restore`.
    """
    if _is_whole(indices):
        indices, states, seeds = [indices], [states], None if seeds is None else [seeds]
    chosen = [check_index(i, count) for i in _batch("indices", indices)]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"indices must be distinct, got {chosen!r:.200}")
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
    for seed in numbers:
        if seed is not None and (not _is_whole(seed) or seed < 0):
            raise ValueError(f"seeds must be integers of at least 0, or None, got {seed!r:.200}")
    return chosen, given, [None if seed is None else int(seed) for seed in numbers]


def read_reseed(count: int, indices: Any, seeds: Any) -> list[tuple[int, int]]:
    """Return index and seed of each sub-environment of a `reseed`, of `count` there are.

    Raises:
        IndexError, TypeError, ValueError: see `Branching.reseed`.
    """
    if _is_whole(indices):
        indices, seeds = [indices], [seeds]
    chosen = [check_index(i, count) for i in _batch("indices", indices)]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"indices must be distinct, got {chosen!r:.200}")
    return list(zip(chosen, [_check_seed(seed) for seed in _batch("seeds", seeds, len(chosen))], strict=True))


def random_state(env: gym.Env[Any, Any]) -> tuple[Any, int]:
    """Return the state of an environment's generator, and the seed that it was made with."""
    return env.np_random.bit_generator.state, env.np_random_seed


def load_random_state(env: gym.Env[Any, Any], state: tuple[Any, int]) -> None:
    """Load what `random_state` returned, of this environment or another one."""
    generator, seed = state
    kind: Any = getattr(np.random, generator["bit_generator"])
    if env._np_random is None or type(env._np_random.bit_generator) is not kind:
        env._np_random = np.random.Generator(kind(0))
    env._np_random.bit_generator.state = generator
    env._np_random_seed = seed


def seed_random_state(env: gym.Env[Any, Any], seed: int) -> None:
    """Let an environment's generator give the numbers that it gives after a reset with this seed.

    It stays the same object where there is one, for parts of the environment may hold it.
    """
    new, env._np_random_seed = np_random(seed)
    held = env._np_random
    if held is None or type(held.bit_generator) is not type(new.bit_generator):
        env._np_random = new
    else:
        held.bit_generator.state = new.bit_generator.state


def _check_seed(seed: Any) -> int:
    if isinstance(seed, (bool, np.bool_)) or not _is_whole(seed) or seed < 0:
        raise ValueError(f"seeds must be integers of at least 0, got {seed!r:.200}")
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
