"""The credits that are compared."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.json_files import ResultsError
from benchmarks.truth.credits import BASELINE, SETS, credits_called, graph_else_vine, names_of
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.gigpo import gigpo, step_level
from wrappers.credit.method import Credit

# Both ways lead from "s"; the winner goes right. One state visited twice, the others once.
TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
    next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
)  # fmt: skip
# Right wins once and loses once, left loses.
BRANCHED = episodes("s -right-> u -up-> goal +", "s -right-> u -down-> pit", "s -left-> pit")


PUBLISHED, RECENT = SETS["published"], SETS["2026"]


def test_credits_by_hand() -> None:
    for name in SETS:
        names = names_of(name)
        assert len(set(names)) == len(names)
        assert BASELINE in names
    assert [credit.name for credit in PUBLISHED if credit in RECENT] == [
        "grpo", BASELINE, "graphgpo step", "rewardflow step",
    ]  # fmt: skip
    assert {*PUBLISHED, *RECENT} == {*SETS["all"]}
    refuses(ResultsError, "unknown set of credits 'new'; known: 'methods', 'published', '2026'", names_of, "new")
    names = ["empg", "grpo", "vine", "random"]
    assert [credit.name for credit in credits_called(names, learned=True)] == ["empg", "grpo"]
    assert [credit.name for credit in credits_called(names, learned=False)] == ["grpo"]
    # Returns .95 and 0 at "s": -/+ half of .95 over .95 / sqrt(2): .7071; "u" was visited once.
    assert step_level(TABLE) == pytest.approx([0.70711, 0, -0.70711], abs=1e-5)
    for preset in ("paper", "authors"):
        whole, episode = gigpo(TABLE, preset=preset), gigpo(TABLE, preset=preset, omega=0.0)
        assert step_level(TABLE, preset=preset) == pytest.approx(whole - episode, abs=1e-12)
    for credit in PUBLISHED:
        values = credit.give(TABLE)
        assert values[0] > values[2], credit.name
        if credit.part == "step":
            assert values[1] == 0, credit.name
        elif credit.part in ("episode", "total"):
            assert values[1] > 0, credit.name
    names = [credit.name for credit in PUBLISHED if credit.part == "fitted"]
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
