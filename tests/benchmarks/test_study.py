"""What all studies share, by a study of two numbers that are squared."""

import contextlib
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from agentgym.outside.files import OtherConfigurationError
from benchmarks.json_files import ResultsError
from benchmarks.machine import describe_machine
from benchmarks.report.page import Page, Panel, Table, html, markdown
from benchmarks.study import Found, Study
from tests.benchmarks.command import run
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


def study(calls, **changes):
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
    made, folder = study(calls), tmp_path / "out"
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


def test_another_configuration_and_a_wrong_option_are_refused(tmp_path):
    made = study([])
    made.play(Asked([2, 3]), tmp_path)
    refuses(OtherConfigurationError, "numbers: there", lambda: made.play(Asked([2, 4]), tmp_path))
    run_command(made, "--last", 4, "--out", tmp_path, status=2)
    run_command(made, "--last", 0, "--out", tmp_path, status=2)
    run_command(made, "--jobs", 1, "--out", tmp_path, status=2)  # it has no processes


def test_results_of_another_version_and_ones_that_do_not_fit_are_named(tmp_path):
    found = study([]).play(Asked([2, 3]), tmp_path)
    with pytest.raises(ResultsError, match=r"squares\.json: this code reads version 5, got version 4"):
        study([], version=5).load(tmp_path / "squares.json")
    with pytest.raises(ResultsError, match="squares: expected 2"):
        study([]).save(Squares(**{**vars(found), "squares": []}), tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_one_page_as_markdown_and_as_html(tmp_path):
    made = study([])
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
