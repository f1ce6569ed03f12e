"""The commands `evaluate` and `aliasing`, as a user calls them."""

import json
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

from typer.testing import CliRunner

from benchmarks.run import app


def run(*options):
    result = CliRunner().invoke(app, [str(option) for option in options], env={"COLUMNS": "120"})
    return result.exit_code, re.sub(r"\s+", " ", re.sub(r"[│┃║]", " ", result.output))


def test_all_scripted_players_are_shown_kind_by_kind(tmp_path):
    code, words = run("evaluate", "--env", "alfworld", "--tasks", 12, "--out", tmp_path / "figures.json",
                      "--option", "data=generated")  # fmt: skip
    assert code == 0, words
    found = json.loads((tmp_path / "figures.json").read_text("utf-8"))
    assert list(found) == ["random", "explorer", "expert"]
    assert found["expert"]["success"] == 1.0
    assert sum(found["expert"]["played"].values()) == 12
    assert "AgentRL/ALFWorld-v0, valid_unseen" in words
    assert re.search(r"expert( 100\.0)+ ", words)
    assert "expert: return 1.00, " in words


def test_arguments_of_the_environment_count(tmp_path):
    code, words = run(
        "evaluate", "--policy", "expert", "--option", "task_types=[5]", "--option", "num_games=36", "--split", "train",
        "--steps", 3, "--out", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0, words
    found = json.loads((tmp_path / "figures.json").read_text("utf-8"))["expert"]
    assert found["played"] == {"pick_cool_then_place_in_recep": 5}
    assert (found["won"], found["episode_length"]) == ({"pick_cool_then_place_in_recep": 0}, 3.0)


def test_an_environment_without_kinds_has_one_column(tmp_path):
    code, words = run("evaluate", "--env", "sokoban", "--tasks", 4)
    assert code == 0, words
    assert "AgentRL/Sokoban-v0, test" in words
    assert "explorer" not in words


def test_webshop_is_told_by_its_score():
    code, words = run("evaluate", "--env", "webshop", "--tasks", 6, "--policy", "expert")
    assert code == 0, words
    assert "expert: score 1.00, " in words


def test_search_qa_is_told_by_source():
    code, words = run("evaluate", "--env", "searchqa", "--tasks", 30, "--policy", "random", "--policy", "expert")
    assert code == 0, words
    assert re.search(r"expert( 100\.0| -)+ ", words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "explora"], "unknown policy 'explora'"),
        (["--env", "sokoban", "--policy", "explorer"], "unknown policy 'explorer'"),
        (["--option", "task_types"], "expected name=value, got 'task_types'"),
        (["--split", "test"], "unknown split 'test'"),
        (["--option", "task_types=[9]"], "9"),
        (["--option", "tasktypes=[1]"], "tasktypes"),
        (["--split", "train", "--option", "num_games=3", "--option", "task_types=[5]"], "no task for these"),
        (["--option", "data=/nowhere"], "/nowhere"),
    ],
)
def test_wrong_use_is_explained(options, words):
    code, output = run("evaluate", *options)
    assert code == 2, output
    assert words in output


def test_keys_are_compared_on_one_play(tmp_path):
    code, words = run("aliasing", "--tasks", 3, "--repeats", 2, "--out", tmp_path / "aliasing.json")
    assert code == 0, words
    assert "generated games, valid_unseen: 3 games x 2 episodes, random verbs" in words
    found = json.loads((tmp_path / "aliasing.json").read_text("utf-8"))
    shares = [row["aliased"] for row in found["keys"][:3]]
    assert 1 > shares[0] > shares[1] >= shares[2] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--player", "dice"], "expected one of commands, verbs"), (["--data", "/nowhere"], "/nowhere")],
)
def test_wrong_use_of_aliasing_is_explained(options, words):
    code, output = run("aliasing", *options)
    assert code == 2, output
    assert words in output
