"""State keys: which situations are the same node of the state graph.

From strict to loose: the environment's exact `info["state_key"]`; a custom key, `CanonicalStates(envs, key=...)`, such
as the papers' keys of ALFWorld; a table's states merged by `relabel_states` (`wrappers.similar_states`: by embeddings).
"""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agentgym.trajectory import StepTable
from wrappers.prompt import text_of
from wrappers.vector_wrapper import Array, Shown, Step, SubEnvWrapper, objects

Key = Callable[[Any, dict[str, Any]], str]


def observation_key(observation: Any, info: dict[str, Any]) -> str:
    """Return the text of the observation."""
    return text_of(observation)


def enriched_key(*names: str) -> Key:
    """Return a key that joins the observation's text with the named info entries."""

    def key(observation: Any, info: dict[str, Any]) -> str:
        missing = [name for name in names if name not in info]
        if missing:
            raise KeyError(f"enriched_key: info has no {missing[0]!r}; it has {sorted(info)}")
        return " | ".join([text_of(observation), *(f"{name}={info[name]}" for name in names)])

    return key


# Made once: keys are asked for at every step.
_WITH_INVENTORY = enriched_key("inventory")
_WITH_LOCATION = enriched_key("location", "inventory")


def rewardflow_key(observation: Any, info: dict[str, Any]) -> str:
    """Return the observation and the inventory with its status, a paper's states of ALFWorld.

    >>> rewardflow_key("You arrive at shelf 1.", {"inventory": "apple 1 (cleaned)"})
    'You arrive at shelf 1. | inventory=apple 1 (cleaned)'
    """
    return _WITH_INVENTORY(observation, info)


def graphgpo_key(observation: Any, info: dict[str, Any]) -> str:
    """Return the observation, the location and the inventory with its status, a paper's states of ALFWorld.

    >>> graphgpo_key("Nothing happens.", {"inventory": "nothing", "location": "shelf 1"})
    'Nothing happens. | location=shelf 1 | inventory=nothing'
    """
    return _WITH_LOCATION(observation, info)


class CanonicalStates(SubEnvWrapper[str]):
    """Add `infos["canonical_key"]`, which the trajectory recorder prefers to `state_key`.

    Put it inside `VectorPromptWindow` (bare observations). Under `SAME_STEP` the key of an episode's last state is in
    `final_info`; a finished sub-environment under `DISABLED` keeps its key.

    Args:
        key: `key(observation, info) -> str` for one sub-environment; must be a pure function.

    >>> import agentgym
    >>> envs = CanonicalStates(gym.make_vec("AgentRL/Sokoban-v0", num_envs=2), key=observation_key)
    >>> observations, infos = envs.reset(seed=0)
    >>> infos["canonical_key"][1] == observations[1]
    True
    """

    frozen = True

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], *, key: Key) -> None:
        super().__init__(env)
        if not callable(key):
            raise TypeError(f"key must be a function of (observation, info), got {key!r}")
        self.key = key

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            name = self.key(shown.observation(i), shown.info(i))
            if not isinstance(name, str):
                raise TypeError(f"key(observation, info) must return a str, got {type(name).__name__} ({name!r})")
            self.states[i] = name

    def advance(self, step: Step) -> None:
        self.begin(step.played, step.after)

    def columns(self) -> dict[str, Array]:
        return {"canonical_key": objects(self.states)}


def relabel_states(table: StepTable, label: Callable[[Sequence[Hashable]], Sequence[Hashable]]) -> StepTable:
    """Return a table in which states of equal label are one; all else is equal.

    States in which an episode terminated stay distinct and are not passed to `label`.

    Args:
        label: takes the distinct ordinary states in order of first appearance, returns one hashable label each.

    Raises:
        ValueError: when `label` returns another number of labels, or the key of a terminal state.

    >>> table = StepTable.from_arrays(group=[0, 0], trajectory=[0, 0], t=[0, 1], state=["a1", "b"], action=["x", "y"],
    ...     next_state=["b", "goal"], reward=[0, 1], won=[1, 1])
    >>> relabel_states(table, lambda states: [state[0] for state in states]).states
    ('a', 'b', 'goal')
    """
    ends = set(table.next_state[table.last[table.terminated[table.last]]].tolist())
    ordinary = [i for i in range(len(table.states)) if i not in ends]
    labels = list(label(tuple(table.states[i] for i in ordinary)))
    if len(labels) != len(ordinary):
        raise ValueError(f"label must return one label per state ({len(ordinary)}), got {len(labels)}")
    terminal = {table.states[i] for i in ends}
    clash = [name for name in labels if name in terminal]
    if clash:
        raise ValueError(f"label {clash[0]!r} is the name of a terminal state; choose labels that no end has")
    names = list(table.states)
    for i, name in zip(ordinary, labels, strict=True):
        names[i] = name
    index: dict[Hashable, int] = {}
    ids = np.array([index.setdefault(name, len(index)) for name in names], np.int64)
    return dataclasses.replace(table, state=ids[table.state], next_state=ids[table.next_state], states=tuple(index))
