"""Jobs in processes: all are done, failures and deaths are told, nothing is left running."""

import functools
import multiprocessing
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.learning.jobs import Job
from benchmarks.processes import JobFailedError, run_jobs

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
    told = []
    run_jobs(JOBS, functools.partial(note, tmp_path), processes=2, progress=lambda *words: told.append(words))
    found = [(tmp_path / job.name).read_text().split() for job in JOBS]
    assert {threads for _, threads in found} == {"1"}
    assert 1 <= len({pid for pid, _ in found} - {str(os.getpid())}) <= 2
    assert sorted((job.seed, done) for job, done, _, _ in told) == [(i, done) for i in range(5) for done in (0, 1)]
    assert multiprocessing.active_children() == []


def test_a_failure_is_told_with_its_traceback() -> None:
    with pytest.raises(JobFailedError, match=r"(?s)work-seed0 failed:.*no luck with 0"):
        run_jobs(JOBS[:1], fail, processes=1, progress=quiet)


def test_a_process_that_dies_is_noticed() -> None:
    with pytest.raises(JobFailedError, match="status 3"):
        run_jobs(JOBS[:1], die, processes=1, progress=quiet)


def test_what_progress_raises_stops_the_others() -> None:
    def interrupt(*words) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(JOBS, fail_slowly, processes=2, progress=interrupt)
    assert multiprocessing.active_children() == []


def fail_slowly(job: Job, report) -> None:
    report(0, 1, "")
    multiprocessing.Event().wait(60)
