"""Collections of official or generated games, of all task types or of some."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from agentgym.alfworld.game import TASK_TYPES, Game
from agentgym.alfworld.generated.generator import GeneratedGames
from agentgym.alfworld.goals import parse_goal, split_id, with_goal
from agentgym.alfworld.official.dataset import VARIABLE, OfficialGames
from agentgym.checks import suggest
from agentgym.outside.files import cache_folder
from agentgym.tasks import choose, given, published

#: A collection of games.
Games = GeneratedGames | OfficialGames


def check_task_types(kinds: Any) -> tuple[str, ...]:
    """Return task types by name, in the order of `TASK_TYPES`; None means all, 1 to 6 the original's numbers."""
    if kinds is None:
        return TASK_TYPES
    given = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,)
    numbered = {i + 1: name for i, name in enumerate(TASK_TYPES)}
    names = set()
    for kind in given:
        if isinstance(kind, (int, np.integer)) and not isinstance(kind, bool) and int(kind) in numbered:
            names.add(numbered[int(kind)])
        elif kind in TASK_TYPES:
            names.add(kind)
        else:
            raise ValueError(f"unknown task type {kind!r}; a name or its number from 1: {suggest(kind, TASK_TYPES)}")
    if not names:
        raise ValueError("task_types is empty: name at least one task type, or pass None for all")
    return tuple([name for name in TASK_TYPES if name in names])


def find_games(data: Any, cache: Any, generator: Mapping[str, Any]) -> Games:
    """Return the official games of `data` (None: of $ALFWORLD_DATA), else generated ones."""
    where = cache_folder(cache)
    folder = published(data, VARIABLE)
    return GeneratedGames(**generator) if folder is None else OfficialGames(folder, where)


def choose_game(games: Games, split: str, options: Mapping[str, Any], rng: np.random.Generator) -> Game:
    """Return the game for the options of a reset; a `task_id` may name another goal, see `goals`."""
    options = given(options)
    kind = options.get("task_type")
    if kind is not None:
        games = games.of_types(check_task_types(kind))
    task_id = options.get("task_id")
    goal = ""
    if isinstance(task_id, str):
        task_id, goal = split_id(task_id)
        options["task_id"] = task_id
    game = choose(games, split, options, rng)
    return with_goal(game, parse_goal(goal)) if goal else game


def game_of(games: Games, task_id: str) -> Game:
    """Return the game of a task_id that an episode had."""
    game_id, goal = split_id(task_id)
    game = games.by_id(game_id, None)
    return with_goal(game, parse_goal(goal)) if goal else game
