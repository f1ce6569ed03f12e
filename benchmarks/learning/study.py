"""The main job: clone an expert, train the clone with every credit method, compare on held-out levels.

    python -m benchmarks.run --help

For each seed one clone is learned and shared by all methods of that seed. Every (method, seed) is trained in a
process of its own; the same command continues an interrupted benchmark. The folder then holds

    config.json   what was asked; another configuration needs another folder
    results.json  everything that was found, see `benchmarks.learning.results`
    curves.png    learning curves
    report.html   table, curves, episodes and state graphs in one self-contained page
    <job>/        models, checkpoints, log.jsonl and TensorBoard files of each run
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import json_files
from benchmarks.config import Setup
from benchmarks.json_files import ResultsError
from benchmarks.learning import results
from benchmarks.learning.jobs import Job, all_jobs, is_finished, read_finished, run_job
from benchmarks.learning.results import Config, Episode, Graph, KindScore, Results, Run, Score
from benchmarks.machine import describe_machine
from benchmarks.processes import run_jobs
from benchmarks.progress import shown

CONFIG, RESULTS = "config.json", "results.json"


class OtherConfigurationError(ValueError):
    """The folder belongs to a benchmark with another configuration."""


def run_learning(config: Config, folder: Path, *, processes: int, console: Console) -> Results:
    """Run what is not finished yet, and write `results.json`.

    Args:
        config: what to run.
        folder: where; created when missing.
        processes: most processes at a time.
        console: where progress is shown.

    Raises:
        OtherConfigurationError: the folder holds a benchmark with another configuration.
        benchmarks.processes.JobFailedError: a job failed.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    claim(folder, config)
    jobs = all_jobs(config)
    left = [job for job in jobs if not is_finished(folder, job)]
    if len(left) < len(jobs):
        console.print(f"continuing in {folder}: {len(jobs) - len(left)} of {len(jobs)} jobs are finished")
    if left:

        def ready(job: Job) -> bool:
            return job.kind != "method" or is_finished(folder, Job("clone", job.seed))

        with shown(left, console) as progress:
            work = functools.partial(run_job, config, folder)
            run_jobs(left, work, processes=processes, progress=progress, ready=ready)
    found = gather(config, folder)
    results.save(found, folder / RESULTS)
    return found


def claim(folder: Path, config: Config) -> None:
    """Note the configuration in the folder, or check that it is the one noted there.

    Raises:
        OtherConfigurationError: another one is; the message names what differs.
    """
    path = folder / CONFIG
    asked = json.loads(json.dumps(json_files.encode(config)))
    if path.is_file():
        try:
            noted = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise OtherConfigurationError(f"{path} is not a configuration ({error}); delete it or {folder}") from None
        if "setup" in asked:
            noted.setdefault("setup", json_files.encode(Setup()))  # older files lack it
        differing = [
            f"  {name}: there {noted.get(name)}, asked for {asked.get(name)}"
            for name in {**noted, **asked}
            if noted.get(name) != asked.get(name)
        ]
        if differing:
            raise OtherConfigurationError(
                f"{folder} holds a benchmark with another configuration:\n" + "\n".join(differing) + "\n"
                "Give another folder with --out, repeat the old options to continue it, or delete the folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    json_files.write_json(asked, path)


def gather(config: Config, folder: Path) -> Results:
    """Put the results of all jobs together.

    Raises:
        ResultsError: a job's file is missing or malformed.
    """
    parts: dict[str, list[Any]] = {"scores": [], "runs": [], "episodes": [], "graphs": [], "kinds": []}
    kinds = {"scores": Score, "runs": Run, "episodes": Episode, "graphs": Graph, "kinds": KindScore}
    for job in all_jobs(config):
        if not is_finished(folder, job):
            raise ResultsError(f"{folder}: job {job.name} is not finished; run the same command again")
        found = read_finished(folder, job)
        for name, kind in kinds.items():
            items: Sequence[Any] = found.get(name, [])
            parts[name] += [json_files.decode(kind, item, f"{job.name}.{name}[{i}]") for i, item in enumerate(items)]
    created = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return Results(results.VERSION, created, config, describe_machine(), **parts)
