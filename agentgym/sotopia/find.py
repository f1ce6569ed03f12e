"""Players and judges by name, and whether they understand a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from agentgym.core import suggest
from agentgym.sotopia.exchange import Judge, Player
from agentgym.sotopia.profiles import Task

_T = TypeVar("_T")


def find_player(player: str | Player) -> Player:
    """Return a player: itself when it is one, else the one of that name.

    Args:
        player: an object with `act`; "rules" (a temperament drawn by the task's seed) or the name of a temperament,
            see `agentgym.sotopia.players.scripted.PLAYERS`; or `MODEL@URL`, a model behind an OpenAI-compatible
            endpoint such as `qwen@http://127.0.0.1:8000/v1`.

    Raises:
        ValueError: when there is no such player.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(player, str):
        if not isinstance(player, Player):
            raise ValueError(f"partner must have act(views), or be a name such as 'rules', got {player!r}")
        return player
    if _is_endpoint(player):
        from agentgym.sotopia.players.model import ModelPlayer

        return ModelPlayer.at(player)
    from agentgym.sotopia.players.scripted import PLAYERS

    return _named(player, PLAYERS, "partner")


def find_judge(judge: str | Judge) -> Judge:
    """Return a judge: itself when it is one, else the one of that name.

    Args:
        judge: an object with `score`; "rules", which computes the goal from what was agreed; or `MODEL@URL` as in
            `find_player`.

    Raises:
        ValueError: when there is no such judge.
        ImportError: when a package that it needs is not installed.
    """
    if not isinstance(judge, str):
        if not isinstance(judge, Judge):
            raise ValueError(f"judge must have score(dialogues), or be a name such as 'rules', got {judge!r}")
        return judge
    if _is_endpoint(judge):
        from agentgym.sotopia.judges.model import ModelJudge

        return ModelJudge.at(judge)
    from agentgym.sotopia.judges.rules import RulesJudge

    return _named(judge, {"rules": RulesJudge}, "judge")


def _is_endpoint(name: str) -> bool:
    return "://" in name


def _named(name: str, known: Mapping[str, Callable[[], _T]], kind: str) -> _T:
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}; {suggest(name, known)}, or MODEL@URL")
    return known[name]()


def needs_game(*whom: object) -> bool:
    """Say whether one of these players and judges only knows dialogues whose goals can be computed."""
    return any(getattr(who, "needs_game", False) for who in whom)


def check_playable(task: Task, *whom: object) -> None:
    """Raise a ValueError when a task has no goals that can be computed, and a player or judge needs them."""
    if task.game is None and needs_game(*whom):
        names = ", ".join(type(who).__name__ for who in whom if needs_game(who))
        raise ValueError(
            f"task {task.id!r} ({task.scenario.codename}) has no goals that can be computed, it needs a judge and a "
            f"partner that understand it: {names} cannot. Pass models as judge= and partner=, or use split 'numeric'"
        )
