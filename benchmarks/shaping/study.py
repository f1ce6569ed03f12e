"""`shaping`: does the graph of earlier episodes help a learner that knows nothing of it?

Stable-Baselines3's PPO is trained on a fixed set of Sokoban levels under a reward of 1 for success, under the same
reward shaped by the distance to success in the graph of each level, and under the environment's own reward; several
seeds each, everything else equal. Greedy play is evaluated on the training levels, and on held-out ones.

The folder then holds

    config.json            what was asked; another configuration needs another folder
    <reward>-seed<n>.json  finished trainings: the same command continues
    shaping.json           everything that was found, see `benchmarks.shaping.results`
    shaping.png            learning curves
    report.html            table and curves in one self-contained page
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from baselines.sb3.shaping import SB3Config, train
from baselines.sb3.sokoban import Levels, Reward
from benchmarks.console import explained, parse_seeds, say, shown
from benchmarks.json_files import claimed, created, load, write_json
from benchmarks.machine import describe_machine, usable_cores
from benchmarks.processes import Job, run_jobs
from benchmarks.shaping.report import write_shaping_report
from benchmarks.shaping.results import VERSION, ShapingConfig, ShapingResults, ShapingRun, save
from benchmarks.shaping.table import rich_table

RESULTS = "shaping.json"
#: What is compared: the reward without shaping first, it is what the others are compared with.
COMPARED: tuple[Reward, ...] = ("success", "shaped", "own")
#: The default: about five minutes on two quiet cores for five seeds.
FULL = SB3Config()
#: For CI: every part of it, none of the luck.
QUICK = SB3Config(
    levels=Levels(min_length=3, max_length=5, max_episode_steps=20, training=4, held_out=16),
    steps=4096,
    evaluate_every=1024,
)


def make_config(seeds: Sequence[int], training: SB3Config) -> ShapingConfig:
    """Put a configuration together."""
    return ShapingConfig(list(COMPARED), list(seeds), training)


def run_shaping(config: ShapingConfig, folder: Path, *, processes: int, console: Console) -> ShapingResults:
    """Do the trainings that are not finished yet, and write `shaping.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        processes: most processes at a time.
        console: where progress is shown.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        benchmarks.processes.JobFailedError: a training failed.
        ResultsError: a finished training's file is damaged.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        jobs = [Job("method", seed, reward) for seed in config.seeds for reward in config.rewards]
        left = [job for job in jobs if not _path(folder, job).is_file()]
        if len(left) < len(jobs):
            say(console, f"continuing in {folder}: {len(jobs) - len(left)} of {len(jobs)} trainings are finished")
        if left:
            with shown(left, console) as progress:
                run_jobs(left, functools.partial(_train, config, folder), processes=processes, progress=progress)
        runs = [
            load(ShapingRun, _path(folder, Job("method", seed, reward)))
            for reward in config.rewards
            for seed in config.seeds
        ]
        found = ShapingResults(VERSION, created(), config, describe_machine(), runs)
        save(found, folder / RESULTS)
    return found


def _path(folder: Path, job: Job) -> Path:
    return folder / f"{job.name}.json"


def _train(config: ShapingConfig, folder: Path, job: Job, report: Callable[[int, int, str], None]) -> None:
    """One training, in a process of one thread."""
    import torch

    torch.set_num_threads(1)
    training = train(config.training, cast(Reward, job.method), job.seed, report)
    write_json(ShapingRun(job.method, job.seed, training.points), _path(folder, job))


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
