"""What all studies share: parts, pages, the machine, files of results, and jobs in processes that end."""

import contextlib
import dataclasses
import functools
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.console import Console

from agentgym.outside.files import LockedError, OtherConfigurationError
from baselines.records.checkpoint import deferred
from benchmarks.console import lines, shown
from benchmarks.json_files import ResultsError, claimed, load, read_json, write_json
from benchmarks.machine import describe_machine
from benchmarks.processes import Job, JobFailedError, run_jobs
from benchmarks.report.page import Page, Panel, Table, html, markdown
from benchmarks.study import Found, Study
from tests.benchmarks.command import run
from tests.cases import cases
from tests.refusals import refuses


@dataclass(frozen=True)
class Asked:
    numbers: list[int]


@dataclass(frozen=True)
class Square:
    number: int
    square: int


@dataclass(frozen=True)
class Squares(Found):
    config: Asked
    squares: list[Square]
    offset: int


def configure(quick: bool = False, last: Annotated[int, typer.Option("--last", min=1, help="A number.")] = 3) -> Asked:
    """Square two numbers."""
    return Asked([2, last])


def squares(calls, **changes):
    @contextlib.contextmanager
    def prepare(config, folder, tell):
        calls.append("begin")
        yield 10
        calls.append("end")

    def run(config, part, context, progress):
        calls.append(part)
        progress(1, 1, "steps")
        number = int(part.removeprefix("part "))
        if number == 13:
            raise KeyboardInterrupt
        return Square(number, number**2 + context)

    def check(found):
        if len(found.squares) != 2:
            raise ResultsError("squares: expected 2")

    def page(found):
        rows = [[str(one.number), (str(one.square), "up")] for one in found.squares]
        return Page("Squares", "Numbers.", [Table("All", ["n|m", "squared"], [rows[0], None, rows[1]], "Squares.")])

    options = {
        "name": "squares", "file": "squares.json", "version": 4, "part": "number", "record": Square,
        "results": Squares, "configure": configure, "run": run, "page": page, "check": check, "prepare": prepare,
        "parts": lambda config: [f"part {number}" for number in config.numbers],
        "summary": lambda config, squares, context: {"squares": squares, "offset": context},
    }  # fmt: skip
    return Study(**(options | changes))


def run_command(made, *options, status=0):
    app = typer.Typer()
    app.command()(made.command)
    return run(*options, status=status, of=app)


def test_parts_are_kept_and_the_same_command_continues(tmp_path):
    calls = []
    made, folder = squares(calls), tmp_path / "out"
    stopped = run_command(made, "--last", 13, "--out", folder, status=130)
    assert "the same command continues with the next number" in stopped
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "config.json", "part-2.json"]
    with pytest.raises(KeyboardInterrupt):
        made.play(Asked([2, 13]), folder)
    assert calls == ["begin", "part 2", "part 13", "begin", "part 13"]
    (folder / "part-13.json").write_text('{"number": 13, "square": 179}')
    assert "2 of 2 numbers are finished" in run_command(made, "--last", 13, "--out", folder)
    assert made.load(folder / "squares.json").squares == [Square(2, 14), Square(13, 179)]
    assert made.load(folder / "squares.json").offset == 10
    assert {"report.html", "report.md"} < {path.name for path in folder.iterdir()}


