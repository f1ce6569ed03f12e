"""`shaping`: compare a shaped reward with an unshaped one and with the environment's own, for PPO on Sokoban."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.console import explained, parse_seeds, say


def shaping(
    quick: Annotated[bool, typer.Option("--quick", help="Four easy levels, seeds 0-1, half a minute; for CI.")] = False,
    seeds: Annotated[
        str | None, typer.Option(help="Training seeds: 0,1,2 or 0-2. Default: 0-4, with --quick 0-1.")
    ] = None,
    gae_lambda: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Of the learner; near 1 shaping cancels out. Default: 0.8.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes of one thread each. Default: the number of cores.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; the same command in it continues. Default: runs/shaping, or "
            "runs/shaping-quick."
        ),
    ] = None,
) -> None:
    """Train Stable-Baselines3's PPO with and without shaping by the graph of earlier episodes.

    Levels, seeds and all settings are the same; only the reward differs: 1 for success, the same shaped, and the
    environment's own. Prints one table and writes [bold]shaping.json[/], [bold]shaping.png[/] and a self-contained
    [bold]report.html[/]. Ctrl-C and the same command again: finished trainings are kept.
    """
    from benchmarks.machine import usable_cores
    from benchmarks.shaping.report import write_shaping_report
    from benchmarks.shaping.study import FULL, QUICK, RESULTS, make_config, run_shaping
    from benchmarks.shaping.table import rich_table

    chosen = parse_seeds(seeds or ("0-1" if quick else "0-4"))
    training = QUICK if quick else FULL
    if gae_lambda is not None:
        training = dataclasses.replace(training, gae_lambda=gae_lambda)
    folder = out or Path("runs") / ("shaping-quick" if quick else "shaping")
    console = Console()
    kept = "Finished trainings are kept: the same command continues."
    with explained("stopped; the same command continues with the next training", kept):
        found = run_shaping(make_config(chosen, training), folder, processes=jobs or usable_cores(), console=console)
        console.print(rich_table(found, console.width))
        picture, page = write_shaping_report(found, folder)
    say(console, f"curves: {picture}\nreport: {page}\nnumbers: {folder / RESULTS}")
