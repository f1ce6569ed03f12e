"""SOTOPIA for two agents in PettingZoo's parallel and AEC forms."""

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from pettingzoo import AECEnv, ParallelEnv

from agentgym.checks import check_name, suggest, whole
from agentgym.core import TextSpace
from agentgym.outside.dialogue import NONE, Act, parse
from agentgym.sotopia import dialogue
from agentgym.sotopia.judge import make_judge
from agentgym.sotopia.profiles import ROLES
from agentgym.sotopia.rules import ORDERS, SocialWorld, draw_schedule
from agentgym.sotopia.tasks import choose_split, load_tasks
from agentgym.tasks import choose

#: Names of the agents, by role.
AGENTS = ROLES
OPTIONS = ("split", "index", "task_id")


class PairedEnv:
    """The common part of both forms; arguments are those of `rules.SocialWorld` and `env.SotopiaEnv`."""

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
        super().__init__()
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"unknown render_mode {render_mode!r}; {suggest(render_mode, modes)}")
        self.render_mode = render_mode
        self.order = check_name(order, ORDERS, "order")
        self.tasks = load_tasks(data, families, world_seed)
        self.judge = make_judge(judge)
        self.split = choose_split(self.tasks, split, computed=dialogue.needs_game(self.judge))
        self.max_turns = whole("max_turns", max_turns, 1)
        self.reward = check_name(reward, dialogue.REWARDS, "reward")
        self.threshold = dialogue.check_threshold(success_threshold)
        self.instructions = dialogue.INSTRUCTIONS.format(turns=self.max_turns)
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {agent: TextSpace() for agent in AGENTS}
        self.action_spaces = {agent: TextSpace(samples=dialogue.COMMANDS) for agent in AGENTS}
        self._rng: np.random.Generator | None = None
        self._begun = False

    def observation_space(self, agent: str) -> TextSpace:
        return self.observation_spaces[AGENTS[_role(agent)]]

    def action_space(self, agent: str) -> TextSpace:
        return self.action_spaces[AGENTS[_role(agent)]]

    def render(self) -> str | None:
        """Return the dialogue so far, as the judge sees it (render mode "ansi")."""
        if self.render_mode is None:
            return None
        self._need_dialogue("render")
        return self.world.dialogue.text

    def close(self) -> None:
        """Do nothing."""

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Start a dialogue; options other than `OPTIONS` are ignored with a warning, as PettingZoo's tests expect."""
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"reset: options must be a dict or None, got {type(options).__name__} ({options!r:.200})")
        rng = self._rng
        if seed is not None or rng is None:
            rng = np.random.default_rng(None if seed is None else whole("seed", seed, 0))
        given = dict(options or {})
        unknown = [name for name in given if name not in OPTIONS]
        if unknown:
            message = f"reset: options {unknown} are unknown and ignored; known: {', '.join(OPTIONS)}"
            warnings.warn(message, UserWarning, stacklevel=3)
        task = choose(self.tasks, self.split, {name: given[name] for name in OPTIONS if name in given}, rng)
        dialogue.check_playable(task, self.judge)
        self.task, self._rng = task, rng
        schedule = draw_schedule(self.order, self.max_turns, rng)
        self.world = SocialWorld(task, self.order, self.max_turns, schedule)
        self.results = dialogue.Result(), dialogue.Result()
        self._valid = [True, True]
        self.agents = list(AGENTS)
        self._begun = True

    def _need_dialogue(self, method: str) -> None:
        if not self._begun:
            raise ResetNeeded(f"{type(self).__name__}.{method}: no dialogue has begun; call reset() first")

    def _play(self, commands: Mapping[int, str]) -> None:
        """Play one turn with commands by role; those out of turn are ignored, and a missing one is `none`."""
        for role, command in commands.items():
            if not isinstance(command, str):
                raise TypeError(
                    f"{AGENTS[role]}: expected a str command, got {type(command).__name__} ({command!r:.200})"
                )
        acts: list[Act] = [NONE, NONE]
        for role, command in commands.items():
            acts[role], self._valid[role] = parse(command)
        self.world.play((acts[0], acts[1]))
        if self.world.ended:
            verdict = dialogue.ask_judge(self.judge, [self.world.dialogue])[0]
            self.results = dialogue.result_of(verdict, 0), dialogue.result_of(verdict, 1)

    def _observation(self, role: int, since: int | None) -> str:
        if since is None:
            return self.world.opening(role) + self.world.lines(0)
        return self.world.lines(since)

    def _reward_of(self, role: int) -> float:
        return self.results[role].reward(self.reward, self.threshold) if self.world.ended else 0.0

    def _info(self, role: int) -> dict[str, Any]:
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

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        self._begin(seed, options)
        return self._each(lambda role: self._observation(role, None)), self._each(self._info)

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        self._need_dialogue("step")
        if not isinstance(actions, Mapping):
            raise TypeError(f"expected a dict of actions by agent, got {type(actions).__name__} ({actions!r:.200})")
        commands = {_role(agent): command for agent, command in actions.items()}
        if not self.agents:
            return {}, {}, {}, {}, {}
        turn = self.world.turn
        self._play(commands)
        if self.world.ended:
            self.agents = []
        return (
            self._each(lambda role: self._observation(role, turn)),
            self._each(self._reward_of),
            self._each(lambda _: self.world.terminated),
            self._each(lambda _: self.world.truncated),
            self._each(self._info),
        )

    @staticmethod
    def _each(of: Any) -> dict[str, Any]:
        return {agent: of(role) for role, agent in enumerate(AGENTS)}


class SotopiaAECEnv(PairedEnv, AECEnv[str, str, str]):  # type: ignore[misc]  # PettingZoo has no types
    """As `SotopiaParallelEnv`, turn by turn: an agent observes what happened since it last acted.

    Orders: "round-robin" (agent_0 first) or "random".
    """

    metadata: dict[str, Any] = PairedEnv.metadata | {"is_parallelizable": True}

    def __init__(self, order: str = "round-robin", **kwargs: Any) -> None:
        if order == "simultaneous":
            raise ValueError("order 'simultaneous' is no order of turns: use agentgym.sotopia.parallel_env")
        super().__init__(order, **kwargs)
        self.agent_selection = AGENTS[0]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._begin(seed, options)
        self._acted: dict[str, int | None] = dict.fromkeys(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self._note()
        self.agent_selection = AGENTS[self.world.speakers[0]]

    def observe(self, agent: str) -> str:
        role = _role(agent)
        self._need_dialogue("observe")
        return self._observation(role, self._acted[AGENTS[role]])

    def step(self, action: str | None) -> None:
        if not self.agents:
            raise ResetNeeded("SotopiaAECEnv.step: the dialogue is over or never began; call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        world = self.world
        turn = world.turn
        self._play({AGENTS.index(agent): action})  # type: ignore[dict-item]  # _play checks the type
        self._acted[agent] = turn
        self._cumulative_rewards[agent] = 0.0
        for role, each in enumerate(AGENTS):
            self.rewards[each] = self._reward_of(role)
            self.terminations[each], self.truncations[each] = world.terminated, world.truncated
        self._note()
        self._accumulate_rewards()
        self.agent_selection = AGENTS[world.speakers[0] if world.speakers else 1 - AGENTS.index(agent)]

    def _note(self) -> None:
        self.infos = {agent: self._info(role) for role, agent in enumerate(AGENTS)}


def _role(agent: object) -> int:
    if agent not in AGENTS:
        raise KeyError(f"unknown agent {agent!r:.200}; {suggest(agent, AGENTS)}")
    return AGENTS.index(str(agent))
