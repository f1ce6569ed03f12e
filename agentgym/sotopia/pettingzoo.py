"""A dialogue between two agents and its judge: what the parallel and the turn-by-turn form share."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core import TextSpace, suggest
from agentgym.sotopia.acts import NONE, Act, parse
from agentgym.sotopia.exchange import ask_judge, check_playable, needs_game
from agentgym.sotopia.instructions import COMMANDS, INSTRUCTIONS
from agentgym.sotopia.markup import ROLES
from agentgym.sotopia.partner import Judge, find_judge
from agentgym.sotopia.reward import Result, check_reward, check_threshold, result_of
from agentgym.sotopia.rules import SocialWorld, check_order, check_turns, draw_schedule
from agentgym.sotopia.tasks import check_split, choose, find_tasks

#: Names of the agents, by role.
AGENTS = ROLES
OPTIONS = ("split", "index", "task_id")


class Duo:
    """Two agents, a task, and what each observes and gets.

    Args:
        order: see `world`.
        data, judge, families, split, max_turns, reward, success_threshold, world_seed: see `env.SotopiaEnv`.
    """

    def __init__(
        self,
        order: str,
        *,
        data: str | Path | None = None,
        judge: str | Judge = "rules",
        families: Iterable[str] | str | None = None,
        split: str | None = None,
        max_turns: int = 20,
        reward: str = "goal",
        success_threshold: float = 6,
        world_seed: int = 0,
    ) -> None:
        self.order = check_order(order)
        self.tasks = find_tasks(data, families, world_seed)
        self.judge = find_judge(judge)
        usual = "train" if data is None else "numeric" if needs_game(self.judge) else "all"
        self.split = check_split(self.tasks, usual if split is None else split)
        self.max_turns = check_turns(max_turns)
        self.reward, self.threshold = check_reward(reward), check_threshold(success_threshold)
        self.instructions = INSTRUCTIONS.format(turns=self.max_turns)
        self.observation_spaces = {agent: TextSpace() for agent in AGENTS}
        self.action_spaces = {agent: TextSpace(samples=COMMANDS) for agent in AGENTS}
        self._rng: np.random.Generator | None = None

    def begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Start a dialogue; what the options leave open is drawn from a generator that the seed sets.

        Options other than `OPTIONS` are left aside with a warning, as PettingZoo's tests expect.

        Raises:
            ValueError: on a task that does not exist, or that the judge cannot score.
        """
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(seed)
        given = dict(options or {})
        unknown = [name for name in given if name not in OPTIONS]
        if unknown:
            message = f"reset: options {unknown} are not known and left aside; known: {', '.join(OPTIONS)}"
            warnings.warn(message, UserWarning, stacklevel=3)
        task = choose(self.tasks, self.split, {name: given[name] for name in OPTIONS if name in given}, self._rng)
        check_playable(task, self.judge)
        self.task = task
        schedule = draw_schedule(self.order, self.max_turns, self._rng)
        self.world = SocialWorld(task, self.order, self.max_turns, schedule)
        self.results = Result(), Result()
        self._valid = [True, True]

    def play(self, commands: Mapping[int, str]) -> None:
        """Play one turn.

        Args:
            commands: by role; those of roles out of turn do not count, and a role in turn without one does nothing.

        Raises:
            TypeError: when a command is not a string.
        """
        acts: list[Act] = [NONE, NONE]
        for role, command in commands.items():
            if not isinstance(command, str):
                raise TypeError(f"{AGENTS[role]}: expected a str command, got {type(command).__name__} ({command!r})")
            acts[role], self._valid[role] = parse(command)
        self.world.play((acts[0], acts[1]))
        if self.world.ended:
            verdict = ask_judge(self.judge, [self.world.dialogue])[0]
            self.results = result_of(verdict, 0), result_of(verdict, 1)

    def observation(self, role: int, since: int | None) -> str:
        """Return what has happened from a turn on; from the start, with the opening, for None."""
        if since is None:
            return self.world.opening(role) + self.world.lines(0)
        return self.world.lines(since)

    def reward_of(self, role: int) -> float:
        """Return the reward of a role; 0 before the end."""
        return self.results[role].reward(self.reward, self.threshold) if self.world.ended else 0.0

    def info(self, role: int) -> dict[str, Any]:
        """Return the info dict of a role, see `env.SotopiaEnv`; `kinds`: the acts allowed now."""
        world, result = self.world, self.results[role]
        return {
            "task_id": self.task.id,
            "is_action_valid": self._valid[role],
            "kinds": world.kinds(role),
            "turn": world.turn,
            "speaker": world.names[role],
            "ended": world.ended,
            "won": result.won(self.threshold),
            "goal": result.goal,
            "dimensions": result.dimensions,
            "unscored": bool(result.failure),
            "failure": result.failure,
        }

    def text(self) -> str:
        """Return the dialogue as the judge sees it."""
        return self.world.dialogue.text


class DuoForm:
    """What PettingZoo's two forms have in common: agents, spaces, rendering; a base before PettingZoo's class."""

    metadata: dict[str, Any]

    def prepare(self, order: str, render_mode: str | None, arguments: Mapping[str, Any]) -> None:
        """Set up everything that does not change from dialogue to dialogue.

        Raises:
            ValueError: when there is no such render mode, and as `Duo`.
        """
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise ValueError(f"unknown render_mode {render_mode!r}; {suggest(render_mode, modes)}")
        self.duo = Duo(order, **arguments)
        self.render_mode = render_mode
        self.instructions = self.duo.instructions
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces, self.action_spaces = self.duo.observation_spaces, self.duo.action_spaces

    def observation_space(self, agent: str) -> TextSpace:
        """Return an agent's space of observations."""
        return self.duo.observation_spaces[agent]

    def action_space(self, agent: str) -> TextSpace:
        """Return an agent's space of actions."""
        return self.duo.action_spaces[agent]

    def render(self) -> str | None:
        """Return the dialogue so far (render mode "ansi")."""
        return None if self.render_mode is None else self.duo.text()

    def close(self) -> None:
        """Nothing is held open."""
