"""`python -m benchmarks.run league`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym.checks import suggest
from benchmarks.console import explained, say, telling
from benchmarks.json_files import ResultsError
from benchmarks.league.combinations import MEASURED
from benchmarks.league.episodes import VALIDATION
from benchmarks.league.paired import RESULTS as CONTESTS
from benchmarks.league.paired import print_contests, run_contests
from benchmarks.league.players import ENVIRONMENTS
from benchmarks.league.report import write_league_report
from benchmarks.league.study import FULL, QUICK, RESULTS, make_config, run_league
from benchmarks.league.table import print_league
from wrappers.credit.method import Credit

#: Sets of credits that can be measured.
METHODS, COMBINED = "methods", "combinations"
_PLAYERS = ", ".join(dict.fromkeys(name for env in ENVIRONMENTS.values() for name in env.optimal))


def league(
    quick: Annotated[
        bool, typer.Option("--quick", help="4 tasks of each environment and one player: every part, no result.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(ENVIRONMENTS)}. May be given several times. Default: all of them."),
    ] = None,
    groups: Annotated[
        list[int] | None, typer.Option(help="Group size. May be given several times. Default: 2, 4, 8 and 16.")
    ] = None,
    player: Annotated[
        list[str] | None,
        typer.Option(help=f"Scripted player: {_PLAYERS}. May be given several times. Default: all of them."),
    ] = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option(
            help="Job folder of a learning benchmark, such as runs/learning/clone-seed0: its policy plays as well, in "
            "its environment. May be given several times."
        ),
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=2, help="Tasks of each environment.")] = None,
    credits: Annotated[
        str,
        typer.Option(
            help="methods: all of them; combinations: also those that were tried of them, paired with the chosen one."
        ),
    ] = METHODS,
    split: Annotated[str, typer.Option(help="Tasks: validation, to choose by; test, to judge.")] = VALIDATION,
    continuations: Annotated[
        int | None, typer.Option(min=2, help="Continuations of each state and choice for truth by Monte-Carlo; even.")
    ] = None,
    branches: Annotated[
        int | None, typer.Option(min=0, help="Continuations of each state that vine is given; 0: without vine.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Find out values by Monte-Carlo too where distances are exact.")
    ] = False,
    gamma: Annotated[float, typer.Option(min=0.0, max=1.0, help="Discount of values by Monte-Carlo.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of episodes, continuations, intervals and random numbers.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the results; the same command in it continues. Default: runs/league, and "
            "what it is: -quick, -combinations, -test."
        ),
    ] = None,
) -> None:
    """Hold every credit method against the true advantage of steps, in every environment.

    Players of several qualities play; nothing is trained. What a step was worth is its exact change of distance to
    success where the environment knows it, else a value of the player itself by many continuations. Prints one table
    and writes [bold]league.json[/], [bold]league.png[/] and a self-contained [bold]report.html[/].
    """
    words = ["league", *["quick"] * quick, *[credits] * (credits != METHODS), *[split] * (split != VALIDATION)]
    folder = out or Path("runs") / "-".join(words)
    console = Console()
    with explained("stopped; the same command continues with the next player"):
        if credits == COMBINED and (check or policy):
            raise ResultsError(
                "--credits combinations has one truth and scripted players: leave out --check and --policy"
            )
        config = make_config(
            QUICK if quick else FULL, envs=env or (), groups=groups or (), players=player or (), models=policy or (),
            check=check, gamma=gamma, tasks=tasks or 0, continuations=continuations or 0,
            branches=branches, seed=seed, split=split, credits=_credits(credits),
        )  # fmt: skip
        if credits == COMBINED:
            with telling(console, "measuring") as tell:
                contests = run_contests(config, folder, lambda env, player, words: tell(f"{env}, {player}: {words}"))
            print_contests(contests, console)
            say(console, f"numbers: {folder / CONTESTS}")
            return
        with telling(console, "measuring") as tell:
            found = run_league(config, folder, lambda env, player, words: tell(f"{env}, {player}: {words}"))
        print_league(found, console)
        picture, page = write_league_report(found, folder)
    say(console, f"picture: {picture}\nreport: {page}\nnumbers: {folder / RESULTS}")


def _credits(name: str) -> Sequence[Credit] | None:
    sets = {METHODS: None, COMBINED: MEASURED}
    if name not in sets:
        raise ResultsError(f"unknown set of credits {name!r}; {suggest(name, sets)}")
    return sets[name]
