"""Playing in a terminal: every environment with piped input, numbers and commands, and the words of the player."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import gymnasium as gym
import pytest

from agentgym.core import TextSpace
from agentgym.play import main
from agentgym.registry import ROWS
from tests.cases import cases
from tests.processes import ROOT


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """A function of arguments and typed lines, which returns the status and all that was printed."""

    def played(arguments: list[str], *typed: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
        return main(arguments), capsys.readouterr().out

    return played


@pytest.mark.parametrize("env_id", [row.id for row in ROWS])
def test_every_environment_is_played_by_the_experts_hints_and_any_line_is_taken(env_id: str, play) -> None:
    env = gym.make(env_id, expert=True)
    _, info = env.reset(seed=0)
    typed, over = [], False
    while not over:
        typed += ["hint", info["expert_action"]]
        *_, terminated, truncated, info = env.step(info["expert_action"])
        over = terminated or truncated
    status, shown = play([env_id, "--seed", "0"], *typed)
    assert status == 0
    steps = len(typed) // 2
    for words in ("\nwon: ", f" in {steps} step{'' if steps == 1 else 's'}.", *typed[1::2]):
        assert words in shown
    lines = [
        "", "1", "socks", "0", "99", "9" * 40, ":nothing", "save", "2", "restore", "undo", "info", "help", "\x00é√",
    ]  # fmt: skip
    status, shown = play([env_id, "--seed", "1"], *lines)
    assert status == 0  # the end of input is the end
    for words in ("there is no command 99: 1 to", "unknown word ':nothing'", "saved", "state_key"):
        assert words in shown


def boards(shown: str) -> list[str]:
    """The Sokoban boards among what was printed, in one row each."""
    return ["/".join(line for line in part.splitlines() if line.startswith("#")) for part in shown.split("> ")]


def test_undo_save_and_restore_go_back_and_a_colon_and_an_open_place_are_understood(play) -> None:
    status, shown = play(
        ["sokoban", "--split", "test", "--index", "3", "--set", "max_episode_steps=3"],
        "1", "save", "undo", "undo", "restore", "1", "1", "1", "undo", "quit",
    )  # fmt: skip
    assert status == 0
    first, one, _, undone, _, restored, two, _, _, back, *_ = boards(shown)
    assert (undone, restored, back) == (first, one, two)
    assert len({first, one, two}) == 3
    assert "this is the beginning" in shown
    assert "\nout of time: return -0.3 in 3 steps." in shown
    assert "the episode is over: type again, undo or quit" in shown
    game = ["ALFWorld", "--set", "data=generated", "--seed", "0"]
    assert "Available commands" in play(game, "help")[1]
    assert "undo the last command" in play(game, ":help")[1]
    _, shown = play(["webshop", "--seed", "0"], "1", "wool socks", "info")
    assert "> query: " in shown
    assert "results 1 of 'wool socks'" in shown
    _, shown = play(["VisualSokoban", "--set", "size=6", "--seed", "0"], "quit")
    assert "Boxes on targets: 0 of 1.\n######\n" in shown


@cases(
    "arguments, words",
    (["AgentRL/Alfworld-v0"], "unknown environment 'AgentRL/Alfworld-v0'; .*did you mean 'AgentRL/ALFWorld-v0'"),
    (["sokoban", "--index", "1000"], "index 1000 is out of range"),
    (["sokoban", "--set", "boxs=3"], "unknown argument 'boxs'; .*did you mean 'boxes'"),
    (["sokoban", "--set", "boxes"], "expected name=value"),
    (["CartPole-v1"], "its observations are ndarray, not text"),
)
def test_wrong_arguments_are_explained(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert re.search(words, " ".join(capsys.readouterr().err.split()))


class Echo(gym.Env[str, str]):
    """Plain Gymnasium: no info keys, no snapshots."""

    observation_space = TextSpace()
    action_space = TextSpace()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "say bye", {}

    def step(self, action):
        return f"you said {action}", 1.0, action == "bye", False, {}


def test_a_plain_environment_is_played_without_snapshots(play) -> None:
    gym.register("Test/Echo-v0", entry_point=Echo)
    try:
        status, shown = play(["Test/Echo-v0"], "hello", "undo", "hint", "bye", "x", "again")
    finally:
        del gym.registry["Test/Echo-v0"]
    assert status == 0
    for words in ("you said hello", "no undo: this environment has no snapshots", "there is no expert"):
        assert words in shown
    assert "\nover: return 2 in 2 steps. Type again, or quit." in shown
    assert shown.count("say bye") == 2


def test_ctrl_c_ends_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "agentgym.play", "sokoban"], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while "1 " not in process.stdout.readline():
        pass
    time.sleep(0.3)  # the prompt follows the commands
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert (process.returncode, errors) == (130, "")
