"""Jobs in processes: all are done, failures and deaths are reported, nothing is left running, progress is shown."""

import functools
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.console import lines, shown
from benchmarks.processes import Job, JobFailedError, run_jobs
from tests.refusals import refuses

JOBS = [Job("method", seed, "work") for seed in range(5)]


def note(folder: Path, job: Job, report) -> None:
    report(0, 1, "begun")
    (folder / job.name).write_text(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}")
    report(1, 1, "done")


def fail(job: Job, report) -> None:
    raise ValueError(f"no luck with {job.seed}")


def die(job: Job, report) -> None:
    os._exit(3)


def quiet(job: Job, done: int, total: int, words: str) -> None:
    pass


def test_every_job_is_done_in_a_process_of_one_thread(tmp_path) -> None:
    messages = []
    run_jobs(JOBS, functools.partial(note, tmp_path), processes=2, progress=lambda *words: messages.append(words))
    found = [(tmp_path / job.name).read_text().split() for job in JOBS]
    assert {threads for _, threads in found} == {"1"}
    assert 1 <= len({pid for pid, _ in found} - {str(os.getpid())}) <= 2
    assert sorted((job.seed, done) for job, done, _, _ in messages) == [(i, done) for i in range(5) for done in (0, 1)]
    assert multiprocessing.active_children() == []


def test_failures_and_deaths_of_processes() -> None:
    with pytest.raises(JobFailedError, match=r"(?s)work-seed0 failed:.*no luck with 0"):
        run_jobs(JOBS[:1], fail, processes=1, progress=quiet)
    refuses(JobFailedError, "status 3", lambda: run_jobs(JOBS[:1], die, processes=1, progress=quiet))


def test_what_progress_raises_stops_the_others() -> None:
    def interrupt(*words) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(JOBS, fail_slowly, processes=2, progress=interrupt)
    assert multiprocessing.active_children() == []


def fail_slowly(job: Job, report) -> None:
    report(0, 1, "")
    multiprocessing.Event().wait(60)


def never_stop(folder: Path, job: Job, report) -> None:
    """Note SIGTERM as a trainer does, which looks at the note after its iteration; this one never ends."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    for _ in range(10_000):  # more than a pipe holds when nobody reads it
        report(0, 1, "x" * 100)
    (folder / job.name).write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)


PARENT = """
import functools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from benchmarks.processes import Job, run_jobs
from tests.benchmarks.test_processes import never_stop, quiet
if __name__ == "__main__":
    jobs = [Job("method", seed, "work") for seed in range(2)]
    run_jobs(jobs, functools.partial(never_stop, Path(sys.argv[1])), processes=2, progress=quiet)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux who is alive")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(tmp_path, number) -> None:
    root = str(Path(__file__).parents[2])
    (tmp_path / "parent.py").write_text(PARENT)
    # As a shell starts what ends in "&": in a process group of its own that does not hear Ctrl-C.
    parent = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, str(tmp_path / "parent.py"), str(tmp_path), root],
        start_new_session=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    notes = [tmp_path / f"work-seed{seed}" for seed in range(2)]
    deadline = time.monotonic() + 600
    while not all(note.is_file() and note.read_text() for note in notes):
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = [int(note.read_text()) for note in notes]
    os.kill(parent.pid, number)
    parent.wait()
    deadline = time.monotonic() + 60  # 5 s are promised, on a machine that is not busy
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


ONE, OTHER = Job("method", 0, "grpo"), Job("clone", 1)


def test_lines_come_at_a_distance_without_a_terminal() -> None:
    file = io.StringIO()
    with shown([ONE], Console(file=file, width=20)) as report:
        report(ONE, 0, 10, "start")
        assert file.getvalue() == "grpo-seed0 0/10 start\n"
        report(ONE, 10, 10, "validation 50 % and more words than fit a line")
        assert file.getvalue().splitlines()[1:] == ["grpo-seed0 10/10 validation 50 % and more words than fit a line"]
    file, now = io.StringIO(), [0.0]
    report = lines(Console(file=file, width=80), clock=lambda: now[0])
    for step in range(100):
        now[0] = float(step)
        report(ONE, step, 1000, "")
        report(OTHER, step, 99, "")
    steps = [line.split("/")[0].split() for line in file.getvalue().splitlines()]
    assert [int(step) for name, step in steps if name == "grpo-seed0"] == [0, 30, 60, 90]
    assert [int(step) for name, step in steps if name == "clone-seed1"] == [0, 30, 60, 90, 99]


def test_a_terminal_gets_a_bar_for_every_job():
    file = io.StringIO()
    with shown([ONE, OTHER], Console(file=file, width=100, force_terminal=True)) as report:
        report(ONE, 3, 10, "going on")
    assert "grpo-seed0" in file.getvalue()
    assert "3/10" in file.getvalue()
    assert "waiting" in file.getvalue()
