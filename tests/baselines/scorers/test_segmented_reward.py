"""HISR's two models together: rewards are `hisr` of what they say, both learn."""

from typing import Any

import numpy as np
import pytest

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.recipes import RECIPES
from baselines.scorers.contribution import ContributionConfig
from baselines.scorers.segmented_reward import SegmentedReward, SegmentedRewardConfig
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor
from tests.baselines.test_trainer import digest, trainer
from tests.refusals import refuses
from wrappers.credit.hisr import hisr
from wrappers.credit.segments import by_count, by_turn


def played() -> StepTable:
    return collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)


def by_two(table: StepTable) -> Any:
    return by_count(table, 2)


def test_before_it_learns_only_grounding_rewards() -> None:
    table = played()
    found = SegmentedReward(babbling_policy()).scores(table)
    np.testing.assert_allclose(found, 0.3 * (table.valid - 1.0))
    bonus = SegmentedReward(babbling_policy(), SegmentedRewardConfig(grounding="bonus", alpha=0.5)).scores(table)
    np.testing.assert_allclose(bonus, 0.5 * table.valid)


@pytest.mark.parametrize("segments", [by_turn, by_two])
def test_rewards_are_hisrs_of_both_models(segments: Any) -> None:
    table, policy = played(), babbling_policy()
    config = SegmentedRewardConfig(contribution=ContributionConfig(segments=segments), place="spread")
    reward, rng = SegmentedReward(policy, config), np.random.default_rng(0)
    before = digest(policy)
    figures = reward.update(table, reward.scores(table), None, rng, 1e-3)
    assert digest(policy) == before
    assert {"contribution_loss", "hindsight_loss"} <= set(figures)
    contributions, importance = reward.contribution.scores(table), reward.hindsight.scores(table)
    assert np.nan_to_num(contributions).any()
    assert (importance != 1).any()
    expected = hisr(
        table, contributions=contributions, importance=importance, segments=segments(table), place="spread",
        grounding="penalty",
    )  # fmt: skip
    np.testing.assert_array_equal(reward.scores(table), expected)


def test_the_passes_and_the_temperature_of_a_trainer_reach_both() -> None:
    built = trainer(credit=RECIPES["hisr"], microbatch_tokens=100, temperature=0.7)
    reward = built.learner.scorer
    assert isinstance(reward, SegmentedReward)
    for part in (reward.contribution, reward.hindsight):
        assert part.config.microbatch_tokens == 100
    assert reward.hindsight.config.temperature == 0.7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 1.5}, "alpha must be at least 0 and at most 1, got 1.5"),
        ({"scale": "two"}, "scale must be 'outcome', 'one' or 'predicted'"),
        ({"level": "token"}, "level must be 'turn'"),
    ],
)
def test_a_wrong_number_is_named(changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, SegmentedRewardConfig, **changes)
