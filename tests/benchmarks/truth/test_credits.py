"""The credits that are compared, and the combinations of them from end to end, on a few test tasks of Sokoban."""

import dataclasses

import numpy as np
import pytest

from benchmarks.json_files import ResultsError
from benchmarks.statistics import Interval
from benchmarks.truth.combinations import PUBLISHED, STUDY, Contest, Place
from benchmarks.truth.credits import (
    BASELINE,
    CHOSEN,
    COMBINATIONS,
    OWN,
    SETS,
    credits_called,
    graph_else_vine,
    names_of,
)
from tests.benchmarks.command import run
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo, step_level
from wrappers.credit.method import Credit

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


# Both ways lead from "s"; the winner goes right. One state visited twice, the others once.
TABLE = episodes("s -right-> u -up-> goal +", "s -left-> pit")
# Right wins once and loses once, left loses.
BRANCHED = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")


OLDER, RECENT = SETS["published"], SETS["2026"]


def test_credits_by_hand() -> None:
    for name in SETS:
        names = names_of(name)
        assert len(set(names)) == len(names)
        assert BASELINE in names
    assert [credit.name for credit in OLDER if credit in RECENT] == [
        "grpo", BASELINE, "graphgpo step", "rewardflow step",
    ]  # fmt: skip
    assert {*OLDER, *RECENT} == {*SETS["all"]}
    refuses(ResultsError, "unknown set of credits 'new'; known: 'methods', 'published', '2026'", names_of, "new")
    names = ["empg", "grpo", "vine", "random"]
    assert [credit.name for credit in credits_called(names, learned=True)] == ["empg", "grpo"]
    assert [credit.name for credit in credits_called(names, learned=False)] == ["grpo"]
    # Returns .95 and 0 at "s": -/+ half of .95 over .95 / sqrt(2): .7071; "u" was visited once.
    assert step_level(TABLE) == pytest.approx([0.70711, 0, -0.70711], abs=1e-5)
    for preset in ("paper", "authors"):
        whole, episode = gigpo(TABLE, preset=preset), gigpo(TABLE, preset=preset, omega=0.0)
        assert step_level(TABLE, preset=preset) == pytest.approx(whole - episode, abs=1e-12)
    for credit in OLDER:
        values = credit.give(TABLE)
        assert values[0] > values[2], credit.name
        if credit.part == "step":
            assert values[1] == 0, credit.name
        elif credit.part in ("episode", "total"):
            assert values[1] > 0, credit.name
    names = [credit.name for credit in OLDER if credit.part == "fitted"]
    assert names == [
        "agentprm", "value_gain", "attribution", "attribution, centred", "graphgpo_filled", "graphgpo_filled, raw",
        "graphgpo_filled, raw centred",
    ]  # fmt: skip
    vine = Credit("vine", "branches", "", lambda table: np.array([9.0, 0.5, np.nan]))
    # Only "up" is not compared: a tenth of what the continuations say.
    assert graph_else_vine(vine).give(TABLE) == pytest.approx([0.7071, 0.05, -0.7071], abs=1e-4)


@pytest.mark.parametrize("credit", RECENT, ids=lambda credit: credit.name)
def test_every_credit_knows_the_better_of_two_ways(credit):
    values = credit.give(BRANCHED)
    assert values.shape == (5,)
    assert values[1] > values[3]  # up and down
    assert np.isfinite(values).all()
