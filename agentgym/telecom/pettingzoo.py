"""Telecom for two agents, the desk and the customer: PettingZoo's turn-by-turn form (AEC) and its parallel form."""

from collections.abc import Mapping
from typing import Any

from agentgym.core import TextSpace
from agentgym.outside.dialogue import parse
from agentgym.outside.text import clean
from agentgym.outside.two_agents import InTurns, Opened, ParallelEnv, Stepped, TwoAgents
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


class TelecomAECEnv(InTurns):
    """The desk, with the company's tools, and the customer, with the phone, in turns.

    "desk" acts as the agent of `TelecomEnv(side="agent")`; the turn goes to "customer" with `say(text=...)`. "customer"
    acts by JSON objects (`agentgym.outside.dialogue.parse`): an "action" whose argument is a call of
    the phone, after which it is in turn again, "speak", "none" or "leave". Both get the reward of the case.

    The desk observes the ticket or the last answer, the customer the case and all that was said and done.

    Args:
        render_mode: "ansi" (what the customer observes) or None.
        max_steps: turns of the desk, after which the case is cut.
        **kwargs: of `TelecomEnv`, besides `side` and `customer`.

    >>> env = TelecomAECEnv()
    >>> env.reset(seed=0, options={"split": "train", "index": 0})
    >>> env.step('say(text="Please look at the status bar.")')
    >>> env.agent_selection, "Please look" in env.observe("customer")
    ('customer', True)
    """

    AGENTS = AGENTS
    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "telecom_v0", "render_modes": ["ansi"], "render_fps": 1, "is_parallelizable": True
    }  # fmt: skip

    def __init__(self, *, render_mode: str | None = None, max_steps: int = 100, **kwargs: Any) -> None:
        self.env = TelecomEnv(side="agent", customer=_Other(), **kwargs)
        super().__init__([self.env.action_space, TextSpace(samples=_ACTS)], render_mode)
        self.max_steps = max_steps
        self.agent_selection = AGENTS[0]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        _, self._info = self.env.reset(seed=seed, options=self.known(options))
        self.begun = True
        self._steps, self._command = 0, ""
        self.start(AGENTS[0])
        self.infos = self.each(self._told)

    def observe(self, agent: str) -> str:
        self.need_reset("observe")
        return self.env.observe() if self.named(agent) == "desk" else self.transcript()

    def transcript(self) -> str:
        return self.env.seen_by_customer().text

    def play(self, agent: str, command: str) -> None:
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        if agent == "desk":
            self._command = clean(command)
            self.env.submit(self._command)
        else:
            self.env.hear(parse(clean(command))[0])
        self.agent_selection = AGENTS[self.env.view is not None]
        if self.agent_selection == "desk":
            reward, over, valid = self.env.act(self._command)
            self._steps += 1
            self._info = self.env.describe(valid)
            self.rewards = dict.fromkeys(AGENTS, reward)
            self.terminations = dict.fromkeys(AGENTS, over)
            self.truncations = dict.fromkeys(AGENTS, not over and self._steps >= self.max_steps)
        self.infos = self.each(self._told)

    def _told(self, agent: str) -> dict[str, Any]:
        return {**self._info, "in_turn": agent == self.agent_selection}


class TelecomParallelEnv(TwoAgents, ParallelEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """As `TelecomAECEnv`, with both asked at once: what the agent that is not in turn answers is not read.

    `infos[agent]["in_turn"]` says who is; one without an action does nothing. After the end a step returns empty dicts.
    """

    AGENTS = AGENTS
    metadata: dict[str, Any] = TelecomAECEnv.metadata

    def __init__(self, **kwargs: Any) -> None:
        self.turns = TelecomAECEnv(**kwargs)
        super().__init__(list(self.turns.action_spaces.values()), self.turns.render_mode)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Opened:
        self.turns.reset(seed, options)
        self.agents, self.begun = list(AGENTS), True
        return self.each(self.turns.observe), dict(self.turns.infos)

    def step(self, actions: Mapping[str, str]) -> Stepped:
        self.need_reset("step")
        turns = self.turns
        commands = self.commands(actions, turns.agent_selection)
        if not self.agents:
            return {}, {}, {}, {}, {}
        turns.step(commands.get(turns.agent_selection, ""))
        if any(turns.terminations.values()) or any(turns.truncations.values()):
            self.agents = []
        rewards, ends = dict(turns.rewards), (dict(turns.terminations), dict(turns.truncations))
        return self.each(turns.observe), rewards, *ends, dict(turns.infos)

    def transcript(self) -> str:
        return self.turns.transcript()
