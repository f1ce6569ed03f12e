"""SOTOPIA for two agents that are asked at the same time (PettingZoo's `ParallelEnv`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from agentgym.core import suggest
from agentgym.sotopia.pettingzoo import AGENTS, DuoForm


class SotopiaParallelEnv(DuoForm, ParallelEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """Two people with private goals, both played by agents: "agent_0" and "agent_1".

    Observations, actions, ends and tasks are those of `agentgym.sotopia.env.SotopiaEnv`. A step is a turn. With order
    "simultaneous" both act; with "round-robin" and "random" one does, `infos[agent]["kinds"]` is `("none",)` for the
    other, and whatever the other does is nothing. Each agent's reward comes from its own scores.

    Args:
        order: "simultaneous", "round-robin" (agent_0 first) or "random".
        render_mode: "ansi" (the whole dialogue, with all that is private) or None.
        **kwargs: `data`, `judge`, `families`, `split`, `max_turns`, `reward`, `success_threshold`, `world_seed`, as
            those of `SotopiaEnv`.

    >>> env = SotopiaParallelEnv(max_turns=2)
    >>> observations, infos = env.reset(seed=0)
    >>> hello = '{"action_type": "speak", "argument": "Hello."}'
    >>> observations, rewards, terminations, truncations, infos = env.step({"agent_0": hello, "agent_1": hello})
    >>> observations["agent_1"].count("Hello."), rewards
    (2, {'agent_0': 0.0, 'agent_1': 0.0})
    """

    metadata: dict[str, Any] = {"name": "sotopia_v0", "render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(self, order: str = "simultaneous", *, render_mode: str | None = None, **kwargs: Any) -> None:
        self.prepare(order, render_mode, kwargs)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start a dialogue; see `SotopiaEnv` for the options `split`, `index` and `task_id`."""
        self.duo.begin(seed, options)
        self.agents = list(AGENTS)
        return self._each(lambda role: self.duo.observation(role, None)), self._each(self.duo.info)

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play one turn; an agent without an action does nothing.

        Raises:
            KeyError: when there is no such agent.
            TypeError: when an action is not a string.
        """
        for agent in actions:
            if agent not in AGENTS:
                raise KeyError(f"unknown agent {agent!r}; {suggest(agent, AGENTS)}")
        if not self.agents:
            return {}, {}, {}, {}, {}
        duo = self.duo
        turn = duo.world.turn
        duo.play({AGENTS.index(agent): command for agent, command in actions.items()})
        if duo.world.ended:
            self.agents = []
        return (
            self._each(lambda role: duo.observation(role, turn)),
            self._each(duo.reward_of),
            self._each(lambda role: duo.world.terminated),
            self._each(lambda role: duo.world.truncated),
            self._each(duo.info),
        )

    @staticmethod
    def _each(of: Any) -> dict[str, Any]:
        return {agent: of(role) for role, agent in enumerate(AGENTS)}
