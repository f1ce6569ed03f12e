"""Progress of the jobs: bars in a terminal, a line now and then where output goes into a file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from benchmarks.learning.jobs import Job

#: Seconds between two lines of one job.
_PAUSE = 30.0

Report = Callable[[Job, int, int, str], None]


@contextlib.contextmanager
def shown(jobs: Sequence[Job], console: Console) -> Iterator[Report]:
    """Show the progress of jobs while the block runs.

    Args:
        jobs: all that will report.
        console: a terminal gets one bar per job, anything else lines.

    Yields:
        A function of a job, the steps it has done, their number, and a few words.
    """
    if not console.is_terminal:
        yield lines(console)
        return
    with _bars(console) as bars:
        ids: dict[Job, TaskID] = {
            job: bars.add_task(job.name, total=None, start=False, words="waiting") for job in jobs
        }

        def report(job: Job, done: int, total: int, words: str) -> None:
            if not bars.tasks[ids[job]].started:
                bars.start_task(ids[job])
            bars.update(ids[job], completed=done, total=total, words=words)

        yield report


def lines(console: Console, clock: Callable[[], float] = time.monotonic) -> Report:
    """Return a report that prints a job's first and last step, and others when the job was silent for a while."""
    printed: dict[Job, float] = {}

    def report(job: Job, done: int, total: int, words: str) -> None:
        now = clock()
        if done < total and job in printed and now - printed[job] < _PAUSE:
            return
        printed[job] = now
        console.print(f"{job.name} {done}/{total} {words}", markup=False, highlight=False, soft_wrap=True)

    return report


def _bars(console: Console) -> Progress:
    name, count = Column(no_wrap=True, min_width=16), Column(no_wrap=True, min_width=7)
    columns = [
        TextColumn("{task.description}", style="bold", table_column=name),
        BarColumn(bar_width=10),
        MofNCompleteColumn(table_column=count),
    ]
    if console.width >= 110:
        columns += [TimeElapsedColumn(), TextColumn("left")]
    columns += [TimeRemainingColumn(compact=True), TextColumn("{task.fields[words]}", style="dim")]
    return Progress(*columns, console=console)
