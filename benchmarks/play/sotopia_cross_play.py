"""`study crossplay`: every player of SOTOPIA against every partner, each task in both roles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from agentgym.outside.dialogue import NONE, Failure, Player
from agentgym.sotopia.dialogue import Judge, Verdict
from agentgym.sotopia.judge import make_judge
from agentgym.sotopia.players import make_player
from agentgym.sotopia.profiles import Task
from agentgym.sotopia.rules import SocialWorld
from agentgym.sotopia.tasks import load_tasks
from agentgym.tasks import check_split
from baselines.environments.settings import SIDE_BY_SIDE
from benchmarks import console
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table, ruled
from benchmarks.study import Found, Study, Tell

#: Goal scores above it are successes.
THRESHOLD = 6
_PLAYERS = "silent,accepts-all,repeats,firm,fair,yielding,negotiator"


@dataclass(frozen=True)
class CrossPlayConfig:
    """What was asked for: players, partners and judge by name, folder of official files, split, number of tasks."""

    players: list[str]
    partners: list[str]
    judge: str
    data: str
    split: str
    tasks: int


@dataclass(frozen=True)
class Pairing:
    """One player against one partner, on some tasks, each of them played in both roles.

    Lists have an entry for each of the `families`: successes of the player, scored dialogues, mean goal scores (0 where
    none was scored), and mean turns. In `unscored` dialogues partner, player or judge failed.
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


@dataclass(frozen=True)
class CrossPlayResults(Found):
    """The whole file: a pairing for every player and partner, player by player."""

    config: CrossPlayConfig
    cells: list[Pairing]


def cross_play(
    player: str,
    partner: str,
    tasks: Sequence[Task],
    judge: Judge,
    find: Callable[[str], Player] = make_player,
    progress: Progress = lambda done, total, words: None,
) -> Pairing:
    """Play a player against a partner, each task in both roles; `find` makes a player from its name."""
    mine, theirs = find(player), find(partner)
    games = [(task, role) for task in tasks for role in (0, 1)]
    rows = []
    for start in range(0, len(games), SIDE_BY_SIDE):
        batch = games[start : start + SIDE_BY_SIDE]
        worlds = [SocialWorld(task) for task, _ in batch]
        converse(worlds, [role for _, role in batch], mine, theirs)
        verdicts = judge.score([world.dialogue for world in worlds])
        for (task, role), world, verdict in zip(batch, worlds, verdicts, strict=True):
            if isinstance(verdict, Verdict) and world.ended != "failed":
                rows.append((_kind(task), verdict.ratings[role].goal, verdict.ratings[1 - role].goal, world.turn))
        progress(start + len(batch), len(games), "dialogues")
    families = list(dict.fromkeys(_kind(task) for task in tasks))
    found = [np.array([row[1:] for row in rows if row[0] == family]).reshape(-1, 3) for family in families]
    means = [each.mean(0).tolist() if len(each) else [0.0, 0.0, 0.0] for each in found]
    return Pairing(
        player=player, partner=partner, families=families,
        won=[int((each[:, 0] > THRESHOLD).sum()) for each in found],
        played=[len(each) for each in found],
        goal=[mean[0] for mean in means], partner_goal=[mean[1] for mean in means], turns=[mean[2] for mean in means],
        unscored=len(games) - len(rows),
    )  # fmt: skip


def _kind(task: Task) -> str:
    return task.scenario.source if task.game is None else task.game.family


def converse(worlds: Sequence[SocialWorld], roles: Sequence[int], player: Player, partner: Player) -> None:
    """Play dialogues by turns to their ends, side by side; `roles` are the player's, the partner plays the others."""
    while running := [i for i, world in enumerate(worlds) if not world.ended]:
        for who, mine in ((player, True), (partner, False)):
            turn = [i for i in running if (worlds[i].speakers[0] == roles[i]) == mine]
            acts = who.act([worlds[i].view(worlds[i].speakers[0]) for i in turn]) if turn else []
            for i, act in zip(turn, acts, strict=True):
                if isinstance(act, Failure):
                    worlds[i].fail()
                else:
                    worlds[i].play((act, NONE) if worlds[i].speakers[0] == 0 else (NONE, act))
            running = [i for i in running if i not in set(turn)]


