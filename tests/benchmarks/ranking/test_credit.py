"""The credits that are compared."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.ranking.credit import BASELINE, METHODS, RECENT, credits
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo, step_level

# Both ways lead from "s"; the winner goes right. One state visited twice, the others once.
TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
    next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
)  # fmt: skip
# Right wins once and loses once, left loses.
BRANCHED = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")


def test_names_are_distinct_and_hold_the_baseline():
    for methods in (METHODS, RECENT):
        names = [credit.name for credit in credits(np.zeros(3), 0, methods)]
        assert len(set(names)) == len(names)
        assert BASELINE in names
    # What both sets hold is the same.
    known = {credit.name: credit for credit in METHODS}
    assert [known[credit.name] for credit in RECENT if credit.name in known] == list(RECENT[:4])


def test_gigpo_without_its_episode_level():
    # Returns .95 and 0 at "s": -/+ half of .95 over .95 / sqrt(2): .7071; "u" was visited once.
    assert step_level(TABLE) == pytest.approx([0.70711, 0, -0.70711], abs=1e-5)
    for preset in ("paper", "authors"):
        whole, episode = gigpo(TABLE, preset=preset), gigpo(TABLE, preset=preset, omega=0.0)
        assert step_level(TABLE, preset=preset) == pytest.approx(whole - episode, abs=1e-12)


def test_step_parts_leave_the_episode_out():
    for credit in METHODS:
        values = credit.give(TABLE)
        assert values[0] > values[2], credit.name
        if credit.part == "step":
            assert values[1] == 0, credit.name
        elif credit.part in ("episode", "total"):
            assert values[1] > 0, credit.name


def test_what_is_fitted_to_outcomes_is_named_after_its_method():
    names = [credit.name for credit in METHODS if credit.part == "fitted"]
    assert names == [
        "agentprm", "value_gain", "attribution", "attribution, centred", "graphgpo_filled", "graphgpo_filled, raw",
        "graphgpo_filled, raw centred",
    ]  # fmt: skip


def test_references():
    truth = np.array([1.0, 0.0, -np.inf])
    by_name = {credit.name: credit for credit in credits(truth, 7)}
    assert np.array_equal(by_name["oracle"].give(TABLE), truth)
    assert np.array_equal(by_name["random"].give(TABLE), {c.name: c for c in credits(truth, 7)}["random"].give(TABLE))


@pytest.mark.parametrize("credit", RECENT, ids=lambda credit: credit.name)
def test_every_credit_knows_the_better_of_two_ways(credit):
    values = credit.give(BRANCHED)
    assert values.shape == (5,)
    assert values[1] > values[3]  # up and down
    assert np.isfinite(values).all()
