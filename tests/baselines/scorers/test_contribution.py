"""Contributions of steps and of segments, and action values."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trajectory import StepTable
from baselines.recipes import RECIPES
from baselines.scorers.action_value import ActionValue, ActionValueConfig, action_loss
from baselines.scorers.contribution import Contribution, ContributionConfig, sum_error
from baselines.scorers.segmented_reward import SegmentedReward, SegmentedRewardConfig
from tests.baselines.corridor_learning import babbling_policy, digest, small_policy, trainer
from tests.baselines.scorers.heads import agrees, awake, finite_differences, learn, played, tiny_models, two_layers
from tests.wrappers.credit import oracles
from wrappers.credit import action_targets
from wrappers.credit.hisr import hisr
from wrappers.credit.segments import by_count, by_turn, whole


def sums(table: StepTable, scores: np.ndarray) -> np.ndarray:
    return np.bincount(table.trajectory, np.nan_to_num(scores), table.n_trajectories)


def test_losses_and_gradients_of_the_reference() -> None:
    def error(table: StepTable, contributions: torch.Tensor) -> torch.Tensor:
        return sum_error(contributions, torch.from_numpy(table.trajectory), torch.from_numpy(table.trajectory_won))

    for table, result, places in tiny_models():
        agrees(result["w"], result["answers"]["spa_mse"], lambda w: error(table, w[places]))  # noqa: B023
    said = oracles.scores("contribution")
    results = oracles.load(oracles.PAPER)["results"]
    for (table, rows), result in zip(oracles.batches(), results, strict=True):
        contributions = torch.tensor(said[rows], requires_grad=True)
        loss = error(table, contributions)
        (gradient,) = torch.autograd.grad(loss, contributions)
        assert loss.item() == pytest.approx(result["spa"]["mse"], abs=1e-6)
        np.testing.assert_allclose(gradient.numpy(), result["spa"]["mse_grad_by_step"], atol=1e-6)
    table = played()
    lost = StepTable.from_trajectories(each for each in table.to_trajectories() if not each.won)
    scorer = Contribution(small_policy())
    assert learn(scorer, lost) == {"prm_loss": 0.0, "explained_variance": 0.0}
    assert not scorer.scores(table).any()


@pytest.mark.parametrize("passes", [{}, {"microbatch_rows": 2}, {"microbatch_tokens": 20}])
@pytest.mark.parametrize("unit", ["outcome", "mean", "own"])
def test_gradients_are_those_of_finite_differences_however_the_passes_are_cut(passes: Any, unit: Any) -> None:
    table = played()
    config = ContributionConfig(head="mlp", unit=unit, minibatch_trajectories=1000, max_grad_norm=1e9, **passes)
    size = len(table) / table.n_trajectories if unit == "mean" else 1.0

    def loss(scorer: Any) -> float:
        return float(np.mean((table.trajectory_won - sums(table, scorer.scores(table))) ** 2)) / size**2

    finite_differences(awake(Contribution(two_layers(table), config)), table, loss)


def test_a_segment_is_predicted_at_its_last_reply() -> None:
    table = played()
    turns = awake(Contribution(small_policy(), ContributionConfig(unit="outcome"))).scores(table)
    for segments in (by_turn, functools.partial(by_count, k=2), whole):
        config = ContributionConfig(unit="outcome", segments=segments, minibatch_trajectories=1000)
        scorer = awake(Contribution(small_policy(), config))
        found, numbers = scorer.scores(table), segments(table)
        for i in range(table.n_trajectories):
            rows = table.order[table.offsets[i] : table.offsets[i + 1]]
            for row, following in zip(rows, [*rows[1:], None], strict=True):
                inside = following is not None and numbers[following] == numbers[row]
                assert np.isnan(found[row]) if inside else found[row] == pytest.approx(turns[row], abs=1e-6)
        expected = np.mean((table.trajectory_won - sums(table, found)) ** 2)
        assert learn(scorer, table)["prm_loss"] == pytest.approx(expected, rel=1e-5)


def test_units_of_contributions_and_rewards() -> None:
    table = played()
    count = (by_count(table, 2)[table.last] + 1)[table.trajectory]
    said = {}
    for unit in ("outcome", "own"):
        config = ContributionConfig(unit=unit, segments=functools.partial(by_count, k=2))
        said[unit] = awake(Contribution(small_policy(), config)).scores(table)
    assert set(count) == {1, 2}
    np.testing.assert_allclose(said["own"], said["outcome"] / count, rtol=1e-6)
    scorer = Contribution(small_policy(), ContributionConfig(unit="mean"))
    learn(scorer, table)
    assert float(scorer.model.scale) == pytest.approx(
        table.trajectory_won.mean() ** 0.5 / (len(table) / table.n_trajectories)
    )
    table, found = played(), []
    for unit in (1.0, 1000.0):
        rewarded = dataclasses.replace(table, reward=unit * table.reward)
        scorer = Contribution(small_policy(), ContributionConfig(outcome="return"))
        for _ in range(4):
            learn(scorer, rewarded)
        found.append(scorer.scores(table) / unit)
    assert found[0].std() > 0
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-6)
    described = Contribution(small_policy(), ContributionConfig(segments=functools.partial(by_count, k=4))).describe()
    assert described["segments"] == "wrappers.credit.segments.by_count(k=4)"
    assert "microbatch_tokens" not in described
    assert Contribution(small_policy()).describe()["segments"] == "wrappers.credit.segments.by_turn"


def test_it_finds_the_decisive_step_of_the_corridor() -> None:
    # All that decides is "right" in cell 3: measured 1.0 of the won episodes with two seeds, after 10 updates and more.
    scorer, rng = Contribution(small_policy(), ContributionConfig()), np.random.default_rng(0)
    for k in range(24):
        learn(scorer, played(12, seed=k % 3), rng=rng)
    table = played(12, seed=9)
    scores = scorer.scores(table)
    longer = np.flatnonzero(table.trajectory_won & (np.diff(table.offsets) > 1))
    best = [table.order[low:high][scores[table.order[low:high]].argmax()] for low, high in
            zip(table.offsets[longer], table.offsets[longer + 1], strict=True)]  # fmt: skip
    assert len(longer) >= 5
    assert np.mean(np.array(best) == table.last[longer]) > 0.9


def by_two(table: StepTable) -> Any:
    return by_count(table, 2)


def test_before_it_learns_only_grounding_rewards() -> None:
    table = played(8)
    np.testing.assert_allclose(SegmentedReward(babbling_policy()).scores(table), 0.3 * (table.valid - 1.0))
    bonus = SegmentedReward(babbling_policy(), SegmentedRewardConfig(grounding="bonus", alpha=0.5)).scores(table)
    np.testing.assert_allclose(bonus, 0.5 * table.valid)


@pytest.mark.parametrize("segments", [by_turn, by_two])
def test_rewards_are_hisrs_of_both_models(segments: Any) -> None:
    table, policy = played(8), babbling_policy()
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
    reward = trainer(credit=RECIPES["hisr"], microbatch_tokens=100, temperature=0.7).learner.scorer
    assert isinstance(reward, SegmentedReward)
    for part in (reward.contribution, reward.hindsight):
        assert part.config.microbatch_tokens == 100
    assert reward.hindsight.config.temperature == 0.7


def rollouts_alone(table: StepTable) -> torch.Tensor:
    """What each rollout says for itself, averaged with no other: .95^(T - 1 - t) if it was won."""
    return torch.from_numpy(0.95 ** (np.diff(table.offsets)[table.trajectory] - 1 - table.t) * table.won)


def test_recorded_losses_of_action_values() -> None:
    for table, result, places in tiny_models():
        target = rollouts_alone(table)
        agrees(result["w"], result["answers"]["q_mse"], lambda w: action_loss(w[places], target, "squared").mean())  # noqa: B023
    said = oracles.scores("q")
    results = oracles.load(oracles.PAPER)["results"]
    for (table, rows), result in zip(oracles.batches(), results, strict=True):
        targets = torch.from_numpy(action_targets(table, unit="state"))
        loss = action_loss(torch.logit(torch.from_numpy(said[rows])), targets, "cross-entropy").mean()
        assert loss.item() == pytest.approx(result["agentprm"]["bce"], abs=1e-6)


@pytest.mark.parametrize("passes", [{}, {"microbatch_rows": 2}, {"microbatch_tokens": 20}])
def test_gradients_of_action_values_are_those_of_finite_differences(passes: Any) -> None:
    table = played()
    targets = action_targets(table, gamma=0.9, outcome="won")
    config = ActionValueConfig(head="mlp", gamma=0.9, minibatch_rows=1000, max_grad_norm=1e9, **passes)

    def loss(scorer: Any) -> float:
        said = scorer.scores(table)
        return float(-np.mean(targets * np.log(said) + (1 - targets) * np.log(1 - said)))

    finite_differences(awake(ActionValue(two_layers(table), config)), table, loss)


def test_it_learns_what_actions_are_worth_in_the_corridor() -> None:
    scorer, rng = ActionValue(small_policy()), np.random.default_rng(0)
    tables = [played(12, seed=seed) for seed in range(3)]
    rows = [learn(scorer, tables[k % 3], rng=rng) for k in range(24)]
    assert rows[-1]["explained_variance"] > 0.2
    table = played(12, seed=9)
    scores = scorer.scores(table)
    said = {(table.states[s], table.actions[a]): x for s, a, x in zip(table.state, table.action, scores, strict=True)}
    # Inside a state the way to the goal is worth most; the step that arrives there is certain.
    assert said["3", "right"] > 0.8
    for cell in "123":
        assert said[cell, "right"] == max(x for (state, _), x in said.items() if state == cell)


def test_given_targets_are_fitted_instead() -> None:
    table = played()
    scorer = ActionValue(small_policy())
    targets = np.linspace(0, 1, len(table))
    assert scorer.update(table, targets, targets, np.random.default_rng(0), 1e-3)["explained_variance"] == 1.0
    with pytest.raises(ValueError, match=r"needs targets between 0 and 1; row 0 has -0\.5"):
        scorer.update(table, targets, targets - 0.5, np.random.default_rng(0), 1e-3)
