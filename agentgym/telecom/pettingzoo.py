"""Telecom for two agents, the desk and the customer: PettingZoo's turn-by-turn form (AEC) and its parallel form."""

import warnings
from collections.abc import Mapping
from typing import Any

from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv, ParallelEnv

from agentgym.checks import suggest
from agentgym.core import TextSpace
from agentgym.outside.dialogue import parse
from agentgym.outside.text import clean
from agentgym.telecom.env import TelecomEnv

#: Names of the agents, by role.
AGENTS = ("desk", "customer")
_ACTS = (
    '{"action_type": "action", "argument": "check_network_status()"}', '{"action_type": "speak", "argument": "Yes."}',
    '{"action_type": "leave", "argument": ""}',
)  # fmt: skip


class _Other:
    """Stands for a customer whose acts come from outside."""

    def act(self, views: Any) -> Any:
        raise RuntimeError("the customer is played by an agent")


class TelecomAECEnv(AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """The desk, with the company's tools, and the customer, with the phone, in turns.

    "desk" acts as the agent of `TelecomEnv(side="agent")`; the turn goes to "customer" with `say(text=...)`. "customer"
    acts by JSON objects (`agentgym.outside.dialogue.parse`): an "action" whose argument is a call of
    the phone, after which it is in turn again, "speak", "none" or "leave". Both get the reward of the case.

    Args:
        render_mode: "ansi" (what was said and done) or None.
        max_steps: turns of the desk, after which the case is cut.
        **kwargs: of `TelecomEnv`, besides `side` and `customer`.

    >>> env = TelecomAECEnv()
    >>> env.reset(seed=0, options={"split": "train", "index": 0})
    >>> env.step('say(text="Please look at the status bar.")')
    >>> env.agent_selection, "Please look" in env.observe("customer")
    ('customer', True)
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "telecom_v0", "render_modes": ["ansi"], "render_fps": 1, "is_parallelizable": True
    }  # fmt: skip

    def __init__(self, *, render_mode: str | None = None, max_steps: int = 100, **kwargs: Any) -> None:
        super().__init__()
        self.env = TelecomEnv(side="agent", customer=_Other(), render_mode=render_mode, **kwargs)
        self.render_mode, self.max_steps = render_mode, max_steps
        self.possible_agents, self.agents = list(AGENTS), list[str]()
        self.observation_spaces = {agent: TextSpace() for agent in AGENTS}
        self.action_spaces = {"desk": self.env.action_space, "customer": TextSpace(samples=_ACTS)}
        self.agent_selection = AGENTS[0]

    def observation_space(self, agent: str) -> TextSpace:
        """Return an agent's space of observations."""
        return self.observation_spaces[_named(agent)]

    def action_space(self, agent: str) -> Any:
        """Return an agent's space of actions."""
        return self.action_spaces[_named(agent)]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a case; options other than those of `TelecomEnv` are left aside with a warning."""
        given = dict(options or {})
        if unknown := [name for name in given if name not in TelecomEnv.OPTIONS]:
            known = ", ".join(TelecomEnv.OPTIONS)
            warnings.warn(f"reset: options {unknown} are not known and left aside; known: {known}", stacklevel=2)
        _, self._info = self.env.reset(
            seed=seed, options={name: given[name] for name in TelecomEnv.OPTIONS if name in given}
        )  # fmt: skip
        self.agents, self.agent_selection = list(AGENTS), AGENTS[0]
        self._steps, self._command = 0, ""
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self._note()

    def observe(self, agent: str) -> str:
        """Return the ticket or the last answer (desk), or the case and all that was said and done (customer)."""
        if _named(agent) == "desk":
            return self.env.observe()
        return self.env.seen_by_customer().text

    def step(self, action: str | None) -> None:
        """Play the selected agent's act; at the end, None takes an agent out."""
        if not self.agents:
            raise ResetNeeded("TelecomAECEnv.step: the case is closed or never began; call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise TypeError(f"{agent}: expected a str command, got {type(action).__name__} ({action!r:.200})")
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards[agent] = 0.0
        if agent == "desk":
            self._command = clean(action)
            self.env.submit(self._command)
        else:
            self.env.hear(parse(clean(action))[0])
        if self.env.view is None:
            reward, over, valid = self.env.act(self._command)
            self._steps += 1
            self._info = self.env.describe(valid)
            self.rewards = dict.fromkeys(AGENTS, reward)
            self.terminations = dict.fromkeys(AGENTS, over)
            self.truncations = dict.fromkeys(AGENTS, not over and self._steps >= self.max_steps)
            self.agent_selection = AGENTS[0]
        else:
            self.agent_selection = AGENTS[1]
        self._note()
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Return what the customer saw (render mode "ansi")."""
        return None if self.render_mode is None else self.observe("customer")

    def close(self) -> None:
        """Nothing is held open."""

    def _note(self) -> None:
        self.infos = {agent: {**self._info, "in_turn": agent == self.agent_selection} for agent in AGENTS}


class TelecomParallelEnv(ParallelEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """As `TelecomAECEnv`, with both asked at once: what the agent that is not in turn answers is not read.

    `infos[agent]["in_turn"]` says who is.
    """

    metadata: dict[str, Any] = TelecomAECEnv.metadata

    def __init__(self, **kwargs: Any) -> None:
        self.turns = TelecomAECEnv(**kwargs)
        self.render_mode = self.turns.render_mode
        self.possible_agents, self.agents = list(AGENTS), list[str]()
        self.observation_spaces, self.action_spaces = self.turns.observation_spaces, self.turns.action_spaces
        self.observation_space, self.action_space = self.turns.observation_space, self.turns.action_space

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start a case."""
        self.turns.reset(seed, options)
        self.agents = list(AGENTS)
        return {agent: self.turns.observe(agent) for agent in AGENTS}, dict(self.turns.infos)

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Play the act of the agent in turn; one without an action does nothing. After the end: empty dicts."""
        for agent in actions:
            _named(agent)
        if not self.agents:
            return {}, {}, {}, {}, {}
        turns = self.turns
        turns.step(actions.get(turns.agent_selection, ""))
        if any(turns.terminations.values()) or any(turns.truncations.values()):
            self.agents = []
        seen = {agent: turns.observe(agent) for agent in AGENTS}
        return seen, dict(turns.rewards), dict(turns.terminations), dict(turns.truncations), dict(turns.infos)

    def render(self) -> str | None:
        """Return what the customer saw (render mode "ansi")."""
        return self.turns.render()

    def close(self) -> None:
        """Nothing is held open."""


def _named(agent: object) -> str:
    if agent not in AGENTS:
        raise KeyError(f"unknown agent {agent!r:.200}; {suggest(agent, AGENTS)}")
    return str(agent)
