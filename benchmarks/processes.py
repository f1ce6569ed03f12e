"""Run jobs in processes of one thread each, with progress; stop them so that they can go on later.

Two processes with one thread beat one with two at this model size, and a process per job gives its memory back.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from benchmarks.jobs import Job, run_job
from benchmarks.results import Config

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class JobFailedError(RuntimeError):
    """A job raised an exception; the message holds its traceback."""


def run_jobs(
    config: Config,
    folder: Path,
    jobs: Sequence[Job],
    *,
    processes: int,
    ready: Callable[[Job], bool],
    progress: Callable[[Job, int, int, str], None],
) -> None:
    """Run all jobs, at most `processes` at a time, each as soon as it is ready, in the order given.

    Args:
        config: of the benchmark.
        folder: where jobs write.
        jobs: what to do.
        processes: most processes at a time.
        ready: whether a job may start now; asked again whenever another has finished.
        progress: called in this process with a job, the steps it has done, their number, and a few words.

    Raises:
        JobFailedError: a job failed; the others were told to stop.
        KeyboardInterrupt: Ctrl-C; the jobs were told to stop after the iteration at hand, and have.
    """
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    waiting = list(jobs)
    running: dict[Job, SpawnProcess] = {}
    try:
        with _one_thread_each():
            while waiting or running:
                for job in [job for job in waiting if ready(job)][: max(0, processes - len(running))]:
                    waiting.remove(job)
                    process = context.Process(target=_enter, args=(config, folder, job, messages), name=job.name)
                    process.start()
                    running[job] = process
                if not running:
                    raise JobFailedError(f"{waiting[0].name} can never start: what it waits for is not there")
                _pass_on(messages, progress)
                for job, process in list(running.items()):
                    if not process.is_alive():
                        process.join()
                        _pass_on(messages, progress, block=False)
                        if process.exitcode:
                            raise JobFailedError(f"{job.name} ended with status {process.exitcode}")
                        del running[job]
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join()


def _pass_on(messages: Any, progress: Callable[[Job, int, int, str], None], *, block: bool = True) -> None:
    """Hand the messages that have come to the caller; wait a little for the first one."""
    with contextlib.suppress(queue.Empty):
        job, done, total, words, error = messages.get(timeout=0.2 if block else 0.05)
        while True:
            if error:
                raise JobFailedError(f"{job.name} failed:\n{error}")
            progress(job, done, total, words)
            job, done, total, words, error = messages.get(timeout=0.01)


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


def _enter(config: Config, folder: Path, job: Job, messages: Any) -> None:
    """First function of a job's process."""
    # Ctrl-C in a terminal reaches the whole process group; only the parent shall hear it and pass it on, once.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()  # the parent draws the bars
    try:
        run_job(config, folder, job, lambda done, total, words: messages.put((job, done, total, words, "")))
    except Exception:
        messages.put((job, 0, 1, "", traceback.format_exc()))
        raise SystemExit(1) from None


def _stop_with_parent() -> None:
    """Stop like after Ctrl-C when the parent is gone, so that no orphan goes on computing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
