"""`./do`: which packages a task installs, and that each is installed once. The interpreter is one that listens."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTENER = '#!/bin/sh\necho "$@" >>heard\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("do", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(LISTENER)
    python.chmod(0o755)
    return tmp_path


def do(checkout: Path, *task: str) -> tuple[list[str], str]:
    """Run a task; return what the interpreter was called with, and what was said."""
    heard = checkout / "heard"
    heard.unlink(missing_ok=True)
    result = subprocess.run(["./do", *task], cwd=checkout, capture_output=True, text=True, env=os.environ, check=False)
    assert result.returncode == 0, result.stderr
    return heard.read_text().splitlines(), result.stderr


def installed(calls: list[str]) -> list[str]:
    """The extras of the installations among the calls; "" for torch alone."""
    return [call.partition(".[")[2].rstrip("]") for call in calls if call.startswith("-m pip install")]


def test_the_main_job_installs_its_own_extras_once_for_each_set_of_versions(checkout: Path) -> None:
    calls, said = do(checkout, "bench", "--quick", "--seeds", "0 1")
    assert installed(calls) == ["", "train,bench,smollm2"]
    assert "the main job" in said
    assert not any("-q" in call for call in calls if call.startswith("-m pip install"))  # pip shows what it does
    assert calls[-1] == "-m benchmarks.run --quick --seeds 0 1"
    calls, said = do(checkout, "bench", "report", "x")
    assert (calls, said) == (["-m benchmarks.run report x"], "")
    with (checkout / "constraints.txt").open("a") as stream:
        stream.write("# another\n")
    assert installed(do(checkout, "bench")[0]) == ["", "train,bench,smollm2"]


def test_the_full_set_comes_after_the_small_one_and_serves_both(checkout: Path) -> None:
    do(checkout, "bench")
    first, *more = installed(do(checkout, "check")[0])
    assert first == ""
    assert (more[0][:20], more[0][-4:]) == ("train,bench,smollm2,", ",dev")
    for task in ("bench", "check", "fuzz"):
        assert installed(do(checkout, task)[0]) == []


def test_the_site_needs_no_tools_of_developers(checkout: Path) -> None:
    calls, said = do(checkout, "docs", "--site-dir", "here")
    assert installed(calls) == ["", "train,bench,smollm2,docs"]
    assert calls[-1] == "-m mkdocs build -f website/mkdocs.yml --site-dir here"
    assert "runs/site/index.html" in said
    assert installed(do(checkout, "bench")[0]) == []


@pytest.mark.parametrize(
    ("engine", "pins", "extras"),
    [("trl", "constraints.txt", "trl,bench,smollm2,dev"), ("verl", "constraints-verl.txt", "verl,dev")],
)
def test_an_engine_has_an_environment_and_where_it_must_versions_of_its_own(
    checkout: Path, engine: str, pins: str, extras: str
) -> None:
    tests = checkout / "tests" / "engines"
    tests.mkdir(parents=True)
    (tests / f"test_{engine}.py").touch()
    shutil.copy(ROOT / "constraints-verl.txt", checkout)
    (checkout / ".venv").rename(checkout / f".venv-{engine}")
    calls, _ = do(checkout, "engines", engine, "-x")
    assert installed(calls) == ["", extras]
    assert all(f"-c {pins}" in call for call in calls if call.startswith("-m pip install"))
    assert calls[-1] == f"-m pytest tests/engines/test_{engine}.py -x"
    assert installed(do(checkout, "engines", engine)[0]) == []
    unknown = subprocess.run(["./do", "engines", "other"], cwd=checkout, capture_output=True, text=True, check=False)
    assert unknown.returncode == 1
    assert f"./do engines {engine}" in unknown.stderr


def test_the_lowest_versions_have_an_environment_of_their_own(checkout: Path) -> None:
    shutil.copy(ROOT / "constraints-lowest.txt", checkout)
    (checkout / ".venv").rename(checkout / ".venv-lowest")
    calls, _ = do(checkout, "lowest")
    installs = [call for call in calls if call.startswith("-m pip install")]
    assert all("-c constraints-lowest.txt" in call for call in installs)
    assert installs[-1].endswith("-e .[train] pytest hypothesis")
    assert calls[-1] == "-m pytest -m not slow tests/wrappers tests/policies"
    assert do(checkout, "lowest", "tests/test_docs.py")[0] == ["-m pytest -m not slow tests/test_docs.py"]
