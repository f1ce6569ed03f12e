"""`crossplay`: players of SOTOPIA against each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.learning.table import NONE

if TYPE_CHECKING:
    from agentgym.sotopia.profiles import Task
    from benchmarks.studies.crossplay import Cell

_PLAYERS = "silent,accepts-all,repeats,firm,fair,yielding,negotiator"


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
    from agentgym.sotopia.find import find_judge, find_player
    from agentgym.sotopia.tasks import find_tasks
    from agentgym.tasks import check_split
    from benchmarks.json_files import write_json
    from benchmarks.studies.crossplay import cross_play

    console = Console()
    try:
        known = find_tasks(data, None, 0)
        named = check_split(known, split or ("test" if data is None else "numeric"))
        chosen = [known.by_index(named, index) for index in range(min(tasks, known.count(named)))]
        who, whom = _names(players), _names(partners)
        for name in (*who, *whom):
            find_player(name)  # before minutes of playing
        with console.status("playing") as status:
            cells = cross_play(who, whom, chosen, find_judge(judge), find_player, status.update)
    except (ValueError, OSError, ImportError) as error:
        raise typer.BadParameter(str(error)) from None
    console.print(success_table(cells, chosen))
    lost = sum(cell.unscored for cell in cells)
    if lost:
        console.print(f"{lost} dialogues could not be scored and are left out", style="yellow", highlight=False)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(cells, out)


def _names(given: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"expected different names separated by commas, got {given!r}")
    return names


def success_table(cells: list[Cell], tasks: list[Task]) -> Table:
    """A line for each player and partner, a column for each family: success in percent, and both mean goals."""
    families = cells[0].families
    table = Table(title=f"success % (goal : partner's goal), {len(tasks)} tasks in both roles", title_justify="left")
    for head in ("player", "partner"):
        table.add_column(head, no_wrap=True)
    for head in (*families, "all", "turns"):
        table.add_column(head, justify="right", no_wrap=True)
    before = ""
    for cell in cells:
        if before not in ("", cell.player):
            table.add_section()
        shown = [_shown(cell, [i]) for i in range(len(families))]
        every: list[Any] = list(range(len(families)))
        turns = _mean(cell.turns, cell.played, every)
        table.add_row(cell.player, cell.partner, *shown, _shown(cell, every), f"{turns:.1f}")
        before = cell.player
    return table


def _shown(cell: Cell, which: list[int]) -> str:
    played = sum(cell.played[i] for i in which)
    if not played:
        return NONE
    won = sum(cell.won[i] for i in which)
    goals = _mean(cell.goal, cell.played, which), _mean(cell.partner_goal, cell.played, which)
    return f"{100 * won / played:.0f} ({goals[0]:.1f}:{goals[1]:.1f})"


def _mean(values: list[float], weights: list[int], which: list[int]) -> float:
    return sum(values[i] * weights[i] for i in which) / max(1, sum(weights[i] for i in which))
