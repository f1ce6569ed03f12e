"""What an informed teacher says of turns, by hand; the scorer itself is tested where it is."""

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from benchmarks.run import STUDIES
from benchmarks.truth.privileged import STUDY, belief_gains, beliefs, configure, turn_gaps

TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"], action=["x"] * 3,
    next_state=["u", "v", "w"], reward=[0] * 3, won=[False] * 3,
    replies=[Reply("x", (1,), ids, (0.0,) * len(ids)) for ids in ((1,), (1, 2), (1,))],
)  # fmt: skip


def test_the_gap_of_a_turn_is_the_mean_over_its_tokens() -> None:
    scores = np.array([[1.0, 0.0], [-1.0, 2.0], [np.nan, 0.0]])
    np.testing.assert_array_equal(turn_gaps(TABLE, scores), [1.0, 0.5, np.nan])


def test_a_belief_is_centred_over_its_episode() -> None:
    assert beliefs(np.array([np.log(3.0)])) == pytest.approx([0.5, 0.75])
    drift = belief_gains(TABLE, np.array([-5.0, -5.0, -5.0]))  # the gaps' own mean says nothing
    np.testing.assert_allclose(drift, 0.0, atol=1e-12)
    gains = belief_gains(TABLE, np.array([1.0, -1.0, np.nan]))
    assert gains[0] > 0 > gains[1]
    assert np.isnan(gains[2])


def test_the_study_is_known_by_name_and_has_every_control_of_every_context() -> None:
    assert STUDIES["privileged"] == "benchmarks.truth.privileged:STUDY"
    parts = STUDY.parts(configure(quick=True, context=["expert", "sibling"]))
    assert len(parts) == len(set(parts)) == 12
    assert "sibling, wrong" in parts
