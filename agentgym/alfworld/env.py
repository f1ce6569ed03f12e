"""The ALFWorld environments."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from agentgym.alfworld.expert import distance, optimal_commands, plan
from agentgym.alfworld.game import Game, put_command
from agentgym.alfworld.goals import goals_done, id_with, split_id
from agentgym.alfworld.rules import REPAIRS, Outcome, World
from agentgym.alfworld.tasks import Games, find_games
from agentgym.alfworld.text import NOTHING_HAPPENS, TEXTS, introduction
from agentgym.checks import check_repairs, keywords_checked, real
from agentgym.core import Info, TextEnv, TextSpace
from agentgym.tasks import check_split, choose
from agentgym.vector import TextVectorEnv

_OFF = -1


class ALFWorldEnv(TextEnv[str]):
    """ALFWorld as text: do a chore in a room, `go to fridge 1`, `take apple 1 from fridge 1`, ...

    **Task.** A room with receptacles (some have doors) that contain objects. The first observation names the
    receptacles and the task. The six task types (`task_type`): put an object somewhere (pick_and_place_simple), look at
    it under a lamp (look_at_obj_in_light), put it somewhere clean, hot or cool (pick_clean_then_place_in_recep,
    pick_heat_..., pick_cool_...), put two of a kind into one receptacle (pick_two_obj_and_place).

    **Observation.** `TextSpace`: the answer to the last command, equal to the original engine's to the character. It is
    not the whole state: it does not show what the agent carries nor where it is, see `repairs` and the info keys.

    **Action.** `TextSpace`: a command, exactly as in `admissible_actions`; surrounding spaces are ignored. Any other
    text is an invalid action, answered "Nothing happens."; it changes nothing and counts as a step.

    **Reward** of a step: `reward` (1) when the task is done, else 0. Papers that train language models use 10.

    **End.** `terminated` when the task is done (`won`). The registered time limit is 50 steps (`truncated`). There are
    dead ends: a few objects fit into no receptacle, so a hand that holds one stays full.

    **Luck.** None: a command has one outcome.

    **Info.** `admissible_actions`: sorted, as in the original, `help` included; `state_key`: location, inventory and
    all differences from the start of the game, in words; `task_id`: "<task folder>/<trial folder>"; `won`; `score`: 1.0
    when won, else 0.0; `task_type`; `location`: the receptacles in reach, "the middle of the room" at first;
    `inventory`: "nothing", or what is carried, such as "apple 1 (cleaned)"; with `expert=True`, `expert_action`: the
    game's walkthrough while it is followed, else the first command of a shortest plan, "" in a dead end. `distance()`
    and `optimal_actions()` are exact.

    **Tasks.** `reset(options=...)` takes `task_id`, with or without `split`, or any of `split`, `index` (from 0, in the
    sorted list of games) and `task_type` (a name or its number 1 to 6; `index` then counts games of that type); without
    options the index is drawn from `np_random`. A `task_id` with "#" and a goal,
    "#pick_heat_then_place_in_recep-Apple-None-CounterTop", is the same household with that goal.

    **Data.** None needed: games are generated, each with a shortest walkthrough. "valid_unseen" is played in rooms that
    "train" and "valid_seen" do not have: validate on "valid_seen", test on "valid_unseen". Official games are read from
    `data`, or from the variable ALFWORLD_DATA: the folder that contains `json_2.1.1`, with the splits "train",
    "valid_seen", "valid_unseen" and optionally "valid_train". Games are selected as in the original. A split is read
    once (10 to 20 seconds for train) and cached in a few megabytes.

    **Repairs.** By default all quirks of the original are kept. `repairs` names those to repair, or is "all", see
    `agentgym.alfworld.rules.REPAIRS`: "colocated", "examine", "ghosts", "look", "status", "toggle".

    **Id.** `AgentRL/ALFWorld-v0`.

    Args:
        data: folder of the official games; None for the variable ALFWORLD_DATA, and for generated games without it;
            "generated" for generated games in any case.
        split: default split; None for "train", or the first one in the folder.
        task_types: names or numbers (1 to 6) of the task types to play; None for all.
        reward: reward for doing the task.
        repairs: names of repairs, or "all".
        cache: folder of the import cache; "off" or False for no cache; None for the variable AGENTGYM_CACHE or
            ~/.cache/agentgym.
        game_seed: each value gives another family of generated games (generator only, as the next three).
        num_games: games of each split; None for about as many as the official splits have. It changes no game.
        dialect: "move" or "put", the wording of generated games.
        ghosts: probability that an object of a generated game is listed in a second receptacle, as in official games.
        expert: put `expert_action` into info.
        render_mode: "ansi" (the observation text) or None.

    >>> env = ALFWorldEnv(data="generated", expert=True)
    >>> observation, info = env.reset(seed=0)
    >>> while not info["won"]:
    ...     observation, reward, terminated, truncated, info = env.step(info["expert_action"])
    >>> reward, terminated
    (1.0, True)
    """

    OPTIONS: ClassVar[tuple[str, ...]] = ("split", "index", "task_id", "task_type")
    SETTLED = ("task_id", "won", "score", "task_type")

    @keywords_checked
    def __init__(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        split: str | None = None,
        task_types: Iterable[str | int] | str | int | None = None,
        reward: float = 1.0,
        repairs: Iterable[str] | str = (),
        cache: str | Path | bool | None = None,
        game_seed: int = 0,
        num_games: int | None = None,
        dialect: str = "move",
        ghosts: float = 0.0,
        expert: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode=render_mode, expert=expert)
        generator = {"game_seed": game_seed, "num_games": num_games, "dialect": dialect, "ghosts": ghosts}
        self.tasks: Games = find_games(data, cache, generator)
        self.split = self.tasks.first if split is None else check_split(self.tasks, split)
        if task_types is not None:
            self.tasks = self.tasks.of_types(task_types)
        self.reward = real("reward", reward, expected="a finite number")
        self.repairs = check_repairs(repairs, REPAIRS)
        self._show_status = "status" in self.repairs
        self.action_space = TextSpace(samples=("look", "inventory"))
        put = put_command(self.tasks.dialect(self.split), "<thing>", "<receptacle>")
        self.instructions = TEXTS["instructions"].format(put=put)

    def begin(self, options: dict[str, Any]) -> None:
        self._load(choose(self.tasks, self.split, options, self.np_random))

    def _load(self, game: Game) -> None:
        self.world = World(game, self.repairs)
        # equal states with different goals are different states
        self._to_do = f"; to {game.task}" if split_id(game.task_id)[1] else ""
        self._text = introduction(game)
        self._followed = 0

    def act(self, command: str) -> tuple[float, bool, bool]:
        world = self.world
        if self.expert:
            self._text, valid = self._guided(command)
        else:
            text = world.answer(command)
            valid = text is not None
            self._text = NOTHING_HAPPENS if text is None else text
        return (self.reward, True, valid) if world.won else (0.0, False, valid)

    def observe(self) -> str:
        if self._show_status:
            return f"{self._text}\nYou are at {self.world.location()}, carrying {self.world.inventory()}."
        return self._text

    def describe(self, valid: bool) -> Info:
        game = self.world.game
        constant = {"task_id": game.task_id, "won": False, "score": 0.0, "task_type": game.task_type}
        return self._describe({"admissible_actions": (), "is_action_valid": valid, "state_key": "", **constant}, valid)

    def _describe(self, info: Info, valid: bool) -> Info:
        world = self.world
        info["admissible_actions"], key, info["location"], info["inventory"] = world.report()
        info["is_action_valid"] = valid
        info["state_key"] = key + self._to_do
        if world.won:
            info["won"], info["score"] = True, 1.0
        if self.expert:
            info["expert_action"] = self._expert_action()
        return info

    def advance(self, command: str, info: Info) -> tuple[str, float, bool, Info]:
        reward, over, valid = self.act(command)
        return self.observe() if self._show_status else self._text, reward, over, self._describe(info, valid)

    def get_state(self) -> Any:
        """Return (task_id, world state, its changes in words, last text, steps of the walkthrough followed)."""
        world = self.world
        return world.game.task_id, world.get_state(), world.changes(), self._text, self._followed

    def set_state(self, state: Any) -> None:
        task_id, world, changes, text, followed = state
        if not self._begun or self.world.game.task_id != task_id:
            self._load(self.tasks.by_id(task_id, None))
        self.world.set_state(world, changes)
        self._text, self._followed = text, followed

    def content(self, task_id: str) -> Any:
        return self.tasks.by_id(task_id, None).content

    def fulfilled(self) -> tuple[str, ...]:
        """Return the task_ids of the household with every other goal that holds now and did not hold at the start."""
        self.need_episode("fulfilled")
        return tuple([id_with(self.world.game, goal) for goal in goals_done(self.world)])

    def distance(self) -> float:
        self.need_episode("distance")
        length = distance(self.world)
        return float("inf") if length is None else float(length)

    def optimal_actions(self) -> tuple[str, ...]:
        self.need_episode("optimal_actions")
        return optimal_commands(self.world)

    def _guided(self, command: str) -> Outcome:
        world, step = self.world, self._followed
        before = world.get_state()
        outcome = world.step(command)
        if step != _OFF and outcome.valid:
            walkthrough = world.game.walkthrough
            if step < len(walkthrough) and walkthrough[step] == command.strip():
                self._followed = step + 1
            elif world.get_state() != before:
                self._followed = _OFF
        return outcome

    def _expert_action(self) -> str:
        world, step = self.world, self._followed
        if world.won:
            return ""
        if step != _OFF and step < len(world.game.walkthrough):
            command = world.game.walkthrough[step]
            if command in world.admissible():
                return command
        commands = plan(world)
        return commands[0] if commands else ""


class ALFWorldVectorEnv(TextVectorEnv):
    """Many `ALFWorldEnv` in one process; games are shared."""

    env_class = ALFWorldEnv
