"""The main job: clone an expert, train the clone with every credit method, compare on held-out tasks.

    python -m benchmarks.run --help

For each seed one clone is learned and shared by all methods of that seed. Every (method, seed) is trained in a
process of its own; the same command continues an interrupted benchmark. The folder then holds

    config.json   what was asked; another configuration needs another folder
    data_source.json     which tasks it plays, see `benchmarks.data_source`; beside each model too
    results.json  everything that was found, see `benchmarks.learning.results`
    curves.png    learning curves
    report.html   table, curves, episodes and state graphs in one self-contained page
    <job>/        models, checkpoints, log.jsonl and TensorBoard files of each run
"""

from __future__ import annotations

import functools
from pathlib import Path

from rich.console import Console

from benchmarks.config import Config
from benchmarks.console import say, shown
from benchmarks.data_source import DataSource, noted
from benchmarks.json_files import ResultsError, claimed, created
from benchmarks.learning import results
from benchmarks.learning.jobs import all_jobs, is_finished, read_finished, run_job
from benchmarks.learning.results import Results
from benchmarks.machine import describe_machine
from benchmarks.processes import Job, run_jobs

RESULTS = "results.json"


def run_learning(
    config: Config, folder: Path, *, processes: int, console: Console, source: DataSource | None = None
) -> Results:
    """Run what is not finished yet, and write `results.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        processes: most processes at a time.
        console: where progress is shown.
        source: the data that it plays, noted in the folder.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds a benchmark with another configuration, or on
            other data.
        benchmarks.processes.JobFailedError: a job failed.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        if source is not None:
            source.note(folder)
        jobs = all_jobs(config)
        left = [job for job in jobs if not is_finished(folder, job)]
        if len(left) < len(jobs):
            say(console, f"continuing in {folder}: {len(jobs) - len(left)} of {len(jobs)} jobs are finished")
        if left:

            def ready(job: Job) -> bool:
                return job.kind != "method" or is_finished(folder, Job("clone", job.seed))

            with shown(left, console) as progress:
                work = functools.partial(run_job, config, folder)
                run_jobs(left, work, processes=processes, progress=progress, ready=ready)
        found = gather(config, folder)
        results.save(found, folder / RESULTS)
    return found


def gather(config: Config, folder: Path) -> Results:
    """Put the results of all jobs together.

    Raises:
        ResultsError: a job's file is missing or malformed.
    """
    parts = []
    for job in all_jobs(config):
        if not is_finished(folder, job):
            raise ResultsError(f"{folder}: job {job.name} is not finished; run the same command again")
        parts.append(read_finished(folder, job))
    return Results(
        results.VERSION, created(), config, describe_machine(),
        runs=[run for part in parts for run in part.runs],
        scores=[score for part in parts for score in part.scores],
        episodes=[episode for part in parts for episode in part.episodes],
        graphs=[graph for part in parts for graph in part.graphs],
        kinds=[kind for part in parts for kind in part.kinds],
        data=noted(folder),
    )  # fmt: skip
