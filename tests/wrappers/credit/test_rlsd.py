"""rlsd, rlcsd, sdpo and turn_credit beside the recorded answers, and the normalisations that came with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentgym.trajectory import StepTable
from baselines.recipes import RECIPES, recipe
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import close, episodes
from wrappers.credit import gigpo, grpo, rlcsd, rlsd, sdpo, turn_credit

# a wins in three turns, b loses in two.
TABLE = episodes("s -x-> u -x-> v -x-> goal +", "s -x-> w -x-> pit")
MASK = [[1, 1], [1, 0], [1, 1], [1, 1], [1, 0]]
NONE = np.full((5, 2), np.nan)


def test_by_hand() -> None:
    level = np.where(np.array(MASK) > 0, grpo(TABLE)[:, None], 0.0)
    np.testing.assert_array_equal(rlsd(TABLE, gaps=NONE, mask=MASK), level)
    np.testing.assert_array_equal(rlcsd(TABLE, contrasts=NONE, mask=MASK), level)
    np.testing.assert_array_equal(sdpo(TABLE, gates=NONE[:, 0]), grpo(TABLE))
    np.testing.assert_array_equal(rlsd(TABLE, gaps=np.ones((5, 2)), mask=MASK, update=50), level)
    gaps = np.random.default_rng(0).normal(scale=5, size=(5, 2))
    found, level = rlsd(TABLE, gaps=gaps, mask=MASK), grpo(TABLE)[:, None]
    assert (np.abs(found - level)[np.array(MASK) > 0] <= 0.5 * 0.2 * np.abs(level).max() + 1e-12).all()
    # What the teacher likes less is praised less where it won, and blamed more where it lost.
    liked, disliked = (rlsd(TABLE, gaps=np.full((5, 2), gap), mask=MASK) for gap in (1.0, -1.0))
    assert (liked > disliked)[np.array(MASK) > 0].all()
    lost = episodes("s -x-> u", "s -y-> w")
    assert not rlsd(lost, gaps=np.ones((2, 1)), mask=[[1], [1]]).any()
    assert not rlcsd(lost, contrasts=np.ones((2, 1)), mask=[[1], [1]]).any()
    assert sdpo(lost, gates=[1.0, np.nan], grpo=0.0)[0] == 0  # trained by the divergence alone
    assert np.isnan(sdpo(lost, gates=[1.0, np.nan], grpo=0.0)[1])
    weak, strong = np.full((5, 2), 0.1), np.full((5, 2), 0.5)
    hard = [rlcsd(TABLE, contrasts=each, mask=MASK)[0, 0] for each in (weak, strong)]
    soft = [rlcsd(TABLE, contrasts=each, mask=MASK, preset="soft")[0, 0] for each in (weak, strong)]
    assert hard[0] == pytest.approx(hard[1], abs=1e-3)
    assert soft[1] - soft[0] > 0.15


def test_turn_credit_by_hand() -> None:
    # Both episodes win and end alike: with the reset state scored neither is above the other.
    table = episodes("s -x-> u -x-> v -x-> g +", "s -x-> w -x-> x -x-> g +")
    after, tokens = [0.8, 0.9, 1.0, 0.0, 0.5, 1.0], np.array([3, 1, 2, 2, 2, 2])
    close(turn_credit(table, given=after, tokens=tokens, scores="judge", beta=0.0), [-0.4] * 3 + [0.4] * 3)
    close(turn_credit(table, given=after, first=np.zeros(6), tokens=tokens, scores="judge", beta=0.0), 0.0)
    turns = turn_credit(table, given=after, first=np.zeros(6), tokens=tokens, scores="judge")
    close(np.bincount(table.trajectory, turns * tokens), 0.0)
    assert turns[0] > turns[2]
    # Gains .3 .2 .3 | .1 -.3, spent where they were made.
    found = turn_credit(TABLE, given=[0.2, 0.5, 0.7, 0.2, 0.3], scores="values", gamma=0.0, worth="outcome")
    close(found, [0.5 + 0.3 - 0.8 / 3, 0.5 + 0.2 - 0.8 / 3, 0.5 + 0.3 - 0.8 / 3, -0.3, -0.7])
    close(grpo(TABLE, std="mean"), [1, 1, 1, -1, -1])
    shaped = episodes("s -x-> u +", "s -y-> w")
    shaped.reward[:] = [0.9, -0.1]
    refuses(ValueError, r"outcomes from 0 to 1, got -0\.1", grpo, shaped, std="mean")
    close(grpo(shaped, std="mean", outcome="won"), [1, -1])
    refuses(ValueError, "not for levels of steps", gigpo, TABLE, std="mean")
    first = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    alone = grpo(TABLE, reward_components=first)
    close(alone, np.array([1, 1, 1, -1, -1]) / np.sqrt(2), 1e-6)
    flat = np.array([[0.0], [0.0], [1.0], [0.0], [0.9999]])
    with pytest.warns(RuntimeWarning, match="reward component 1 hardly differs"):
        both = grpo(TABLE, reward_components=np.hstack((first, flat)))
    np.testing.assert_array_equal(both, alone)
    # Absent turns count 0 in a mean over the whole group. Stop after turn 1 with q1, or go on and earn q2: a mean over
    # those that reached turn 2 would hide it.
    q1, q2 = 0.5, 0.7
    table = episodes("s -on-> u -x-> v +", "s -end-> w +", "s -end-> w +")
    table.reward[:] = [q1, q2, q1, q1]
    close(turn_credit(table, given=np.zeros(4), worth="outcome"), [q2 * 2 / 3, q2 * 2 / 3, -q2 / 3, -q2 / 3])


def test_components_of_the_table_are_compared_one_by_one(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "group": ["g"] * 3, "trajectory": ["a", "a", "b"], "t": [0, 1, 0], "state": list("sus"), "action": list("xyz"),
        "next_state": ["u", "goal", "pit"], "reward": [0.1, 1, 0.3], "won": [1, 1, 0],
    }  # fmt: skip
    table = StepTable.from_arrays(**given, reward_components={"answer": [0, 1, 0], "format": [0.1, 0, 0.3]})
    # Sums 1, 0 and .1, .3: each is +-1 / sqrt(2) in its group; the larger weight says who is better.
    for weights, sign in (([2, 1], 1), ([1, 2], -1)):
        found = grpo(table, rewards="components", component_weights=weights)
        close(found, sign * np.array([1, 1, -1]) / np.sqrt(2), 1e-5)
    table.to_jsonl(tmp_path / "table.jsonl")
    read = StepTable.from_jsonl(tmp_path / "table.jsonl")
    assert {name: column.tolist() for name, column in (read.reward_components or {}).items()} == {
        "answer": [0, 1, 0], "format": [0.1, 0, 0.3],
    }  # fmt: skip
    cut = StepTable.from_arrays(
        **given | {"t": [0, 1, 1], "state": list("suu")}, parent={"b": ("a", 0)}, reward_components={"a": [1, 2, 3]}
    )
    assert (cut.unfolded()[0].reward_components or {})["a"].tolist() == [1, 2, 1, 3]
    refuses(ValueError, "cut from others", grpo, cut, rewards="components")
    refuses(ValueError, "needs a table with reward_comp", grpo, StepTable.from_arrays(**given), rewards="components")
    words = r"reward_components\['a'\] must hold 3 finite numbers"
    refuses(ValueError, words, StepTable.from_arrays, **given, reward_components={"a": [1, 2]})


def test_names_reach_the_scorer() -> None:
    found = recipe("rlsd:context=sibling:control=wrong:tokens=action:lam=1")
    assert (found.scorer.context, found.scorer.control, found.scorer.tokens) == ("sibling", "wrong", "action")  # type: ignore[union-attr]
    assert found.options["lam"] == 1.0
    assert recipe(found.name).name == found.name
    assert type(recipe("turn_credit:scores=distance").scorer).__name__ == "TaskDistanceConfig"
    assert type(recipe("turn_credit:scores=values").scorer).__name__ == "CriticConfig"
    assert type(recipe("turn_credit:scores=solver").scorer).__name__ == "ExactGainConfig"
    assert recipe("turn_credit:scores=judge").scorer is None
    loss = recipe("sdpo:grpo=0:distillation.alpha=1:distillation.sampled=True")
    assert loss.training == {"distillation.weight": 1.0, "distillation.alpha": 1, "distillation.sampled": True}
    assert recipe(loss.name).training == loss.training
    assert RECIPES["rlsd"].at(7).options["update"] == 7
    assert "update" not in RECIPES["grpo"].at(7).options
    refuses(ValueError, "context 'expret'; known: 'expert'", recipe, "rlsd:context=expret")
