"""PettingZoo's forms of environments for two agents: the part that does not depend on the environment."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym
from gymnasium.error import ResetNeeded

from agentgym.checks import check_name, suggest
from agentgym.core import TextSpace
from agentgym.outside.packages import install, needed

needed("pettingzoo", f"environments for two agents need PettingZoo: {install('multiagent')}")
from pettingzoo import AECEnv  # noqa: E402  # behind the message
from pettingzoo import ParallelEnv as ParallelEnv  # noqa: E402

#: What a reset and a step of the parallel form return, by agent.
Opened = tuple[dict[str, str], dict[str, dict[str, Any]]]
Stepped = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class TwoAgents(ABC):
    """The agents, their spaces and what a caller may pass, in both forms; `action_spaces` are in the agents' order."""

    AGENTS: ClassVar[tuple[str, str]]
    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id")
    metadata: dict[str, Any]

    def __init__(self, action_spaces: Sequence[gym.Space[str]], render_mode: str | None) -> None:
        super().__init__()
        self.render_mode = render_mode
        if render_mode is not None:
            check_name(render_mode, self.metadata["render_modes"], "render_mode")
        self.possible_agents, self.agents = list(self.AGENTS), list[str]()
        self.observation_spaces = {agent: TextSpace() for agent in self.AGENTS}
        self.action_spaces = dict(zip(self.AGENTS, action_spaces, strict=True))
        self.begun = False

    @abstractmethod
    def transcript(self) -> str:
        """Return what was said and done so far, which is rendered."""

    def observation_space(self, agent: str) -> TextSpace:
        return self.observation_spaces[self.named(agent)]

    def action_space(self, agent: str) -> gym.Space[str]:
        return self.action_spaces[self.named(agent)]

    def render(self) -> str | None:
        if self.render_mode is None:
            return None
        self.need_reset("render")
        return self.transcript()

    def named(self, agent: object) -> str:
        if agent not in self.AGENTS:
            raise KeyError(f"unknown agent {agent!r:.200}; {suggest(agent, self.AGENTS)}")
        return str(agent)

    def need_reset(self, method: str) -> None:
        if not self.begun:
            raise ResetNeeded(f"{type(self).__name__}.{method}: no dialogue has begun; call reset() first")

    def known(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return those of `OPTIONS`; others are ignored with a warning, as PettingZoo's tests expect."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"reset: options must be a dict or None, got {type(options).__name__} ({options!r:.200})")
        given = dict(options or {})
        if unknown := [name for name in given if name not in self.OPTIONS]:
            message = f"reset: options {unknown} are unknown and ignored; known: {', '.join(self.OPTIONS)}"
            warnings.warn(message, UserWarning, stacklevel=4)
        return {name: given[name] for name in self.OPTIONS if name in given}

    def commands(self, actions: Mapping[str, Any], *asked: str) -> dict[str, str]:
        """Return the actions by agent; KeyError for another agent, TypeError if one of `asked` (all) gives no text."""
        if not isinstance(actions, Mapping):
            raise TypeError(f"expected a dict of actions by agent, got {type(actions).__name__} ({actions!r:.200})")
        given = {self.named(agent): action for agent, action in actions.items()}
        for agent, action in given.items():
            if not isinstance(action, str) and agent in (asked or self.AGENTS):
                raise TypeError(f"{agent}: expected a str command, got {type(action).__name__} ({action!r:.200})")
        return given

    def each(self, of: Callable[[str], Any]) -> dict[str, Any]:
        return {agent: of(agent) for agent in self.AGENTS}


class InTurns(TwoAgents, AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """The form in which the agents take turns."""

    @abstractmethod
    def play(self, agent: str, command: str) -> None:
        """Play a command; set `rewards`, `terminations`, `truncations`, `infos` and `agent_selection`."""

    def start(self, first: str) -> None:
        """Begin an episode in which this agent acts first."""
        self.agents, self.agent_selection = list(self.AGENTS), first
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.AGENTS, 0.0), dict.fromkeys(self.AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.AGENTS, False), dict.fromkeys(self.AGENTS, False)

    def step(self, action: str | None) -> None:
        """Play the selected agent's command; at the end, None takes an agent out."""
        if not self.agents:
            raise ResetNeeded(f"{type(self).__name__}.step: the dialogue is over or never began; call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        commands = self.commands({agent: action})
        self._cumulative_rewards[agent] = 0.0
        self.play(agent, commands[agent])
        self._accumulate_rewards()
