"""How scores become credit, and that every scorer has the shape the study asks for."""

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from benchmarks.scorers.registry import SCORERS, FewerSteps, outcome_targets, step_scores

TABLE = StepTable.from_arrays(
    group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"], action=["right", "up", "left"],
    next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0],
)  # fmt: skip


def test_tokens_of_a_reply_are_added_up():
    assert step_scores(np.array([1.0, np.nan])) == pytest.approx([1.0, np.nan], nan_ok=True)
    assert step_scores(np.array([[1.0, 2.0, 0.0], [4.0, -1.0, 1.0]])).tolist() == [3.0, 4.0]


def test_values_are_fitted_to_discounted_outcomes():
    assert outcome_targets(TABLE) == pytest.approx([0.95, 1, 0])


def test_state_values_count_by_their_change():
    values = np.array([0.25, 0.75, 0.25])
    for name, scored in SCORERS.items():
        found = scored.credit(TABLE, values)
        # Into "u" .5, then the success, which is worth 1, or the end of the lost one, which is worth 0.
        expected = [0.5, 0.25, -0.25] if scored.kind == "state value" else values
        if name == "hindsight":  # scores are ratios
            expected = [-2 * np.log(2), np.log(0.75), -2 * np.log(2)]
        assert found == pytest.approx(expected), name


def test_the_reference_knows_lengths_only():
    reference = FewerSteps()
    scores = reference.scores(TABLE)
    assert scores.tolist() == [-1, -1, -1]
    assert reference.update(TABLE, scores, None, np.random.default_rng(0), 1e-3) == {}
    assert reference.state_dict() == reference.describe() == {}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_says_nothing_before_it_has_learned_and_something_after(name):
    pytest.importorskip("torch")
    from tests.baselines.scorers.test_critic import played, small_policy

    scored, table = SCORERS[name], played()
    if scored.kind == "reference":
        pytest.skip("learns nothing")
    scorer = scored.make(small_policy())
    before = scorer.scores(table)
    silent = np.log(before) if name == "hindsight" else step_scores(before)
    assert np.abs(silent).max() < 1e-5
    targets = None if scored.targets is None else scored.targets(table)
    row = scorer.update(table, before, targets, np.random.default_rng(0), 1e-2)
    assert any(key.endswith("_loss") for key in row)
    assert np.abs(step_scores(scorer.scores(table)) - step_scores(before)).max() > 1e-4