def configure(
    players: Annotated[
        str,
        typer.Option(
            help="Who plays, separated by commas: scripted players by name, or MODEL@URL for a model behind an "
            "OpenAI-compatible endpoint."
        ),
    ] = _PLAYERS,
    partners: Annotated[
        str, typer.Option(help="Against whom. rules is what training meets; a player's own name is self-play.")
    ] = "rules,firm,fair,yielding,negotiator",
    judge: Annotated[str, typer.Option(help="rules, or MODEL@URL.")] = "rules",
    data: Annotated[Path | None, typer.Option(help="Folder of the official files. Default: generated tasks.")] = None,
    split: Annotated[str | None, typer.Option(help="Whose tasks. Default: test, of official ones numeric.")] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="Number of tasks, each played in both roles. Default: 200, quick 8.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few tasks; for CI.")] = False,
) -> CrossPlayConfig:
    """Play every player against every partner and print success per family of tasks."""
    try:
        known = load_tasks(data, None, 0)
        named = check_split(known, split or ("test" if data is None else "numeric"))
        who, whom = _names(players), _names(partners)
        for name in (*who, *whom):
            make_player(name)
        make_judge(judge)
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    count = min(tasks or (8 if quick else 200), known.count(named))
    return CrossPlayConfig(who, whom, judge, "" if data is None else str(data), named, count)


def _names(given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected different names separated by commas, got {given!r}")
    return names


@contextlib.contextmanager
def prepare(config: CrossPlayConfig, folder: Path, tell: Tell) -> Iterator[tuple[list[Task], Judge]]:
    """Yield the tasks and the judge."""
    known = load_tasks(Path(config.data) if config.data else None, None, 0)
    yield [known.by_index(config.split, index) for index in range(config.tasks)], make_judge(config.judge)


def pairings(config: CrossPlayConfig) -> dict[str, tuple[str, str]]:
    """Return player and partner by the name of a part."""
    return {
        f"{player} against {partner}": (player, partner) for player in config.players for partner in config.partners
    }


def page(found: CrossPlayResults) -> Page:
    """A line for each player and partner, a column for each family: success, and both mean goals."""
    config, families = found.config, found.cells[0].families
    every = list(range(len(families)))
    rows = ruled(
        (cell.player, [
            cell.player, cell.partner, *(_shown(cell, [i]) for i in every), _shown(cell, every),
            f"{_mean(cell.turns, cell.played, every):.1f}",
        ])
        for cell in found.cells
    )  # fmt: skip
    lost = sum(cell.unscored for cell in found.cells)
    return Page(
        "Players against each other",
        "Success in percent, and in brackets the mean goals of player and partner.",
        [
            Table(
                f"success % (goal : partner's goal), {config.tasks} tasks in both roles",
                ["player", "partner", *families, "all", "turns"],
                rows,
                f"{lost} dialogues could not be scored and are left out." if lost else "",
            )
        ],
        chips=[("tasks", f"{config.tasks} ({config.split})"), ("judge", config.judge)],
        about=[("data", config.data or "generated tasks")],
    )


def _shown(cell: Pairing, which: list[int]) -> str:
    played = sum(cell.played[i] for i in which)
    if not played:
        return console.NONE
    won = sum(cell.won[i] for i in which)
    goals = _mean(cell.goal, cell.played, which), _mean(cell.partner_goal, cell.played, which)
    return f"{100 * won / played:.0f} ({goals[0]:.1f}:{goals[1]:.1f})"


def _mean(values: list[float], weights: list[int], which: list[int]) -> float:
    return sum(values[i] * weights[i] for i in which) / max(1, sum(weights[i] for i in which))


STUDY = Study(
    name="crossplay", file="crossplay.json", version=1, part="pairing", record=Pairing, results=CrossPlayResults,
    configure=configure, parts=lambda config: list(pairings(config)),
    run=lambda config, part, context, progress: cross_play(
        *pairings(config)[part], context[0], context[1], progress=progress
    ),
    page=page, prepare=prepare,
)  # fmt: skip
