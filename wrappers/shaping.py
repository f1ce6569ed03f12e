"""Reward a step for what it gains on the way to success, without changing which policy is best.

The episodes of a task span a graph (`wrappers.credit.task_graph`), kept across episodes. A state's potential is
`phi(s) = scale * decay^d(s)`, with d(s) the fewest observed steps to success, and 0 where no way is known. The wrapped
environment pays

    r + gamma * phi(s') - phi(s)

which leaves the order of policies as it is (Ng, Harada and Russell 1999) when

* gamma is the learner's own discount;
* the potential of a state that an episode *terminates* in is 0 (Grzes 2017);
* what is subtracted for s is what was added when s was entered, though the graph has grown meanwhile (Devlin and
  Kudenko 2012).

Over an episode of T steps the discounted shaping is then `gamma^T phi(s_T) - phi(s_0)`, whatever was done between.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agentgym.adapter import Key, Success, Task
from wrappers.credit.task_graph import TaskGraphs
from wrappers.vector_wrapper import Array, Shown, SingleForm, Step, SubEnvWrapper

Truncation = Literal["keep", "zero"]


def state_key(observation: Any, info: dict[str, Any]) -> Hashable:
    """The default `key`: `info["canonical_key"]` where a wrapper provides it, else `info["state_key"]`."""
    for name in ("canonical_key", "state_key"):
        if name in info:
            found: Hashable = info[name]
            return found
    raise KeyError(
        f"info has neither 'canonical_key' nor 'state_key', only {sorted(info)}: say what a state is with key=, for "
        "Discrete observations key=lambda observation, info: int(observation)"
    )


def task_id(info: dict[str, Any]) -> Hashable:
    """The default `task`: `info["task_id"]`, and one task for all where there is none."""
    found: Hashable = info.get("task_id", "")
    return found


def won_or_rewarded(reward: float, terminated: bool, info: dict[str, Any]) -> bool:
    """The default `success`: `info["won"]`, and where there is none a termination with a reward above 0."""
    return bool(info["won"]) if "won" in info else terminated and reward > 0


@dataclass(slots=True)
class _Episode:
    """An episode's task, its state, the potential that was paid for entering it, and what the last step paid."""

    task: Hashable = ""
    state: Hashable = ""
    potential: float = 0.0
    shaping: float = 0.0
    unshaped: float = 0.0


class VectorGraphShaping(SubEnvWrapper[_Episode]):
    """Vector form of `GraphShaping`; all sub-environments share the graphs, and grow them in their order.

    `infos["shaping"]` and `infos["unshaped_reward"]` are float64 (num_envs,). Only actions that were played are
    shaped: never those of finished or resetting sub-environments. Under `SAME_STEP` the values of an episode's last
    step are in `final_info`, and the sub-environment itself shows the 0 of its reset.

    Args:
        env: an environment of any kind; a time limit belongs inside (`gym.make` puts it there).
        gamma: the learner's discount, in (0, 1].
        decay: value kept per step from success, in (0, 1]. Below gamma every step of a shortest way gains; at gamma
            it gains nothing and every detour loses; at 1 every state with a known way is worth the same.
        scale: potential at success, in units of reward; at least 0 (0: the graph grows, rewards stay).
        key: `key(observation, info)`, a hashable name of the state. Default: `info["canonical_key"]`, else
            `info["state_key"]`. Any function is safe for the optimal policy; one that merges states that are far
            apart guides badly.
        task: `task(info)`, a hashable name of the episode's task, asked after every reset. Default:
            `info["task_id"]`, else one task for all episodes.
        success: `success(reward, terminated, info)`, whether this step was a success; the reward is the one from
            inside. Default: `info["won"]`, else terminated with a reward above 0.
        graphs: a `TaskGraphs` to share between wrappers, to limit, or to restore. It is not part of `env.spec`.
        truncation: "keep" the potential of a state that the episode is cut off in, for learners that go on from its
            value (Stable-Baselines3 does); "zero" for learners that take the end of an episode for the end of all
            rewards.

    Raises:
        KeyError: by `reset`, when info has no state key and no `key` was given.
        TypeError: when `key` returns something that cannot be hashed.
    """

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        gamma: float,
        *,
        decay: float = 0.9,
        scale: float = 1.0,
        key: Key | None = None,
        task: Task | None = None,
        success: Success | None = None,
        graphs: TaskGraphs | None = None,
        truncation: Truncation = "keep",
    ) -> None:
        super().__init__(env)
        given: dict[str, Any] = {"gamma": gamma, "decay": decay, "scale": scale}
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise TypeError(f"{name} must be a number, got {value!r}")
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma is the learner's discount: pass a number in (0, 1], got {gamma!r}")
        if not 0 < decay <= 1:
            raise ValueError(f"decay is the value kept per step from success: pass a number in (0, 1], got {decay!r}")
        if not (np.isfinite(scale) and scale >= 0):
            raise ValueError(f"scale is the potential at success: pass a finite number of at least 0, got {scale!r}")
        if truncation not in ("keep", "zero"):
            raise ValueError(f"truncation must be 'keep' or 'zero', got {truncation!r}")
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
        """float64 (num_envs,), potential of each sub-environment's state, as it was when the state was entered."""
        return np.array([episode.potential for episode in self.states])

    def begin(self, indices: Sequence[int], shown: Shown) -> None:
        """Start episodes; what they begin with is not shaped."""
        for i in indices:
            observation, info = shown.observation(i), shown.info(i)
            task, state = self.task(info), self._state(observation, info)
            self.states[i] = _Episode(task, state, self._potential(task, state))

    def advance(self, step: Step) -> NDArray[np.float64]:
        """Let the graphs grow, and return the shaping."""
        for episode in self.states:
            episode.shaping = episode.unshaped = 0.0
        for i in step.played:
            self._pay(self.states[i], i, step)
        return np.array([episode.shaping for episode in self.states])

    def copied(self, state: _Episode) -> _Episode:
        """Return an episode that goes on by itself; the graphs belong to all."""
        return replace(state)

    def columns(self) -> dict[str, Array]:
        """Return what the last step paid."""
        return {
            "shaping": np.array([episode.shaping for episode in self.states]),
            "unshaped_reward": np.array([episode.unshaped for episode in self.states]),
        }

    def _pay(self, episode: _Episode, i: int, step: Step) -> None:
        """Grow the graph by a step, and move the episode on."""
        info, terminated, reward = step.after.info(i), bool(step.terminated[i]), float(step.rewards[i])
        state, left = self._state(step.after.observation(i), info), episode.potential
        self.graphs.add(episode.task, episode.state, state, bool(self.success(reward, terminated, info)))
        ends = terminated or (bool(step.truncated[i]) and self.truncation == "zero")
        episode.state, episode.potential = state, 0.0 if ends else self._potential(episode.task, state)
        episode.shaping, episode.unshaped = self.gamma * episode.potential - left, reward

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
    r"""Add `gamma * phi(s') - phi(s)` to every reward; see the module for phi and for what it guarantees.

    Works around any Gymnasium environment. Info gains `shaping`, what was added, and `unshaped_reward`, what came from
    inside (both 0 after a reset). Arguments are those of `VectorGraphShaping`; `graphs` is not part of `env.spec`.

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
        """The graphs, for checkpoints: `graphs.state_dict()`."""
        graphs: TaskGraphs = self.vector.graphs
        return graphs

    @property
    def potential(self) -> float:
        """Potential of the state that the episode is in, as it was when the state was entered."""
        return float(self.vector.states[0].potential)
