"""What the speed of dialogues is measured on: whole dialogues of twenty turns, in which offers are read and judged."""

from pathlib import Path

import gymnasium as gym
import pytest

from agentgym.sotopia.acts import parse
from benchmarks.throughput.sotopia import _FAMILIES, _NUM_ENVS, ENV, TURNS, Tireless, rate, record_commands
from benchmarks.throughput.sotopia_package import VARIABLE, package_rate


def test_whole_dialogues_with_offers_in_every_turn_are_measured() -> None:
    envs = gym.make_vec(
        ENV, _NUM_ENVS, autoreset_mode="Disabled", partner=Tireless(), families=_FAMILIES, max_turns=TURNS
    )
    plan = record_commands(envs, 0)
    assert [len(commands) for commands in plan] == [_NUM_ENVS] * (TURNS // 2)
    assert all(parse(command)[0].kind == "speak" for commands in plan for command in commands)
    assert rate(envs, plan, 0) > 0
    singles = envs.unwrapped.envs
    assert {len(env.world.dialogue.turns) for env in singles} == {TURNS}
    assert all(None not in env.world.standing.offers for env in singles)
    with pytest.raises(RuntimeError, match="not of 20"):
        rate(envs, plan[:3], 0)


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
    with pytest.raises(RuntimeError, match="ImportError: no module; install sotopia"):
        package_rate(True)
