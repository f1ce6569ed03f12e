"""Every player of SOTOPIA against every other: who reaches its goal, and what is left for the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.sotopia.acts import NONE, Act
from agentgym.sotopia.exchange import Failure, Judge, Player, Verdict
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import SocialWorld

#: Goal scores above it are successes.
THRESHOLD = 6
#: Dialogues that are carried on side by side.
PLACES = 128


@dataclass(frozen=True)
class Cell:
    """One player against one partner, on some tasks, each of them played in both roles.

    Attributes:
        player, partner: their names.
        families: families of the tasks, in order.
        won: successes of the player by family.
        played: dialogues by family, without those that could not be scored.
        goal: mean goal score of the player by family; 0 where none was scored.
        partner_goal: the same of the partner.
        turns: mean number of turns by family.
        unscored: dialogues in which partner, player or judge failed.
    """

    player: str
    partner: str
    families: list[str]
    won: list[int]
    played: list[int]
    goal: list[float]
    partner_goal: list[float]
    turns: list[float]
    unscored: int


def cross_play(
    players: Sequence[str],
    partners: Sequence[str],
    tasks: Sequence[Task],
    judge: Judge,
    find: Callable[[str], Player],
    tell: Callable[[str], None] = lambda words: None,
) -> list[Cell]:
    """Return a cell for every player and partner, player by player.

    Args:
        players: names of players.
        partners: names of partners.
        tasks: what is played; each in both roles.
        judge: scores the dialogues.
        find: makes a player from its name.
        tell: is told what comes next.
    """
    cells = []
    for player in players:
        for partner in partners:
            tell(f"{player} against {partner}")
            cells.append(_cell(player, partner, tasks, judge, find))
    return cells


def _cell(player: str, partner: str, tasks: Sequence[Task], judge: Judge, find: Callable[[str], Player]) -> Cell:
    mine, theirs = find(player), find(partner)
    games = [(task, role) for task in tasks for role in (0, 1)]
    rows = []
    for start in range(0, len(games), PLACES):
        batch = games[start : start + PLACES]
        worlds = [SocialWorld(task) for task, _ in batch]
        roles = [role for _, role in batch]
        converse(worlds, roles, mine, theirs)
        verdicts = judge.score([world.dialogue for world in worlds])
        for (task, role), world, verdict in zip(batch, worlds, verdicts, strict=True):
            if isinstance(verdict, Verdict) and world.ended != "failed":
                rows.append((_kind(task), verdict.ratings[role].goal, verdict.ratings[1 - role].goal, world.turn))
    families = list(dict.fromkeys(_kind(task) for task in tasks))
    found = [np.array([row[1:] for row in rows if row[0] == family]).reshape(-1, 3) for family in families]
    means = [each.mean(0).tolist() if len(each) else [0.0, 0.0, 0.0] for each in found]
    return Cell(
        player=player, partner=partner, families=families,
        won=[int((each[:, 0] > THRESHOLD).sum()) for each in found],
        played=[len(each) for each in found],
        goal=[mean[0] for mean in means], partner_goal=[mean[1] for mean in means], turns=[mean[2] for mean in means],
        unscored=len(games) - len(rows),
    )  # fmt: skip


def _kind(task: Task) -> str:
    return task.scenario.source if task.game is None else task.game.family


def converse(worlds: Sequence[SocialWorld], roles: Sequence[int], player: Player, partner: Player) -> None:
    """Play dialogues to their ends; each turn is one call of the player and one of the partner, for all in turn.

    Args:
        worlds: dialogues that begin, by turns ("round-robin").
        roles: the player's role in each.
        player: who plays these roles.
        partner: who plays the others.
    """
    while running := [i for i, world in enumerate(worlds) if not world.ended]:
        for who, mine in ((player, True), (partner, False)):
            turn = [i for i in running if (worlds[i].speakers[0] == roles[i]) == mine]
            acts = who.act([worlds[i].view(worlds[i].speakers[0]) for i in turn]) if turn else []
            for i, act in zip(turn, acts, strict=True):
                _play(worlds[i], act)
            running = [i for i in running if i not in set(turn)]


def _play(world: SocialWorld, act: Act | Failure) -> None:
    if isinstance(act, Failure):
        world.fail()
    else:
        world.play((act, NONE) if world.speakers[0] == 0 else (NONE, act))
