"""What the learned methods make of scores: they equal the pure functions, and the gate turns alpha down."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.recipes.learned_credit import scored_steps, scored_tokens, spa_ridge, spa_steps
from tests.wrappers.credit.random_tables import random_table
from tests.wrappers.credit.small_tables import episodes
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import agreement, pair_accuracy
from wrappers.credit.prime import prime
from wrappers.credit.process_reward import process_reward
from wrappers.credit.spa import spa


def scores_of(table: StepTable, seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=len(table))
    scores[::7] = np.nan
    return scores


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_scored_steps_are_process_rewards(preset: str) -> None:
    table = random_table(1)
    scores = scores_of(table)
    found = scored_steps(table, scores, preset=preset, alpha=0.3, compare="state")
    expected = process_reward(table, scores=scores, preset=preset, alpha=0.3, compare="state")
    np.testing.assert_array_equal(found.advantages, expected)
    assert found.targets is None
    assert found.figures["prm_pair_accuracy"] == pair_accuracy(table, scores)
    assert found.figures["prm_agreement"] == agreement(table, scores)
    assert found.figures["prm_scored"] == pytest.approx(1 - len(scores[::7]) / len(table))
    assert "prm_gate" not in found.figures


def test_without_scores_the_outcome_is_left() -> None:
    table = random_table(1)
    np.testing.assert_array_equal(
        scored_steps(table).advantages, process_reward(table, scores=np.zeros(len(table)), alpha=0.0)
    )


def test_the_gate_multiplies_alpha() -> None:
    # Won scores 2 + 0, lost 1 and 3: one pair of two is right, 2 * .5 - 1 = 0.
    table = episodes("s -up-> u -up-> goal +", "s -left-> pit", "s -down-> pit")
    closed = scored_steps(table, np.array([2.0, 0.0, 1.0, 3.0]), gate="accuracy")
    assert closed.figures["prm_gate"] == 0.0
    np.testing.assert_array_equal(closed.advantages, scored_steps(table).advantages)
    wide = scored_steps(table, np.array([2.0, 2.0, 1.0, 3.0]), gate="accuracy")
    assert wide.figures["prm_gate"] == 1.0
    np.testing.assert_array_equal(wide.advantages, scored_steps(table, np.array([2.0, 2.0, 1.0, 3.0])).advantages)
    scores = np.array([0.5, 0.1, 2.0, 0.0])
    half = scored_steps(table, scores, gate="accuracy", alpha=3.0)  # wrong about one of two pairs
    assert half.figures["prm_gate"] == 0.0
    seen = scored_steps(table, scores, gate="agreement", alpha=3.0)
    trust = max(0.0, agreement(table, scores))
    assert seen.figures["prm_gate"] == trust
    np.testing.assert_allclose(seen.advantages, process_reward(table, scores=scores, alpha=3.0 * trust))


def test_a_scorer_that_is_wrong_throughout_is_not_turned_round() -> None:
    table = episodes("s -up-> goal +", "s -left-> pit")
    for gate in ("accuracy", "centred", "agreement"):
        found = scored_steps(table, np.array([-1.0, 1.0]), gate=gate)  # type: ignore[arg-type]
        assert found.figures["prm_gate"] == 0.0


def with_replies(table: StepTable, lengths: list[int]) -> StepTable:
    replies = np.empty(len(table), object)
    replies[:] = [Reply("", (1,), (2,) * n, (-1.0,) * n) for n in lengths]
    return dataclasses.replace(table, replies=replies)


def test_scored_tokens_are_prime() -> None:
    table = with_replies(episodes("s -up-> u -up-> goal +", "s -left-> pit"), [2, 1, 3])
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)
    scores = np.where(mask, np.arange(9.0).reshape(3, 3) / 10, 0)
    found = scored_tokens(table, scores, gamma=0.9)
    np.testing.assert_array_equal(found.advantages, prime(table, scores=scores, mask=mask, gamma=0.9))
    assert found.figures["prm_pair_accuracy"] == 0.0  # .1 + .3 for the won one, .6 + .7 + .8 for the lost one
    np.testing.assert_array_equal(
        scored_tokens(table, scores, gate="accuracy").advantages, scored_tokens(table).advantages
    )


@pytest.mark.parametrize("options", [{}, {"rescale": True}, {"grounding": "penalty", "compare": "state"}])
def test_contributions_are_spas_rewards_compared(options: dict[str, Any]) -> None:
    table = random_table(3)
    rewarding = {name: value for name, value in options.items() if name != "compare"}
    using = {name: value for name, value in options.items() if name == "compare"}
    scores = scores_of(table)
    expected = process_reward(table, scores=spa(table, contributions=scores, **rewarding), outcome="won", **using)
    np.testing.assert_array_equal(spa_steps(table, scores, **options).advantages, expected)
    ridge = process_reward(
        table, scores=spa(table, contributions=attribution(table), **rewarding), outcome="won", **using
    )
    np.testing.assert_array_equal(spa_ridge(table, **options), ridge)