def test_another_configuration_version_or_option_is_refused(tmp_path):
    made = squares([])
    made.play(Asked([2, 3]), tmp_path)
    refuses(OtherConfigurationError, "numbers: there", lambda: made.play(Asked([2, 4]), tmp_path))
    run_command(made, "--last", 4, "--out", tmp_path, status=2)
    run_command(made, "--last", 0, "--out", tmp_path, status=2)
    run_command(made, "--jobs", 1, "--out", tmp_path, status=2)  # it has no processes
    found = squares([]).play(Asked([2, 3]), tmp_path)
    with pytest.raises(ResultsError, match=r"squares\.json: this code reads version 5, got version 4"):
        squares([], version=5).load(tmp_path / "squares.json")
    with pytest.raises(ResultsError, match="squares: expected 2"):
        squares([]).save(Squares(**{**vars(found), "squares": []}), tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_one_page_as_markdown_and_as_html(tmp_path):
    made = squares([])
    page = made.shown(made.play(Asked([2, 3]), tmp_path))
    text = markdown(page)
    assert "| n/m | squared |\n| --- | --- |\n| 2 | 14 |\n| 3 | 19 |" in text
    assert "* data: squares.json beside this page holds every number" in text
    shown = html(page, {})
    assert shown.count('<td class="up"') == 2
    assert shown.count('<tr class="part">') == 1  # the rule between the rows
    assert 'id="data"' not in shown
    drawn = Page(**{**vars(page), "panel": Panel("search.html.j2", [], {"a": "<"}, {"stages": [], "gamma": "1"})})
    assert '<script type="application/json" id="data">{"a": "\\u003c"}</script>' in html(drawn, {})


def test_the_machine_names_its_gpus_where_the_driver_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    plain = describe_machine().cpu
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\necho NVIDIA H100\necho NVIDIA L40S\n")
    command.chmod(0o755)
    assert describe_machine().cpu == f"{plain}, NVIDIA H100, NVIDIA L40S"
    command.write_text("#!/bin/sh\necho no devices were found\nexit 6\n")
    assert describe_machine().cpu == plain


GOOD = {"name": "grpo", "points": [{"step": 0, "value": 0.5}, {"step": 1, "value": None}]}


@dataclasses.dataclass(frozen=True)
class Point:
    step: int
    value: float | None


@dataclasses.dataclass(frozen=True)
class Curve:
    name: str
    points: list[Point]
    notes: dict[str, int] = dataclasses.field(default_factory=dict)


def written(path: Path, content: bytes | object) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


@cases(
    "content, expected",
    (b"{", r"Invalid JSON: EOF .* at line 1 column 1"),
    (b'{"name":\n"\xff"}', r"Invalid JSON: invalid unicode code point at line 2 column"),
    (b'{"name":\n"\\ud800"}', r"Invalid JSON: .* at line 2 column"),
    (b'{"points": ' + b"[" * 200_000, r"Invalid JSON: recursion limit exceeded at line 1 column"),
    (b'{"name": "a", "points": [{"step": ' + b"9" * 5000 + b"}]}", "number out of range at line 1 column"),
    (b'{"name": "a", "points": [{"step": 0, "value": 1e400}]}', r"points\[0\]\.value: .* finite number, got inf"),
    (b'{"name": "a", "points": [{"step": 0, "value": NaN}]}', r"points\[0\]\.value: .* finite number, got nan"),
    (b'{"name": "a", "points": [{"step": true, "value": 0}]}', r"points\[0\]\.step: .* integer, got True"),
    (b'{"name": "a", "points": [{"step": 1}]}', r"points\[0\]\.value: Field required"),
    (b'{"name": "a", "points": [], "nmae": 1}', r"nmae: Unexpected keyword argument"),
    (b'{"name": "a", "points": [], "notes": {"b": "\\u0007"}}', r"notes\.b: Input should be a valid integer"),
    (b'{"name": ' + b'"x"' + b', "points": "' + b"y" * 10_000 + b'"}', r"points: .* got 'y{76}\.\.\.; delete"),
    (b"", "Invalid JSON: EOF"),
    (b"[]", "Input should be an object"),
)
def test_a_damaged_file_is_named_with_the_place_of_the_damage(tmp_path, content, expected) -> None:
    path = written(tmp_path / "curve.json", content)
    refuses(ResultsError, rf"^{path}: .*{expected}", load, Curve, path)


def test_what_was_written_is_read_again_with_clean_texts_and_finite_numbers(tmp_path) -> None:
    foul = "</script>\ud800\x00\x1b[31m"
    write_json({"found": [Curve(foul, [])], foul: foul}, tmp_path / "curve.json")
    shown = "</script>\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m"
    assert read_json(tmp_path / "curve.json") == {
        "found": [{"name": shown, "points": [], "notes": {}}], shown: shown,
    }  # fmt: skip
    write_json({"old": 1}, tmp_path / "curve.json")
    with pytest.raises(ResultsError, match=r"curve\.json: not written: Out of range float"):
        write_json(Curve("a", [Point(0, float("nan"))]), tmp_path / "curve.json")
    assert read_json(tmp_path / "curve.json") == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["curve.json"]
    curve = Curve("grpo", [Point(0, 0.5), Point(1, None)])
    write_json(curve, tmp_path / "curve.json")
    assert load(Curve, tmp_path / "curve.json") == curve
    # What was added later has a default: older files lack it.
    assert load(Curve, written(tmp_path / "old.json", GOOD)) == curve
    for content in (b"{", b'"\xff"', b"[" * 200_000, b"NaN", b"1e400", b"9" * 5000):
        path = written(tmp_path / "any.json", content)
        refuses(ResultsError, f"^{path}: ", read_json, path)


def test_a_second_benchmark_in_a_folder_is_told_who_is_there(tmp_path) -> None:
    words = f"{tmp_path} is in use by process {os.getpid()}"
    with claimed(tmp_path, {}), pytest.raises(LockedError, match=words), claimed(tmp_path, {}):
        pass
    with claimed(tmp_path, {}):
        pass


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


def test_failures_deaths_and_what_progress_raises_stop_the_others() -> None:
    with pytest.raises(JobFailedError, match=r"(?s)work-seed0 failed:.*no luck with 0"):
        run_jobs(JOBS[:1], fail, processes=1, progress=quiet)
    refuses(JobFailedError, "status 3", lambda: run_jobs(JOBS[:1], die, processes=1, progress=quiet))

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


def stop_after_the_iteration(folder: Path, job: Job, report) -> None:
    """Write a file when asked to stop, a moment later, as a trainer writes its checkpoint."""
    with deferred() as interruption:
        (folder / job.name).write_text(str(os.getpid()))
        while interruption.signal is None:
            time.sleep(0.05)
        time.sleep(0.3)
        (folder / f"{job.name}-saved").touch()
    interruption.raise_if_asked()


PARENT = """
import functools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from benchmarks.processes import Job, run_jobs
from tests.benchmarks import test_study
if __name__ == "__main__":
    jobs = [Job("method", seed, "work") for seed in range(2)]
    work = functools.partial(getattr(test_study, sys.argv[3]), Path(sys.argv[1]))
    run_jobs(jobs, work, processes=2, progress=test_study.quiet)
"""


def start_parent(folder: Path, work: str) -> tuple[subprocess.Popen, list[int]]:
    """A process that runs two jobs, and the processes of its workers when they have written who they are."""
    root = str(Path(__file__).parents[2])
    (folder / "parent.py").write_text(PARENT)
    # As a shell starts what ends in "&": in a process group of its own that does not hear Ctrl-C.
    parent = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "parent.py", ".", root, work], cwd=folder,
        start_new_session=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    notes = [folder / f"work-seed{seed}" for seed in range(2)]
    deadline = time.monotonic() + 600
    while not all(note.is_file() and note.read_text() for note in notes):
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return parent, [int(note.read_text()) for note in notes]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks Linux who is alive")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(tmp_path, number) -> None:
    parent, workers = start_parent(tmp_path, "never_stop")
    while parent.poll() is None:  # the first SIGTERM waits for the workers
        parent.send_signal(number)
        time.sleep(0.05)
    deadline = time.monotonic() + 60  # 5 s are promised, on a machine that is not busy
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


@pytest.mark.parametrize("asked", ["parent", "first worker", "all"])
def test_workers_end_their_iteration_whoever_gets_sigterm(tmp_path, asked) -> None:
    parent, workers = start_parent(tmp_path, "stop_after_the_iteration")
    for pid in {"parent": [parent.pid], "first worker": workers[:1], "all": [*workers, parent.pid]}[asked]:
        os.kill(pid, signal.SIGTERM)
    assert parent.wait(60) == (1 if asked == "first worker" else 143)
    assert {path.name for path in tmp_path.glob("*-saved")} == {"work-seed0-saved", "work-seed1-saved"}


ONE, OTHER = Job("method", 0, "grpo"), Job("clone", 1)


def test_lines_come_at_a_distance_and_a_terminal_gets_a_bar_for_every_job() -> None:
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
    file = io.StringIO()
    with shown([ONE, OTHER], Console(file=file, width=100, force_terminal=True)) as report:
        report(ONE, 3, 10, "going on")
    assert "grpo-seed0" in file.getvalue()
    assert "3/10" in file.getvalue()
    assert "waiting" in file.getvalue()
