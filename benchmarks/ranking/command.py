"""`ranking`: measure how well each method's step credit ranks actions, against the true change of distance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.console import explained, say, telling


def ranking(
    quick: Annotated[bool, typer.Option("--quick", help="32 levels instead of 256, a few seconds.")] = False,
    groups: Annotated[int | None, typer.Option(min=2, help="Number of levels.")] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option(
            help="Job folder of a learning benchmark, such as runs/learning/clone-seed0: its policy plays as well. "
            "May be given several times."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes, intervals and random numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; the same command in it continues. Default: runs/ranking, or "
            "runs/ranking-quick."
        ),
    ] = None,
) -> None:
    """Measure how well each method's step credit ranks actions, in groups of 2, 4, 8 and 16 Sokoban episodes.

    Scripted players of several qualities play; nothing is trained. What each credit method says of a step is held
    against the moves that the step really gained. Prints one table per player and writes [bold]ranking.json[/],
    [bold]ranking.png[/] and a self-contained [bold]report.html[/].
    """
    from benchmarks.ranking.report import write_ranking_report
    from benchmarks.ranking.study import FULL_TASKS, QUICK_TASKS, RESULTS, make_config, run_ranking
    from benchmarks.ranking.table import print_ranking

    folder = out or Path("runs") / ("ranking-quick" if quick else "ranking")
    console = Console()
    with explained("stopped; the same command continues with the next player"):
        config = make_config(groups or (QUICK_TASKS if quick else FULL_TASKS), policy or (), seed)
        with telling(console, "measuring") as tell:
            found = run_ranking(config, folder, lambda player, words: tell(f"{player}: {words}"))
        print_ranking(found, console)
        picture, page = write_ranking_report(found, folder)
    say(console, f"picture: {picture}\nreport: {page}\nnumbers: {folder / RESULTS}")
