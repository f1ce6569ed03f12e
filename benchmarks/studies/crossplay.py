"""`crossplay`: every player of SOTOPIA against every other: who reaches its goal, and what is left for the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from agentgym.sotopia.acts import NONE, Act
from agentgym.sotopia.dialogue import Failure, Judge, Player, Verdict
from agentgym.sotopia.judge import make_judge
from agentgym.sotopia.players import make_player
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import SocialWorld
from agentgym.sotopia.tasks import load_tasks
from agentgym.tasks import check_split
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks.console import NONE as NOTHING
from benchmarks.console import save_figures, say, table, telling

#: Goal scores above it are successes.
THRESHOLD = 6
_PLAYERS = "silent,accepts-all,repeats,firm,fair,yielding,negotiator"


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
    for start in range(0, len(games), SIDE_BY_SIDE):
        batch = games[start : start + SIDE_BY_SIDE]
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


def crossplay(
    players: Annotated[
        str,
        typer.Option(
            help="Who plays, separated by commas: scripted players by name, or MODEL@URL for a model behind an "
            "OpenAI-compatible endpoint."
        ),
    ] = _PLAYERS,
    partners: Annotated[
        str, typer.Option(help="Against whom. [bold]rules[/] is what training meets; a player's own name is self-play.")
    ] = "rules,firm,fair,yielding,negotiator",
    judge: Annotated[str, typer.Option(help="[bold]rules[/], or MODEL@URL.")] = "rules",
    data: Annotated[Path | None, typer.Option(help="Folder of the official files. Default: generated tasks.")] = None,
    split: Annotated[str | None, typer.Option(help="Whose tasks. Default: test, of official ones numeric.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks, each played in both roles.")] = 200,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Play every player against every partner and print success per family of tasks."""
    console = Console()
    try:
        known = load_tasks(data, None, 0)
        named = check_split(known, split or ("test" if data is None else "numeric"))
        chosen = [known.by_index(named, index) for index in range(min(tasks, known.count(named)))]
        who, whom = _names(players), _names(partners)
        for name in (*who, *whom):
            make_player(name)  # before minutes of playing
        with telling(console, "playing") as tell:
            cells = cross_play(who, whom, chosen, make_judge(judge), make_player, tell)
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    console.print(success_table(cells, chosen))
    lost = sum(cell.unscored for cell in cells)
    if lost:
        say(console, f"{lost} dialogues could not be scored and are left out", "yellow")
    save_figures(cells, out)


def _names(given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected different names separated by commas, got {given!r}")
    return names


def success_table(cells: list[Cell], tasks: Sequence[Task]) -> Table:
    """A line for each player and partner, a column for each family: success in percent, and both mean goals."""
    families = cells[0].families
    every = list(range(len(families)))
    rows: list[list[str] | None] = []
    before = cells[0].player
    for cell in cells:
        if cell.player != before:
            rows.append(None)
        turns = f"{_mean(cell.turns, cell.played, every):.1f}"
        rows.append([cell.player, cell.partner, *(_shown(cell, [i]) for i in every), _shown(cell, every), turns])
        before = cell.player
    title = f"success % (goal : partner's goal), {len(tasks)} tasks in both roles"
    return table(["player", "partner", *families, "all", "turns"], rows, left=2, title=title)


def _shown(cell: Cell, which: list[int]) -> str:
    played = sum(cell.played[i] for i in which)
    if not played:
        return NOTHING
    won = sum(cell.won[i] for i in which)
    goals = _mean(cell.goal, cell.played, which), _mean(cell.partner_goal, cell.played, which)
    return f"{100 * won / played:.0f} ({goals[0]:.1f}:{goals[1]:.1f})"


def _mean(values: list[float], weights: list[int], which: list[int]) -> float:
    return sum(values[i] * weights[i] for i in which) / max(1, sum(weights[i] for i in which))
