"""Run jobs in processes of one thread each, with progress; stop them so that they can go on later.

Two processes with one thread beat one with two at this model size. A process does several jobs one after another,
because importing the libraries takes it as long as a small job.
"""

import contextlib
import multiprocessing
import os
import pickle
import queue
import re
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from typing import Any

#: Called with (done, total, a few words).
Progress = Callable[[int, int, str], None]
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
#: Seconds that a worker without a parent has to stop at a good moment.
_GRACE = 3.0


@dataclass(frozen=True)
class Job:
    """One process's work: "clone", "part" of a study, whose name is in `method`, or else a run of a method."""

    kind: str
    seed: int = 0
    method: str = ""

    @property
    def name(self) -> str:
        """Folder name, unique in a benchmark; other signs of a method's name than letters, digits and .=+ are "-"."""
        method = re.sub(r"[^\w.=+]+", "-", self.method)
        return {"clone": f"clone-seed{self.seed}", "part": method}.get(self.kind, f"{method}-seed{self.seed}")


#: Does one job and tells its progress; must be picklable: a function of a module, or a `functools.partial` of one.
Work = Callable[[Job, Progress], None]


class JobFailedError(RuntimeError):
    """A job raised an exception; the message holds its traceback."""


@dataclass(frozen=True)
class Message:
    """A worker's message: a step of progress, the end of its job, or the traceback of a failure."""

    job: Job
    done: int = 0
    total: int = 1
    words: str = ""
    finished: bool = False
    error: str = ""


@dataclass
class _Worker:
    """A process, the queue of its jobs, and the job it is at (None: idle)."""

    process: SpawnProcess
    inbox: Any
    job: Job | None = None

    def give(self, job: Job) -> None:
        self.job = job
        self.inbox.put(job)


def run_jobs(
    jobs: Sequence[Job],
    work: Work,
    *,
    processes: int,
    progress: Callable[[Job, int, int, str], None],
    ready: Callable[[Job], bool] = lambda job: True,
) -> None:
    """Run all jobs, at most `processes` at a time, each as soon as it is ready, in the order given.

    A failure, SIGINT or SIGTERM (status 143) stops the others, a trainer after its iteration; a second one kills all.
    """
    from baselines.records.checkpoint import deferred  # only here: it imports torch, which help does without

    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    task = pickle.dumps(work)
    waiting = list(jobs)
    workers: list[_Worker] = []
    try:
        with _one_thread_each(), deferred() as interruption:
            while interruption.signal is None and (waiting or any(worker.job for worker in workers)):
                for job in [job for job in waiting if ready(job)]:
                    worker = next((worker for worker in workers if worker.job is None), None)
                    if worker is None and len(workers) == processes:
                        break
                    if worker is None:
                        inbox = context.Queue()
                        process = context.Process(target=_work, args=(task, inbox, messages))
                        process.start()
                        worker = _Worker(process, inbox)
                        workers.append(worker)
                    waiting.remove(job)
                    worker.give(job)
                if not any(worker.job for worker in workers):
                    raise JobFailedError(f"{waiting[0].name} can never start: it waits for a missing job")
                for message in _receive(messages):
                    if message.error:
                        raise JobFailedError(f"{message.job.name} failed:\n{message.error}")
                    if message.finished:
                        next(worker for worker in workers if worker.job == message.job).job = None
                    else:
                        progress(message.job, message.done, message.total, message.words)
                for worker in workers:
                    if worker.job is not None and not worker.process.is_alive() and messages.empty():
                        raise JobFailedError(
                            f"{worker.job.name}: its process ended with status {worker.process.exitcode}"
                        )
        interruption.raise_if_asked()
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()


def _receive(messages: Any) -> list[Message]:
    """Wait a little for a message, and take all that have come."""
    found: list[Message] = []
    with contextlib.suppress(queue.Empty):
        found.append(messages.get(timeout=0.2))
        while True:
            found.append(messages.get_nowait())
    return found


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


def _work(task: bytes, inbox: Any, messages: Any) -> None:
    """First function of a worker: do the jobs of the inbox until it is stopped."""
    # Ctrl-C in a terminal reaches the whole process group; only the parent shall hear it and pass it on, once.
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    end_with_parent()
    # Whoever stops this process does not read its last messages: it must not wait until they are read.
    messages.cancel_join_thread()
    work: Work = pickle.loads(task)  # only here: its libraries are imported after `end_with_parent`
    while True:
        job: Job = inbox.get()
        try:
            work(job, lambda done, total, words, job=job: messages.put(Message(job, done, total, words)))  # type: ignore[misc]
        except Exception:
            messages.put(Message(job, error=traceback.format_exc()))
        else:
            messages.put(Message(job, finished=True))


def end_with_parent() -> None:
    """Let this process end with its parent: it stops after the current iteration, and is killed 3 s later."""
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE)
        os.kill(os.getpid(), signal.SIGKILL)
