"""SOTOPIA for two agents in PettingZoo's parallel and AEC forms."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.checks import whole
from agentgym.core import TextSpace
from agentgym.outside.dialogue import NONE, Act, parse
from agentgym.outside.two_agents import InTurns, Opened, ParallelEnv, Stepped, TwoAgents
from agentgym.sotopia import dialogue
from agentgym.sotopia.env import SotopiaEnv
from agentgym.sotopia.players import Silent
from agentgym.sotopia.profiles import ROLES
from agentgym.sotopia.rules import SocialWorld, draw_schedule
from agentgym.tasks import choose


class PairedEnv(TwoAgents):
    """The common part of both forms.

    Args:
        order: of turns, see `rules.SocialWorld`.
        render_mode: "ansi" (the dialogue as the judge sees it) or None.
        **kwargs: of `env.SotopiaEnv`, besides `partner`, `role` and `expert`.
    """

    AGENTS = ROLES
    metadata: dict[str, Any] = {"name": "sotopia_v0", "render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(self, order: str, *, render_mode: str | None = None, **kwargs: Any) -> None:
        #: The dialogue of one agent with these arguments, which is not played.
        self.env = SotopiaEnv(order=order, partner=Silent(), role=0, expert=False, **kwargs)
        super().__init__([TextSpace(samples=dialogue.COMMANDS) for _ in ROLES], render_mode)
        self.tasks, self.instructions = self.env.tasks, self.env.instructions
        self._rng: np.random.Generator | None = None

    def transcript(self) -> str:
        return self.world.dialogue.text

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        given, rng = self.known(options), self._rng
        if seed is not None or rng is None:
            rng = np.random.default_rng(None if seed is None else whole("seed", seed, 0))
        env, task = self.env, choose(self.tasks, self.env.split, given, rng)
        dialogue.check_playable(task, env.judge)
        self.task, self._rng = task, rng
        self.world = SocialWorld(task, env.order, env.max_turns, draw_schedule(env.order, env.max_turns, rng))
        self.results = dialogue.Result(), dialogue.Result()
        self._valid = [True, True]
        self.agents = list(ROLES)
        self.begun = True

    def _play(self, commands: Mapping[str, str]) -> None:
        """Play one turn; commands out of turn are ignored, and a missing one is `none`."""
        acts: list[Act] = [NONE, NONE]
        for agent, command in commands.items():
            role = ROLES.index(agent)
            acts[role], self._valid[role] = parse(command)
        self.world.play((acts[0], acts[1]))
        if self.world.ended:
            verdict = dialogue.ask_judge(self.env.judge, [self.world.dialogue])[0]
            self.results = dialogue.result_of(verdict, 0), dialogue.result_of(verdict, 1)

    def _opening(self, agent: str) -> str:
        return self.world.opening(ROLES.index(agent))

    def _reward_of(self, agent: str) -> float:
        return self.results[ROLES.index(agent)].reward(self.env.reward, self.env.success_threshold)

    def _info(self, agent: str) -> dict[str, Any]:
        role = ROLES.index(agent)
        world, result = self.world, self.results[role]
        return {
            "task_id": self.task.id, "is_action_valid": self._valid[role], "kinds": world.kinds(role),
            "turn": world.turn, "speaker": world.names[role], "ended": world.ended,
            "won": result.won(self.env.success_threshold), "goal": result.goal, "dimensions": result.dimensions,
            "unscored": bool(result.failure), "failure": result.failure,
        }  # fmt: skip


class SotopiaParallelEnv(PairedEnv, ParallelEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """Two people with private goals, played by the agents "agent_0" and "agent_1"; a step is a turn.

    Arguments are those of `PairedEnv`; everything else is as in `agentgym.sotopia.env.SotopiaEnv`. With order
    "simultaneous" both act; with "round-robin" and "random" one does, and the other's `infos[agent]["kinds"]` is
    `("none",)`. Each agent's reward comes from its own scores.
    """

    def __init__(self, order: str = "simultaneous", **kwargs: Any) -> None:
        super().__init__(order, **kwargs)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Opened:
        self._begin(seed, options)
        return self.each(self._opening), self.each(self._info)

    def step(self, actions: Mapping[str, str]) -> Stepped:
        self.need_reset("step")
        commands = self.commands(actions)
        if not self.agents:
            return {}, {}, {}, {}, {}
        turn = self.world.turn
        self._play(commands)
        if self.world.ended:
            self.agents = []
        flags = dict.fromkeys(ROLES, self.world.terminated), dict.fromkeys(ROLES, self.world.truncated)
        seen = dict.fromkeys(ROLES, self.world.lines(turn))
        return seen, self.each(self._reward_of), *flags, self.each(self._info)


class SotopiaAECEnv(PairedEnv, InTurns):
    """As `SotopiaParallelEnv`, turn by turn: an agent observes what happened since it last acted.

    Orders: "round-robin" (agent_0 first) or "random".
    """

    metadata: dict[str, Any] = PairedEnv.metadata | {"is_parallelizable": True}

    def __init__(self, order: str = "round-robin", **kwargs: Any) -> None:
        if order == "simultaneous":
            raise ValueError("order 'simultaneous' is no order of turns: use agentgym.sotopia.parallel_env")
        super().__init__(order, **kwargs)
        self.agent_selection = ROLES[0]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._begin(seed, options)
        self._acted: dict[str, int | None] = dict.fromkeys(ROLES)
        self.start(ROLES[self.world.speakers[0]])
        self.infos = self.each(self._info)

    def observe(self, agent: str) -> str:
        agent = self.named(agent)
        self.need_reset("observe")
        acted = self._acted[agent]
        return (
            self.world.opening(ROLES.index(agent)) + self.world.lines(0) if acted is None else self.world.lines(acted)
        )

    def play(self, agent: str, command: str) -> None:
        world = self.world
        turn = world.turn
        self._play({agent: command})
        self._acted[agent] = turn
        self.rewards, self.infos = self.each(self._reward_of), self.each(self._info)
        self.terminations = dict.fromkeys(ROLES, world.terminated)
        self.truncations = dict.fromkeys(ROLES, world.truncated)
        self.agent_selection = ROLES[world.speakers[0] if world.speakers else 1 - ROLES.index(agent)]
