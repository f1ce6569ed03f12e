"""The credits that are compared."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.ranking.credit import BASELINE, METHODS, credits, gigpo_steps
from wrappers.credit.gigpo import gigpo

# Both ways lead from "s"; the winner goes right. One state visited twice, the others once.
TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
    next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
)  # fmt: skip


def test_names_are_distinct_and_hold_the_baseline():
    names = [credit.name for credit in credits(np.zeros(3), 0)]
    assert len(set(names)) == len(names)
    assert BASELINE in names


def test_gigpo_without_its_episode_level():
    # Returns .95 and 0 at "s": -/+ half of .95 over .95 / sqrt(2): .7071; "u" was visited once.
    assert gigpo_steps(TABLE) == pytest.approx([0.70711, 0, -0.70711], abs=1e-5)
    for preset in ("paper", "authors"):
        whole, episode = gigpo(TABLE, preset=preset), gigpo(TABLE, preset=preset, omega=0.0)
        assert gigpo_steps(TABLE, preset=preset) == pytest.approx(whole - episode, abs=1e-12)


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
        "attribution", "agentprm", "value_gain", "graphgpo_filled", "attribution, centred", "graphgpo_filled, raw",
        "graphgpo_filled, raw centred",
    ]  # fmt: skip


def test_references():
    truth = np.array([1.0, 0.0, -np.inf])
    by_name = {credit.name: credit for credit in credits(truth, 7)}
    assert np.array_equal(by_name["oracle"].give(TABLE), truth)
    assert np.array_equal(by_name["random"].give(TABLE), {c.name: c for c in credits(truth, 7)}["random"].give(TABLE))
