"""Potential-based shaping by the distance to success in per-task state graphs (`wrappers.credit.task_graph`).

The wrapped environment pays

    r + gamma * phi(s') - phi(s),   phi(s) = scale * decay^d(s)

with d(s) the fewest observed steps to success, phi = 0 without a known path. The order of policies is unchanged (Ng,
Harada and Russell 1999) if gamma is the learner's discount; phi is 0 in a *terminal* state (Grzes 2017); and phi(s) is
subtracted as it was added when s was entered, although the graph has grown (Devlin and Kudenko 2012). The discounted
shaping of T steps is then `gamma^T phi(s_T) - phi(s_0)`.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.adapter import Key, Success, Task
from agentgym.checks import Range, check_value
from wrappers.credit.task_graph import TaskGraphs
from wrappers.vector_wrapper import Array, Shown, SingleForm, Step, SubEnvWrapper

Truncation = Literal["keep", "zero"]


def state_key(observation: Any, info: dict[str, Any]) -> Hashable:
    """The default `key`: `info["canonical_key"]` if present, else `info["state_key"]`."""
    for name in ("canonical_key", "state_key"):
        if name in info:
            found: Hashable = info[name]
            return found
    raise KeyError(
        f"info has neither 'canonical_key' nor 'state_key', only {sorted(info)}: say what a state is with key=, for "
        "Discrete observations key=lambda observation, info: int(observation)"
    )


def task_id(info: dict[str, Any]) -> Hashable:
    """The default `task`: `info["task_id"]`, or one task for all."""
    found: Hashable = info.get("task_id", "")
    return found


def won_or_rewarded(reward: float, terminated: bool, info: dict[str, Any]) -> bool:
    """The default `success`: `info["won"]`, or else a termination with a reward above 0."""
    return bool(info["won"]) if "won" in info else terminated and reward > 0


@dataclass(slots=True)
class _Episode:
    task: Hashable = ""
    state: Hashable = ""
    potential: float = 0.0
    shaping: float = 0.0
    unshaped: float = 0.0


class VectorGraphShaping(SubEnvWrapper[_Episode]):
    """Vector form of `GraphShaping`; all sub-environments share the graphs, and extend them in their order.

    `infos["shaping"]` and `infos["unshaped_reward"]` are float64 (num_envs,). Only played actions are shaped. Under
    `SAME_STEP` the values of an episode's last step are in `final_info`, and the sub-environment itself shows 0.

    Args:
        env: an environment of any kind; a time limit belongs inside (as in `gym.make`).
        gamma: the learner's discount, in (0, 1].
        decay: value kept per step from success, in (0, 1]. Below gamma every step of a shortest path gains; at gamma it
            gains nothing and every detour loses; at 1 all states with a known path are equal.
        scale: potential at success, in units of reward, at least 0 (0: rewards unchanged).
        key: `key(observation, info)`, a hashable state name; default `state_key`. Merging distant states guides badly.
        task: `task(info)`, a hashable task name, called after every reset; default `task_id`.
        success: `success(reward, terminated, info)` with the inner reward; default `won_or_rewarded`.
        graphs: a `TaskGraphs` to share, limit or restore; not part of `env.spec`.
        truncation: "keep" the potential of a truncated state, if the learner bootstraps there, else "zero".

    Raises:
        KeyError: by `reset`, when info has no state key and no `key` was given.
        TypeError: when `key` returns something unhashable.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], gamma: float, *, decay: float = 0.9, scale: float = 1.0,
        key: Key | None = None, task: Task | None = None, success: Success | None = None,
        graphs: TaskGraphs | None = None, truncation: Truncation = "keep",
    ) -> None:  # fmt: skip
        super().__init__(env)
        for name, value in (("gamma", gamma), ("decay", decay)):
            check_value(name, value, float, Range(above=0, high=1))
        check_value("scale", scale, float, Range(low=0))
        check_value("truncation", truncation, Truncation)
        if graphs is not None and not isinstance(graphs, TaskGraphs):
            raise TypeError(f"graphs must be a TaskGraphs or None, got {type(graphs).__name__}")
        for name, function in (("key", key), ("task", task), ("success", success)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function or None, got {function!r}")
        self.gamma, self.decay, self.scale = float(gamma), float(decay), float(scale)
        self.key: Key = state_key if key is None else key
        self.task: Task = task_id if task is None else task
        self.success: Success = won_or_rewarded if success is None else success
        self.graphs = TaskGraphs() if graphs is None else graphs
        self.truncation = truncation
        self.states = [_Episode() for _ in range(self.num_envs)]

    @property
    def potential(self) -> NDArray[np.float64]:
        """float64 (num_envs,), potential of each state at the time it was entered."""
        return np.array([episode.potential for episode in self.states])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        for i in indices:
            observation, info = shown.observation(i), shown.info(i)
            task, state = self.task(info), self._state(observation, info)
            self.states[i] = _Episode(task, state, self._potential(task, state))

    def advance(self, step: Step) -> NDArray[np.float64]:
        for episode in self.states:
            episode.shaping = episode.unshaped = 0.0
        for i in step.played:
            episode, info, terminated = self.states[i], step.after.info(i), bool(step.terminated[i])
            state, left, reward = (
                self._state(step.after.observation(i), info),
                episode.potential,
                float(step.rewards[i]),
            )
            self.graphs.add(episode.task, episode.state, state, bool(self.success(reward, terminated, info)))
            ends = terminated or (bool(step.truncated[i]) and self.truncation == "zero")
            episode.state, episode.potential = state, 0.0 if ends else self._potential(episode.task, state)
            episode.shaping, episode.unshaped = self.gamma * episode.potential - left, reward
        return np.array([episode.shaping for episode in self.states])

    def copied(self, state: _Episode) -> _Episode:
        return replace(state)

    def columns(self) -> dict[str, Array]:
        return {
            "shaping": np.array([episode.shaping for episode in self.states]),
            "unshaped_reward": np.array([episode.unshaped for episode in self.states]),
        }

    def _state(self, observation: Any, info: dict[str, Any]) -> Hashable:
        state = self.key(observation, info)
        try:
            hash(state)
        except TypeError:
            raise TypeError(
                f"key(observation, info) must return something hashable, got {type(state).__name__}; return an int, a "
                "string, a tuple, or observation.tobytes() of an array"
            ) from None
        return state

    def _potential(self, task: Hashable, state: Hashable) -> float:
        distance = self.graphs.distance(task, state) if self.scale else math.inf
        return 0.0 if distance == math.inf else self.scale * self.decay**distance  # 1**inf would be 1


class GraphShaping(SingleForm):
    r"""Add `gamma * phi(s') - phi(s)` to every reward (see the module); arguments as `VectorGraphShaping`.

    Works with any Gymnasium environment. Info gains `shaping` and `unshaped_reward` (both 0 after a reset).

    >>> import agentgym
    >>> env = GraphShaping(gym.make("AgentRL/Sokoban-v0"), gamma=0.99)
    >>> for episode in range(2):
    ...     _ = env.reset(options={"level": "######\n#P_XO#\n######"})
    ...     print([round(env.step("right")[4]["shaping"], 4) for step in range(2)])
    [0.0, 0.0]
    [0.081, -0.9]
    """

    form = VectorGraphShaping
    unrecorded = ("graphs",)

    @property
    def graphs(self) -> TaskGraphs:
        graphs: TaskGraphs = self.vector.graphs
        return graphs

    @property
    def potential(self) -> float:
        """Potential of the current state at the time it was entered."""
        return float(self.vector.states[0].potential)
