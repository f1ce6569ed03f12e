"""Dialogues are measured whole, with offers in every turn; many at a time wait for an endpoint together."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.outside.dialogue import parse
from benchmarks.run import app
from benchmarks.speed.sotopia_dialogues import (
    NUM_ENVS,
    TURNS,
    make_dialogues,
    play_dialogues,
    random_commands,
    record_commands,
)
from benchmarks.speed.sotopia_package import VARIABLE, package_rate
from tests.refusals import refuses


def test_dialogues_are_measured() -> None:
    envs = make_dialogues()
    plan = record_commands(envs, 0)
    assert [len(commands) for commands in plan] == [NUM_ENVS] * (TURNS // 2)
    assert all(parse(command)[0].kind == "speak" for commands in plan for command in commands)
    assert play_dialogues(envs, plan, 0).value > 0
    singles = envs.unwrapped.envs
    assert {len(env.world.dialogue.turns) for env in singles} == {TURNS}
    assert all(None not in env.world.standing.offers for env in singles)
    refuses(RuntimeError, "not of 20", lambda: play_dialogues(envs, plan[:3], 0))
    said = [parse(command)[0].text for first in (0, NUM_ENVS) for step in random_commands(first) for command in step]
    assert len(said) == len(set(said)) == TURNS * NUM_ENVS
    assert all(len(text.split()) == 10 for text in said)
    words = [word for text in said for word in text.split()]
    assert len(set(words)) > 0.999 * len(words)


def test_the_package_is_measured_where_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert package_rate(True) is None
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ntest "$SOTOPIA_STORAGE_BACKEND" = local && test -z "$PYTHONPATH" && printf "some words\\n450.5"'
    )
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv(VARIABLE, str(python))
    assert package_rate(True) == 450.5
    python.write_text('#!/bin/sh\nprintf "Traceback\\nImportError: no module" >&2\nexit 1')
    refuses(RuntimeError, "ImportError: no module; install sotopia", package_rate, True)


def test_the_command_plays_scored_dialogues_and_writes_its_figures(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    sizes = ["--dialogues", "3", "--delay", "0.01", "--turns", "4", "--repeats", "1"]
    result = CliRunner().invoke(app, ["speed", "endpoint", *sizes, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "3 at a time" in result.output
    found = json.loads((tmp_path / "endpoint.json").read_text())
    seconds = {each["key"]: each["value"] for each in found["measurements"]}
    # Two answers of the partner and one of the judge, one after the other.
    assert seconds["one"] >= 0.03
    assert found["ratios"][0]["value"] == pytest.approx(seconds["one"] / seconds["many"])
