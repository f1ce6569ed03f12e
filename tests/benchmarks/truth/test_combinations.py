"""The combinations from end to end, on a few test tasks of Sokoban."""

import dataclasses

import pytest

from tests.benchmarks.command import run

pytest.importorskip("typer")
pytest.importorskip("rich")


from benchmarks.statistics import Interval
from benchmarks.truth.combinations import PUBLISHED, STUDY, Contest, Place
from benchmarks.truth.credits import CHOSEN, COMBINATIONS, OWN, names_of
from tests.refusals import refuses

OPTIONS = ("study", "combinations", "--quick", "--split", "test", "--env", "sokoban", "--out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("combinations") / "study"
    run(*OPTIONS, place)
    return place


@pytest.fixture(scope="module")
def found(folder):
    return STUDY.load(folder / "combinations.json")


def test_combinations_are_held_against_the_chosen_one(found) -> None:
    assert found.config.split == "test"
    contest = found.contests[0]
    names = [place.credit for place in contest.places if place.size == 4]
    assert names == [*names_of("combinations"), "vine", "graphgpo, else vine"]
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
    page = STUDY.shown(dataclasses.replace(found, contests=[Contest("searchqa", "value", {"random": 0.0}, [], 0.0)]))
    assert "In searchqa no player wins that often" in page.lead
    assert not page.tables


def test_the_same_command_continues(folder, found):
    assert "1 of 1 environments are finished" in run(*OPTIONS, folder)
    assert STUDY.load(folder / "combinations.json").contests == found.contests


def test_the_best_published_method_is_no_own_one():
    def place(name, rank):
        interval = None if rank is None else Interval(rank, rank, rank)
        return Place(name, "step", 8, {"within": interval}, {"within": interval})

    contest = Contest("sokoban", "distance", {}, [
        place("grpo", 0.1), place("graphgpo step", 0.3), place("graphgpo_filled", 0.9), place("hgpo step", None),
        place(CHOSEN, 0.8),
    ], 0.0)  # fmt: skip
    assert contest.best_published("within", 8).credit == "graphgpo step"
    refuses(KeyError, "no 'salt' at group size 8", contest.place, "salt", 8)
    assert {credit.method for credit in PUBLISHED}.isdisjoint({*OWN, *(each.method for each in COMBINATIONS)})
