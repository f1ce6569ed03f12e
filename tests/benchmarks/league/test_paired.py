"""The combinations from end to end, on a few test tasks of Sokoban."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import typer
from rich.console import Console
from typer.testing import CliRunner

from agentgym.trajectory import StepTable
from benchmarks.json_files import load
from benchmarks.league.combinations import CHOSEN, COMBINATIONS, MEASURED, OWN, PUBLISHED, graph_else_vine
from benchmarks.league.command import league
from benchmarks.league.paired import Contest, Contests, Place, print_contests
from benchmarks.statistics import Interval
from wrappers.credit.method import Credit

APP = typer.Typer()
APP.command()(league)


def run(folder, *options):
    words = ["--quick", "--credits", "combinations", "--split", "test", "--env", "sokoban", "--out", folder, *options]
    return CliRunner().invoke(APP, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("league") / "combinations"
    result = run(place)
    assert result.exit_code == 0, result.output
    return place


@pytest.fixture(scope="module")
def found(folder):
    return load(Contests, folder / "combinations.json")


def test_everything_is_held_against_the_chosen_combination(found):
    assert found.config.split == "test"
    contest = found.contests[0]
    names = [place.credit for place in contest.places if place.size == 4]
    assert names == [*(credit.name for credit in MEASURED), "vine", "graphgpo, else vine"]
    chosen = contest.place(CHOSEN, 4)
    for place in (contest.place("grpo", 4), contest.place("best way, of rewards", 4)):
        for name, difference in place.less_than_chosen.items():
            assert difference.mean == pytest.approx(chosen.measures[name].mean - place.measures[name].mean)
    # Nearly the same credit on the same tasks: the tasks' luck, which both have, is not in the difference.
    near = contest.place("best way, of rewards", 4)
    paired, alone = near.less_than_chosen["within"], near.measures["within"]
    assert paired.high - paired.low < alone.high - alone.low
    # GRPO orders the steps of a state by their episodes alone, and a constant orders nothing.
    assert contest.place("grpo", 4).less_than_chosen["within"].mean > 0.1
    assert contest.place("always right", 4).measures["within"].mean == 0


def test_the_same_command_continues(folder, found):
    result = run(folder)
    assert result.exit_code == 0
    assert "sokoban, all players: finished before" in result.output
    assert load(Contests, folder / "combinations.json").contests == found.contests


def test_the_best_published_method_is_no_own_one():
    def place(name, rank):
        interval = None if rank is None else Interval(rank, rank, rank)
        return Place(name, "step", 8, {"within": interval}, {"within": interval})

    contest = Contest("sokoban", "distance", {}, [
        place("grpo", 0.1), place("graphgpo step", 0.3), place("graphgpo_filled", 0.9), place("hgpo step", None),
        place(CHOSEN, 0.8),
    ], 0.0)  # fmt: skip
    assert contest.best_published("within", 8).credit == "graphgpo step"
    with pytest.raises(KeyError, match="no 'salt' at group size 8"):
        contest.place("salt", 8)
    assert {credit.method for credit in PUBLISHED}.isdisjoint({*OWN, *(each.method for each in COMBINATIONS)})


def test_continuations_fill_in_where_the_graph_is_silent():
    table = StepTable.from_arrays(
        group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
        next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
    )  # fmt: skip
    vine = Credit("vine", "branches", "", lambda table: np.array([9.0, 0.5, np.nan]))
    # Only "up" is not compared: a tenth of what the continuations say.
    assert graph_else_vine(vine).give(table) == pytest.approx([0.7071, 0.05, -0.7071], abs=1e-4)


def test_an_environment_that_nobody_wins_is_in_no_table(capsys, found):
    lost = Contest("searchqa", "value", {"random": 0.0}, [], 0.0)
    print_contests(dataclasses.replace(found, contests=[lost]), Console(width=100))
    printed = capsys.readouterr().out
    assert "searchqa: no player won 2% of the episodes, nothing is compared" in printed
    assert "best published" not in printed


def test_truths_and_players_that_it_does_not_measure_are_refused(tmp_path):
    result = run(tmp_path, "--check")
    assert result.exit_code == 2
    assert "leave out --check and --policy" in " ".join(result.output.split())


@pytest.mark.parametrize(("option", "word"), [("--split", "tests"), ("--credits", "combination")])
def test_what_is_asked_wrongly_is_said(tmp_path, option, word):
    result = run(tmp_path, option, word)
    assert result.exit_code == 2
    assert f"'{word}'" in result.output
