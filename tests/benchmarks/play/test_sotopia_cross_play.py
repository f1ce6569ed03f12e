"""Players of SOTOPIA against each other, counted by hand against playing one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.outside.dialogue import Act, Failure, Player, View
from agentgym.sotopia.generated import FAMILIES, generate
from agentgym.sotopia.judge import RulesJudge
from agentgym.sotopia.players import make_player
from benchmarks.play.sotopia_cross_play import STUDY, cross_play
from benchmarks.run import app
from tests.agentgym.sotopia.support import play

TASKS = [generate(family, 0, index) for index in range(5) for family in FAMILIES]


def test_dialogues_side_by_side_and_failures() -> None:
    cell = cross_play("fair", "yielding", TASKS, RulesJudge())
    assert cell.families == list(FAMILIES)
    assert cell.played == [10, 10, 10, 10]
    for number, family in enumerate(FAMILIES):
        goals = []
        for task in TASKS:
            assert task.game is not None
            if task.game.family == family:
                for role in (0, 1):
                    pair = make_player("fair"), make_player("yielding")
                    dialogue = play(task, *(pair if role == 0 else pair[::-1]))
                    goals.append(dialogue.outcome.goals[role])
        assert cell.goal[number] == pytest.approx(sum(goals) / 10)
        assert cell.won[number] == sum(goal > 6 for goal in goals)
    cell = cross_play("negotiator", "negotiator", TASKS, RulesJudge())
    assert cell.goal == pytest.approx(cell.partner_goal)
    assert cell.unscored == 0

    def find(name: str) -> Player:
        return Absent() if name == "absent" else make_player(name)

    cell = cross_play("absent", "fair", TASKS, RulesJudge(), find)
    assert cell.unscored == 40
    assert cell.played == [0, 0, 0, 0]


class Absent:
    """Never answers."""

    def act(self, views: Sequence[View]) -> list[Act | Failure]:
        return [Failure("nobody there") for _ in views]


def test_the_command_prints_a_table_and_writes_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "some"
    given = ["study", "crossplay", "--players", "silent,fair", "--partners", "rules", "--tasks", "8", "--out", str(out)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    silent, fair = STUDY.load(out / "crossplay.json").cells
    assert (silent.player, silent.won, silent.played) == ("silent", [0] * 4, [4] * 4)
    assert sum(fair.won) > 0
    assert "bargain" in done.output


@pytest.mark.parametrize("given", [["--players", "nobody"], ["--players", "fair,fair"], ["--split", "tset"]])
def test_the_command_says_what_is_wrong(given: list[str]) -> None:
    done = CliRunner().invoke(app, ["study", "crossplay", *given])
    assert done.exit_code == 2
    assert "did you mean" in done.output or "different names" in done.output or "known:" in done.output
