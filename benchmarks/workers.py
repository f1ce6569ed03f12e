"""Run independent pieces of work in processes of one thread each, and hear of their progress."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.jobs import Job
from benchmarks.processes import JobFailedError

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

#: Called in a worker with a job and a function that takes (done, total, a few words).
Work = Callable[[Job, Callable[[int, int, str], None]], None]


@dataclass(frozen=True)
class _Told:
    """What a worker tells: progress of a job, its end, or the traceback of its failure."""

    job: Job
    progress: tuple[int, int, str] | None = None
    error: str = ""


def run_parallel(
    jobs: Sequence[Job], work: Work, *, processes: int, progress: Callable[[Job, int, int, str], None]
) -> None:
    """Do all jobs, in the order given, at most `processes` at a time.

    Args:
        jobs: what to do.
        work: does one; can be pickled (a function of a module, or a `functools.partial` of one).
        processes: most processes at a time.
        progress: called in this process with a job, the steps it has done, their number, and a few words.

    Raises:
        benchmarks.processes.JobFailedError: a job failed, or its process died; the others were stopped.
        KeyboardInterrupt: Ctrl-C; the jobs were stopped.
    """
    context = multiprocessing.get_context("spawn")
    inbox: Any = context.Queue()
    messages: Any = context.Queue()
    for job in [*jobs, *[None] * processes]:
        inbox.put(job)
    workers = [context.Process(target=_worker, args=(work, inbox, messages)) for _ in range(min(processes, len(jobs)))]
    left = set(jobs)
    try:
        with _one_thread_each():
            for worker in workers:
                worker.start()
        while left:
            try:
                told: _Told = messages.get(timeout=0.5)
            except queue.Empty:
                dead = [worker.exitcode for worker in workers if worker.exitcode]
                if dead or not any(worker.is_alive() for worker in workers):
                    raise JobFailedError(f"a process ended with status {dead[0] if dead else 0}") from None
                continue
            if told.error:
                raise JobFailedError(f"{told.job.name} failed:\n{told.error}")
            if told.progress is not None:
                progress(told.job, *told.progress)
            else:
                left.discard(told.job)
    finally:
        for worker in workers:
            if worker.pid is not None:
                worker.terminate()
                worker.join()


def _worker(work: Work, inbox: Any, messages: Any) -> None:
    """First function of a process: do jobs until there are none."""
    # Ctrl-C in a terminal reaches the whole process group; the parent stops the workers.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    while True:
        job: Job | None = inbox.get()
        if job is None:
            return
        try:
            work(job, _Reporter(job, messages))
        except Exception:
            messages.put(_Told(job, error=traceback.format_exc()))
        else:
            messages.put(_Told(job))


@dataclass(frozen=True)
class _Reporter:
    job: Job
    messages: Any

    def __call__(self, done: int, total: int, words: str) -> None:
        self.messages.put(_Told(self.job, (done, total, words)))


def _stop_with_parent() -> None:
    """Stop when the parent is gone, so that no orphan goes on computing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile find one thread per library in their environment."""
    kept = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
