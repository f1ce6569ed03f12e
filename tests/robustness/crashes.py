"""Trials of processes that are killed, disks that fill up, and several writers at once."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.outside.files import LockedError, locked, write_file
from agentgym.trajectory import StepTable
from tests.robustness.trial import Trial

SIZE = 20_000


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Run something in a forked process; return its id and the end of the pipe that it may write to."""
    read, write = os.pipe()
    process = os.fork()
    if process:
        os.close(write)
        return process, read
    try:  # the child: no cleaning up after the parent's open things
        os.close(read)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            work(write)
        os._exit(0)
    except BaseException:
        os._exit(1)


def told(pipe: int) -> int:
    """How many bytes the child has written: one for each thing that it had finished."""
    with os.fdopen(pipe, "rb") as stream:
        return len(stream.read())


def kill_while(work: Callable[[int], None], milliseconds: float) -> int:
    """Kill a child that repeats some work after its first time; return how often it had finished it."""
    process, pipe = in_child(work)
    first = os.read(pipe, 1)
    time.sleep(milliseconds / 1000)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return len(first) + told(pipe)


def checkpoint(iteration: int) -> Any:
    import torch

    from baselines.checkpoint import Checkpoint

    weights = {"w": torch.full((SIZE,), float(iteration))}
    return Checkpoint({"a": 1}, iteration, 1.0, weights, {"state": {}})


def check_checkpoint(milliseconds: float) -> None:
    """After a kill the newest checkpoint that was finished is there, or the one that was being written, whole."""
    from baselines.checkpoint import load_checkpoint, save_checkpoint

    def work(pipe: int) -> None:
        for iteration in range(1, 10_000):
            save_checkpoint(folder, checkpoint(iteration))
            os.write(pipe, b".")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        finished = kill_while(work, milliseconds)
        found = load_checkpoint(folder, {"a": 1})
        assert found.iteration in (finished, finished + 1)
        assert float(found.model["w"].sum()) == SIZE * found.iteration
        save_checkpoint(folder, checkpoint(finished + 2))  # and it goes on
        assert load_checkpoint(folder, {"a": 1}).iteration == finished + 2


def limited(size: int, work: Callable[[], None]) -> Callable[[int], None]:
    """Work on a disk that is full after so many bytes of a file; one byte into the pipe when that is an OSError."""

    def run(pipe: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            work()
        except OSError:
            os.write(pipe, b"!")

    return run


def check_full_disk(size: int) -> None:
    """A checkpoint that does not fit is an OSError and leaves the one before."""
    from baselines.checkpoint import load_checkpoint, save_checkpoint

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_checkpoint(folder, checkpoint(1))
        process, pipe = in_child(limited(size, lambda: save_checkpoint(folder, checkpoint(2))))
        refused = told(pipe)
        assert os.waitpid(process, 0)[1] == 0
        assert load_checkpoint(folder, {"a": 1}).iteration == (1 if refused else 2)
        assert refused or size > 4 * SIZE
        assert not [path for path in folder.iterdir() if not path.name.startswith("checkpoint")]


def table(number: int) -> StepTable:
    return StepTable.from_arrays(
        group=["g"] * 500, trajectory=["a"] * 500, t=np.arange(500), state=np.arange(500), action=["x" * 20] * 500,
        next_state=np.arange(500) + 1, reward=np.full(500, float(number)), won=np.ones(500),
    )  # fmt: skip


def check_table(milliseconds: float) -> None:
    """After a kill a table's file is that of one of the writes."""

    def work(pipe: int) -> None:
        for number in range(1, 10_000):
            table(number).to_jsonl(path)
            os.write(pipe, b".")

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.jsonl"
        finished = kill_while(work, milliseconds)
        assert set(StepTable.from_jsonl(path).reward.tolist()) <= {float(finished), float(finished + 1)}


def check_log(milliseconds: float) -> None:
    """After a kill a training log holds every row that was finished, and can be gone on with."""
    from baselines.metrics import MetricsLog, read_log

    def work(pipe: int) -> None:
        log = MetricsLog(folder)
        for iteration in range(100_000):
            log.append({"iteration": iteration, "loss": 0.5})
            os.write(pipe, b".")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        finished = kill_while(work, milliseconds)
        (path,) = folder.glob("*.jsonl")
        rows = [row["iteration"] for row in read_log(path)]
        assert rows == [*range(len(rows))]
        assert len(rows) in (finished, finished + 1)
        log = MetricsLog(folder)
        log.resume(finished - 1)
        log.append({"iteration": finished, "loss": 0.25})
        log.close()
        assert [row["iteration"] for row in read_log(path)] == [*range(finished + 1)]


def check_writers(sizes: list[int]) -> None:
    """Several processes write one file and take one lock: the file is one writer's, and the lock is held by one."""

    def work(size: int, letter: bytes) -> Callable[[int], None]:
        def run(pipe: int) -> None:
            for _ in range(10):
                write_file(path, letter * size)
                try:
                    with locked(lock, wait=False):
                        before = counter.read_bytes()
                        time.sleep(0.001)
                        write_file(counter, before + b".")
                        os.write(pipe, b".")
                except LockedError:
                    pass

        return run

    with tempfile.TemporaryDirectory() as name:
        path, lock, counter = (Path(name) / each for each in ("x", "lock", "counter"))
        counter.write_bytes(b"")
        children = [in_child(work(size, b"abcd"[i : i + 1])) for i, size in enumerate(sizes)]
        taken = sum(told(pipe) for _, pipe in children)
        assert [os.waitpid(process, 0)[1] for process, _ in children] == [0] * len(children)
        found = path.read_bytes()
        assert found in [b"abcd"[i : i + 1] * size for i, size in enumerate(sizes)]
        assert len(counter.read_bytes()) == taken
        assert sorted(each.name for each in Path(name).iterdir()) == ["counter", "lock", "x"]


_milliseconds = st.floats(0, 40)
TRIALS = [
    Trial("crashes/checkpoint", _milliseconds, check_checkpoint, 8, cheap=False, needs=("torch",)),
    Trial("crashes/full disk", st.integers(0, 6 * SIZE), check_full_disk, 8, cheap=False, needs=("torch",)),
    Trial("crashes/table", _milliseconds, check_table, 8, cheap=False),
    Trial("crashes/log", _milliseconds, check_log, 8, cheap=False, needs=("torch",)),
    Trial("crashes/writers", st.lists(st.integers(0, 300_000), min_size=2, max_size=4), check_writers, 4, cheap=False),
]
