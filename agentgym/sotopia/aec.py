"""SOTOPIA for two agents that take turns (PettingZoo's `AECEnv`)."""

from __future__ import annotations

from typing import Any

from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv

from agentgym.sotopia.pettingzoo import AGENTS, DuoForm


class SotopiaAECEnv(DuoForm, AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """Two people with private goals, played by "agent_0" and "agent_1", who speak one after the other.

    As `agentgym.sotopia.parallel.SotopiaParallelEnv`, turn by turn: an agent observes what was done since it last
    acted, and at its first turn everything.

    Args:
        order: "round-robin" (agent_0 first) or "random".
        render_mode: "ansi" (the whole dialogue, with all that is private) or None.
        **kwargs: as those of `SotopiaParallelEnv`.

    Raises:
        ValueError: with order "simultaneous", which is the parallel form.

    >>> env = SotopiaAECEnv(families="bargain")
    >>> env.reset(seed=0)
    >>> env.step('{"action_type": "speak", "argument": "Good morning!"}')
    >>> env.agent_selection, "Good morning!" in env.last()[0]
    ('agent_1', True)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "sotopia_v0", "render_modes": ["ansi"], "render_fps": 1, "is_parallelizable": True
    }  # fmt: skip

    def __init__(self, order: str = "round-robin", *, render_mode: str | None = None, **kwargs: Any) -> None:
        super().__init__()
        if order == "simultaneous":
            raise ValueError("order 'simultaneous' is no order of turns: use agentgym.sotopia.parallel_env")
        self.prepare(order, render_mode, kwargs)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a dialogue; see `SotopiaEnv` for the options `split`, `index` and `task_id`."""
        self.duo.begin(seed, options)
        self.agents = list(AGENTS)
        self._acted: dict[str, int | None] = dict.fromkeys(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self._note()
        self.agent_selection = AGENTS[self.duo.world.speakers[0]]

    def observe(self, agent: str) -> str:
        """Return what was done since the agent's last turn, that turn included; from the start before the first."""
        return self.duo.observation(AGENTS.index(agent), self._acted[agent])

    def step(self, action: str | None) -> None:
        """Play the selected agent's act; at the end, None takes an agent out of the dialogue.

        Raises:
            TypeError: when the action is not a string.
            gymnasium.error.ResetNeeded: before the first reset and when no agent is left.
        """
        if not self.agents:
            raise ResetNeeded("SotopiaAECEnv.step: the dialogue is over or never began; call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        world = self.duo.world
        turn = world.turn
        self.duo.play({AGENTS.index(agent): action})  # type: ignore[dict-item]  # play says what is wrong with it
        self._acted[agent] = turn
        self._cumulative_rewards[agent] = 0.0
        for role, each in enumerate(AGENTS):
            self.rewards[each] = self.duo.reward_of(role)
            self.terminations[each], self.truncations[each] = world.terminated, world.truncated
        self._note()
        self._accumulate_rewards()
        self.agent_selection = AGENTS[world.speakers[0] if world.speakers else 1 - AGENTS.index(agent)]

    def _note(self) -> None:
        self.infos = {agent: self.duo.info(role) for role, agent in enumerate(AGENTS)}
