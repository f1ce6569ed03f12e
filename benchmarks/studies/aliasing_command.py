"""`aliasing`: how often each state key takes different states for the same."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def aliasing(
    data: Annotated[
        Path | None, typer.Option(help="Folder of the official games (it holds json_2.1.1); else generated games.")
    ] = None,
    split: Annotated[str, typer.Option(help="Whose games.")] = "valid_unseen",
    levels: Annotated[int, typer.Option(min=1, help="Number of games.")] = 134,
    repeats: Annotated[int, typer.Option(min=1, help="Episodes of each.")] = 8,
    player: Annotated[
        str, typer.Option(help="[bold]verbs[/]: a random verb, then a command; [bold]commands[/]: any command.")
    ] = "verbs",
    seed: Annotated[int, typer.Option(min=0, help="Of the draws.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
) -> None:
    """Measure how often state keys mix different states of ALFWorld, on random play of 50 steps."""
    import gymnasium as gym

    import agentgym  # noqa: F401  # registers the environments
    from benchmarks.json_files import write_json
    from benchmarks.learning.stack import PLACES, tasks
    from benchmarks.studies.aliasing import PLAYERS, measure_aliasing

    if player not in PLAYERS:
        raise typer.BadParameter(f"expected one of {', '.join(PLAYERS)}, got {player!r}", param_hint="--player")
    console = Console()
    try:
        places, games = min(PLACES, levels * repeats), "generated" if data is None else str(data)
        envs: Any = gym.make_vec("AgentRL/ALFWorld-v0", places, autoreset_mode="Disabled", data=games, split=split)
        found = measure_aliasing(envs, tasks(split, levels), repeats=repeats, player=player, seed=seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    where = "generated games" if data is None else "official games"
    table = Table(
        title=f"{where}, {split}: {levels} games x {repeats} episodes, random {player}",
        caption=f"{found.visits:,} visits of {found.states:,} states", caption_justify="left",
    )  # fmt: skip
    table.add_column("state key")
    table.add_column("aliased visits", justify="right")
    table.add_column("distinct keys", justify="right")
    for row in found.keys:
        table.add_row(row.key, f"{100 * row.aliased:.1f} %", f"{row.groups:,}")
    console.print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(found, out)
