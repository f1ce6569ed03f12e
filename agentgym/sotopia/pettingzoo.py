"""SOTOPIA for two agents in PettingZoo's parallel and AEC forms."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.checks import check_name, whole
from agentgym.core import TextSpace
from agentgym.outside.dialogue import NONE, Act, parse
from agentgym.outside.two_agents import InTurns, Opened, ParallelEnv, Stepped, TwoAgents
from agentgym.sotopia import dialogue
from agentgym.sotopia.judge import make_judge
from agentgym.sotopia.profiles import ROLES
from agentgym.sotopia.rules import ORDERS, SocialWorld, draw_schedule
from agentgym.sotopia.tasks import choose_split, load_tasks
from agentgym.tasks import choose


class PairedEnv(TwoAgents):
    """The common part of both forms; arguments are those of `rules.SocialWorld` and `env.SotopiaEnv`."""

    AGENTS = ROLES
    metadata: dict[str, Any] = {"name": "sotopia_v0", "render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        order: str,
        *,
        render_mode: str | None = None,
        data: str | Path | None = None,
        judge: str | dialogue.Judge = "rules",
        families: Iterable[str] | str | None = None,
        split: str | None = None,
        max_turns: int = 20,
        reward: str = "goal",
        success_threshold: float = 6,
        world_seed: int = 0,
    ) -> None:
        super().__init__([TextSpace(samples=dialogue.COMMANDS) for _ in ROLES], render_mode)
        self.order = check_name(order, ORDERS, "order")
        self.tasks = load_tasks(data, families, world_seed)
        self.judge = make_judge(judge)
        self.split = choose_split(self.tasks, split, computed=dialogue.needs_game(self.judge))
        self.max_turns = whole("max_turns", max_turns, 1)
        self.reward = check_name(reward, dialogue.REWARDS, "reward")
        self.threshold = dialogue.check_threshold(success_threshold)
        self.instructions = dialogue.INSTRUCTIONS.format(turns=self.max_turns)
        self._rng: np.random.Generator | None = None

    def transcript(self) -> str:
        """Return the dialogue so far, as the judge sees it."""
        return self.world.dialogue.text

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        given, rng = self.known(options), self._rng
        if seed is not None or rng is None:
            rng = np.random.default_rng(None if seed is None else whole("seed", seed, 0))
        task = choose(self.tasks, self.split, given, rng)
        dialogue.check_playable(task, self.judge)
        self.task, self._rng = task, rng
        schedule = draw_schedule(self.order, self.max_turns, rng)
        self.world = SocialWorld(task, self.order, self.max_turns, schedule)
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
            verdict = dialogue.ask_judge(self.judge, [self.world.dialogue])[0]
            self.results = dialogue.result_of(verdict, 0), dialogue.result_of(verdict, 1)

    def _observation(self, agent: str, since: int | None) -> str:
        if since is None:
            return self.world.opening(ROLES.index(agent)) + self.world.lines(0)
        return self.world.lines(since)

    def _reward_of(self, agent: str) -> float:
        return self.results[ROLES.index(agent)].reward(self.reward, self.threshold) if self.world.ended else 0.0

    def _info(self, agent: str) -> dict[str, Any]:
        role = ROLES.index(agent)
        world, result = self.world, self.results[role]
        return {
            "task_id": self.task.id, "is_action_valid": self._valid[role], "kinds": world.kinds(role),
            "turn": world.turn, "speaker": world.names[role], "ended": world.ended, "won": result.won(self.threshold),
            "goal": result.goal, "dimensions": result.dimensions, "unscored": bool(result.failure),
            "failure": result.failure,
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
        return self.each(lambda agent: self._observation(agent, None)), self.each(self._info)

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
        return self._observation(agent, self._acted[agent])

    def play(self, agent: str, command: str) -> None:
        world = self.world
        turn = world.turn
        self._play({agent: command})
        self._acted[agent] = turn
        self.rewards, self.infos = self.each(self._reward_of), self.each(self._info)
        self.terminations = dict.fromkeys(ROLES, world.terminated)
        self.truncations = dict.fromkeys(ROLES, world.truncated)
        self.agent_selection = ROLES[world.speakers[0] if world.speakers else 1 - ROLES.index(agent)]
