"""`ranking`: how well does each method's step credit rank actions by the true change of distance to the solution?

Every player plays the same tasks, `episodes` times each. The episodes of a task are cut into groups of 2, 4, 8, ..:
disjoint parts of the same episodes, smaller parts inside larger ones, so that all group sizes credit the same rows.
What a method says of a row in a group is held against the moves that the step really gained, which Sokoban's solver
knows. Nothing is trained.

The folder then holds

    config.json    what was asked; another configuration needs another folder
    <player>.json  finished players: the same command continues
    ranking.json   everything that was found, see `benchmarks.ranking.results`
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from agentgym.checks import suggest
from agentgym.trajectory import Floats, StepTable
from benchmarks.console import explained, say, telling
from benchmarks.json_files import ResultsError, claimed, created, load_or_make
from benchmarks.machine import describe_machine
from benchmarks.panels.players import weights_of
from benchmarks.ranking.credit import BASELINE, METHODS, RECENT, credits
from benchmarks.ranking.distance import distance_changes, state_distances
from benchmarks.ranking.measures import Sample, bootstrap_weights, intervals
from benchmarks.ranking.report import write_ranking_report
from benchmarks.ranking.results import VERSION, PlayerResult, Ranking, RankingConfig, Score, file_stem, job_of, save
from benchmarks.ranking.rollouts import comparisons, mixed_groups, play, split_groups
from benchmarks.ranking.table import print_ranking
from benchmarks.training.stack import learned_config
from wrappers.credit.method import Credit

RESULTS = "ranking.json"
SIZES = (2, 4, 8, 16)
#: Scripted players: probability of an optimal move, for about 25, 50 and 75 % success.
PLAYERS = {"uniform": 0.0, "expert 25": 0.16, "expert 50": 0.33, "expert 75": 0.52}
FULL_TASKS, QUICK_TASKS = 256, 32
PUBLISHED = "published"
_KNOWN = {credit.name: credit for credit in (*METHODS, *RECENT)}
#: Sets of credits that can be measured.
CREDITS = {PUBLISHED: METHODS, "2026": RECENT, "all": tuple(_KNOWN.values())}
_ENV = "AgentRL/Sokoban-v0"

#: Called with a player's name and a few words about what is done.
Progress = Callable[[str, str], None]


def make_config(
    groups: int, models: Sequence[Path] = (), seed: int = 0, *, players: Sequence[str] = (), methods: str = PUBLISHED
) -> RankingConfig:
    """Put a configuration together.

    Args:
        groups: number of tasks.
        models: job folders of a learning benchmark, or the model folders in them.
        seed: of everything random.
        players: names of `PLAYERS`; empty: all.
        methods: a name of `CREDITS`.

    Raises:
        ResultsError: a folder is no job of a learning benchmark, a name was given twice, or there is none of it.
    """
    if methods not in CREDITS:
        raise ResultsError(f"unknown set of credits {methods!r}; {suggest(methods, CREDITS)}")
    for name in players:
        if name not in PLAYERS:
            raise ResultsError(f"unknown player {name!r}; {suggest(name, PLAYERS)}")
    optimal = {name: share for name, share in PLAYERS.items() if not players or name in players}
    named: dict[str, str] = {}
    for folder in models:
        job = job_of(folder, (*named, *PLAYERS))
        learned_config(job)
        named[job.name] = str(job)
    given = [credit.name for credit in credits(np.zeros(0), seed, CREDITS[methods])]
    return RankingConfig(
        _ENV, "validation", groups, max(SIZES), list(SIZES), optimal, named, given, 1000, seed,
        weights=weights_of(named.values()),
    )  # fmt: skip


def run_ranking(config: RankingConfig, folder: Path, progress: Progress = lambda player, words: None) -> Ranking:
    """Measure the players that are not finished yet, and write `ranking.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        progress: called with what is done.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        ResultsError: a finished player's file is damaged.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        players = []
        for name in (*config.optimal, *config.models):
            path = folder / f"{file_stem(name)}.json"
            make = functools.partial(measure_player, config, name, progress)
            players.append(load_or_make(PlayerResult, path, make, functools.partial(progress, name)))
        ranking = Ranking(VERSION, created(), config, describe_machine(), players)
        save(ranking, folder / RESULTS)
    return ranking


def measure_player(config: RankingConfig, name: str, progress: Progress) -> PlayerResult:
    """Let one player play, give every credit in groups of every size, and measure them."""
    begin = time.perf_counter()
    progress(name, f"playing {config.tasks} x {config.episodes} episodes")
    table = play(config, name)
    distance = state_distances(table)
    truth = distance_changes(table, distance)
    weights = bootstrap_weights(table.n_groups, config.resamples, config.seed)
    given = credits(truth, config.seed, tuple(_KNOWN[name] for name in config.credits if name in _KNOWN))
    parts = {size: split_groups(table, size) for size in config.sizes}
    compared = {size: comparisons(part, table.group, truth) for size, part in parts.items()}
    scores = []
    for size, part in parts.items():
        progress(name, f"{len(given)} credits in groups of {size}")
        sample = Sample(compared[size], compared[min(parts)])
        scores += _scores(given, part, sample, weights, size)
    return PlayerResult(
        name=name,
        success=float(table.trajectory_won.mean()),
        steps=len(table),
        gained=float((truth > 0).mean()),
        unchanged=float((truth == 0).mean()),
        lost=float(((truth < 0) & np.isfinite(truth)).mean()),
        dead=float(np.isinf(truth).mean()),
        stuck=float(np.isinf(distance[table.state]).mean()),
        comparable=[float(found.comparable.mean()) for found in compared.values()],
        contrast=[mixed_groups(part) for part in parts.values()],
        scores=scores,
        seconds=time.perf_counter() - begin,
    )


def _scores(given: Sequence[Credit], part: StepTable, sample: Sample, weights: Floats, size: int) -> list[Score]:
    sums = {credit.name: sample.sums(credit.give(part)) for credit in given}
    base = sums[BASELINE]
    return [
        Score(
            credit.name, credit.part, credit.method, size,
            intervals(sums[credit.name], weights), intervals(sums[credit.name], weights, base),
        )
        for credit in given
    ]  # fmt: skip


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
    player: Annotated[
        list[str] | None,
        typer.Option(help=f"Scripted player: {', '.join(PLAYERS)}. May be given several times. Default: all of them."),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            "--credits",
            help="published: methods up to GraphGPO, and fits to outcomes; 2026: methods of that year, beside four "
            "older ones; all.",
        ),
    ] = PUBLISHED,
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
    folder = out or Path("runs") / ("ranking-quick" if quick else "ranking")
    console = Console()
    with explained("stopped; the same command continues with the next player"):
        tasks = groups or (QUICK_TASKS if quick else FULL_TASKS)
        config = make_config(tasks, policy or (), seed, players=player or (), methods=methods)
        with telling(console, "measuring") as tell:
            found = run_ranking(config, folder, lambda player, words: tell(f"{player}: {words}"))
        print_ranking(found, console)
        picture, page = write_ranking_report(found, folder)
    say(console, f"picture: {picture}\nreport: {page}\nnumbers: {folder / RESULTS}")
