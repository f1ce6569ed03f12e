"""Progress reaches files as well as terminals."""

import io

import pytest

pytest.importorskip("torch")
from rich.console import Console

from benchmarks.console import lines, shown
from benchmarks.processes import Job

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
