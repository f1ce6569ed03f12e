"""Ask an adviser of your own in every state, and put its answer where policies look for the expert's.

An environment's own expert may know what its text does not tell. An adviser is told what a player is told: the
observation and the admissible commands. Cloning it teaches nothing that the student could not find out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from wrappers.places import Places, with_column
from wrappers.prompt import observation_at, text_of


class Adviser(Protocol):
    """Who advises in one place: `agentgym.alfworld.player.Explorer`, for example."""

    def act(self, observation: str, admissible: Collection[str]) -> str:
        """Return a command for what is seen now; called once per step, with an episode's steps in order."""
        ...


class VectorAdvice(gym.vector.VectorWrapper[Any, Any, Any, Any, NDArray[Any]]):
    """Put an adviser's commands into `infos["expert_action"]`, in place of the environment's expert.

    Put it directly around the environment, where observations are bare. Every episode gets a new adviser. At the end
    of an episode the entry is "".

    Args:
        env: a vector environment, with or without an expert of its own.
        adviser: makes an adviser.

    >>> import agentgym
    >>> from agentgym.alfworld.player import Explorer
    >>> envs = VectorAdvice(gym.make_vec("AgentRL/ALFWorld-v0", num_envs=2, data="generated"), Explorer)
    >>> infos = envs.reset(seed=0)[1]
    >>> [advice in known for advice, known in zip(infos["expert_action"], infos["admissible_actions"])]
    [True, True]
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], adviser: Callable[[], Adviser]) -> None:
        super().__init__(env)
        if not callable(adviser):
            raise TypeError(f"adviser must make an adviser when it is called, got {adviser!r}")
        self.adviser = adviser
        self._places = Places(env)
        self._advisers: list[Adviser | None] = [None] * env.num_envs
        self._advice = np.full(env.num_envs, "", np.object_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes, each with a new adviser."""
        observations, infos = self.env.reset(seed=seed, options=options)
        for place in np.flatnonzero(self._places.reset(options)).tolist():
            self._begin(place, observations, infos)
        return observations, {**infos, "expert_action": self._advice.copy()}

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Play one action per place, and ask for advice where the episode goes on."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        phase = self._places.step(terminated, truncated)
        self._advice[phase.ended] = ""
        last = self._advice.copy()
        for place in np.flatnonzero(phase.played & ~phase.ended).tolist():
            self._ask(place, observations, infos)
        for place in np.flatnonzero(phase.began).tolist():
            self._begin(place, observations, infos)
        infos = with_column(infos, phase, "expert_action", self._advice.copy(), last)
        return observations, rewards, terminated, truncated, infos

    def _begin(self, place: int, observations: Any, infos: dict[str, Any]) -> None:
        self._advisers[place] = self.adviser()
        self._ask(place, observations, infos)

    def _ask(self, place: int, observations: Any, infos: dict[str, Any]) -> None:
        adviser = self._advisers[place]
        if adviser is not None:
            text = text_of(observation_at(observations, place))
            self._advice[place] = adviser.act(text, infos["admissible_actions"][place])
