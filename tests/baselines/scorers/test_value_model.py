"""Scorers with a head: values, contributions of steps and segments, action values."""

import copy
import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.trajectory import Reply, StepTable
from baselines.recipes import RECIPES
from baselines.scorers.action_value import ActionValue, action_loss
from baselines.scorers.contribution import Contribution, ContributionConfig, sum_error
from baselines.scorers.critic import Critic, CriticConfig, value_error
from baselines.scorers.segmented_reward import SegmentedReward, SegmentedRewardConfig
from baselines.scorers.value_model import explained_variance
from baselines.trainer import Trainer
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    corridor,
    digest,
    passes_of,
    rollouts,
    same_weights,
    small_policy,
    trainer,
)
from tests.baselines.scorers.heads import agrees, awake, finite_differences, learn, played, tiny_models, two_layers
from tests.playing import filled
from tests.wrappers.credit import oracles
from wrappers.credit import action_targets
from wrappers.credit.returns import discounted_returns
from wrappers.credit.segments import by_count, by_turn, whole


def written(max_new_tokens: int = 1, size: int = 4) -> StepTable:
    return rollouts(None if max_new_tokens == 1 else small_policy(max_new_tokens=max_new_tokens), size)


def talking(policy: Any, **changes: Any) -> Critic:
    """A critic whose head is not zero."""
    critic: Critic = awake(Critic(policy, CriticConfig(**changes)), std=1.0)
    return critic


def test_values_are_read_where_tokens_are_predicted() -> None:
    policy = small_policy()
    before = digest(policy)
    critic, table = Critic(policy), written()
    assert not critic.scores(table).any()
    assert Critic(policy, CriticConfig(level="token")).scores(table).shape == (len(table), 1)
    critic.update(table, np.zeros(len(table)), np.ones(len(table)), np.random.default_rng(0), 1e-2)
    assert critic.scores(table).mean() > 0
    assert digest(policy) == before
    critic, table = talking(small_policy(), level="token"), written(max_new_tokens=3)
    values = critic.scores(table)
    lengths = [len(reply.token_ids) for reply in table.replies]  # type: ignore[union-attr]
    assert len(set(lengths)) > 1
    for row, reply in enumerate(table.replies):  # type: ignore[arg-type]
        sequence = torch.tensor([(*reply.prompt_ids, *reply.token_ids)])
        with torch.no_grad():
            one_by_one = critic.model.head(critic.model.trunk(input_ids=sequence).last_hidden_state[0]).squeeze(-1)
        start = len(reply.prompt_ids) - 1
        np.testing.assert_allclose(
            values[row, : lengths[row]], one_by_one[start : start + lengths[row]].numpy(), atol=1e-5
        )
        assert not values[row, lengths[row] :].any()
    np.testing.assert_allclose(talking(small_policy()).scores(table), values[:, 0], atol=1e-5)
    critic, table = talking(small_policy()), written()
    passes = passes_of(critic.model.trunk)
    critic.scores(table)
    prompts = {reply.prompt_ids for reply in table.replies}  # type: ignore[union-attr]
    assert sum(rows for rows, _ in passes) == len(prompts) < len(table)


@pytest.mark.parametrize("level", ["turn", "token"])
def test_it_learns_the_returns(level: Any) -> None:
    table = written(size=16)
    returns = discounted_returns(table, 0.9)
    # The position is all a prompt shows: the best guess is the mean return there.
    prompts = np.unique([str(reply.prompt_ids) for reply in table.replies], return_inverse=True)[1]  # type: ignore[union-attr]
    best = (np.bincount(prompts, returns) / np.bincount(prompts))[prompts]
    target = returns if level == "turn" else returns[:, None]
    critic, rng = Critic(small_policy(), CriticConfig(minibatch_rows=2, level=level)), np.random.default_rng(0)
    rows = [critic.update(table, critic.scores(table), target, rng, 1e-3) for _ in range(60)]
    assert explained_variance(critic.scores(table).reshape(-1), returns) > 0.9 * explained_variance(best, returns)
    assert rows[-1]["value_loss"] < rows[0]["value_loss"]
    assert rows[0]["explained_variance"] == 0.0  # it said 0 everywhere


def test_the_gradient_is_that_of_the_mean_over_steps_however_it_is_cut() -> None:
    table = written()
    returns = discounted_returns(table, 0.9)
    models = []
    kept = dict[str, int]()
    for changes in ({}, {"microbatch_rows": 1}, {"microbatch_tokens": 14}, {"activation_checkpointing": True}):
        critic = talking(small_policy(), minibatch_rows=100, **changes)
        passes = passes_of(critic.model.trunk)
        values = critic.scores(table)
        saved: list[int] = []

        def keep(one: torch.Tensor, saved: list[int] = saved) -> torch.Tensor:
            saved.append(one.nbytes)
            return one

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one):
            row = critic.update(table, values, returns, np.random.default_rng(0), 1e-3)
        kept["".join(changes)] = sum(saved)
        assert row["value_loss"] == pytest.approx(0.5 * ((values - returns) ** 2).mean(), rel=1e-5)
        assert all(weight.grad is None for weight in critic.model.parameters())
        models.append(critic.model)
        if "microbatch_tokens" in changes:  # prompts have six tokens: two of them, with and without gradients
            assert {12} <= {rows * columns for rows, columns in passes} <= {6, 12}
    assert kept["activation_checkpointing"] < kept[""] / 3
    for other in models[1:]:
        same_weights(models[0], other, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("level", ["turn", "token"])
def test_the_gradient_is_that_of_a_loop_over_steps_and_tokens(level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = written(max_new_tokens=3)
    critic = talking(small_policy(), level=level, minibatch_rows=1000, microbatch_rows=5, max_grad_norm=1e9)
    values = critic.scores(table)
    returns = values + np.random.default_rng(0).normal(size=values.shape)
    naive = copy.deepcopy(critic.model)
    monkeypatch.setattr(critic._optimizer, "zero_grad", lambda **_: None)  # the gradients stay
    critic.update(table, values, returns, np.random.default_rng(0), 1e-3)
    loss, count = torch.zeros(()), 0
    for row, reply in enumerate(table.replies):  # type: ignore[arg-type]
        hidden = naive.trunk(input_ids=torch.tensor([(*reply.prompt_ids, *reply.token_ids)])).last_hidden_state[0]
        for place in range(len(reply.token_ids) if level == "token" else 1):
            value = naive.head(hidden[len(reply.prompt_ids) - 1 + place])[0]
            loss = loss + 0.5 * (value - returns[(row, place) if level == "token" else row]) ** 2
            count += 1
    (loss / count).backward()
    for (name, weight), expected in zip(critic.model.named_parameters(), naive.parameters(), strict=True):
        if weight.requires_grad and expected.grad is not None and weight.grad is not None:
            torch.testing.assert_close(weight.grad, expected.grad, atol=1e-5, rtol=1e-3, msg=name)
    assert critic.model.head.weight.grad is not None


def test_the_unit_of_the_rewards_does_not_matter_and_no_gradient_that_is_not_finite_moves_weights() -> None:
    table, found = written(), []
    returns = discounted_returns(table, 0.9)
    for unit in (1.0, 1000.0):
        critic, rng = Critic(small_policy()), np.random.default_rng(0)
        critic.update(table, np.zeros(len(table)), np.zeros(len(table)), rng, 1e-3)  # says nothing about the unit
        for _ in range(5):
            critic.update(table, critic.scores(table), unit * returns, rng, 1e-3)
        found.append(critic.scores(table) / unit)
    assert found[0].std() > 0
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    critic, table = talking(small_policy()), written()
    before = {name: value.clone() for name, value in critic.model.state_dict().items()}
    with pytest.raises(FloatingPointError, match="critic's gradient norm is nan"):
        critic.update(table, np.zeros(len(table)), np.full(len(table), np.nan), np.random.default_rng(0), 1e-3)
    assert all(torch.equal(value, before[name]) for name, value in critic.model.state_dict().items())


def test_value_clipping_and_explained_variance() -> None:
    # Before 0, limit 1. Target 3, now 2: kept at 1, (1 - 3)^2 / 2 = 2 instead of 0.5, and nothing to gain there.
    predicted = torch.tensor([2.0, 0.5], requires_grad=True)
    errors = value_error(predicted, torch.tensor([3.0, 3.0]), torch.zeros(2), 1.0)
    assert errors.tolist() == [2.0, 3.125]
    errors.sum().backward()
    assert predicted.grad.tolist() == [0.0, -2.5]
    assert value_error(predicted.detach(), torch.tensor([3.0, 3.0]), torch.zeros(2), None).tolist() == [0.5, 3.125]
    returns = np.array([0.0, 1.0, 2.0])
    assert (explained_variance(returns + 5, returns), explained_variance(np.zeros(3), returns)) == (1.0, 0.0)
    assert explained_variance(-returns, returns) == -3.0  # var(2 R) = 4 var(R)
    assert explained_variance(returns, np.ones(3)) == 0.0


def test_models_without_a_trunk_levels_and_returns() -> None:
    with pytest.raises(TypeError, match="Linear is not a causal language model with a base model"):
        Critic(SimpleNamespace(model=torch.nn.Linear(2, 2)))
    given = Critic(small_policy(), CriticConfig(level="token"))
    with pytest.raises(ValueError, match="needs scores of a turn, Critic gives those of a token"):
        Trainer(babbling_policy(), corridor(), RECIPES["ppo"], TASKS, CONFIG, scorer=given)
    table = written()
    with pytest.raises(ValueError, match="fitted to returns"):
        Critic(small_policy()).update(table, np.zeros(len(table)), None, np.random.default_rng(0), 1e-3)
    assert trainer().learner.scorer is None
    built = trainer(credit=RECIPES["ppo"])
    assert built.learner.scorer.config == RECIPES["ppo"].scorer
    small = trainer(credit=RECIPES["ppo"], microbatch_rows=2, microbatch_tokens=100)
    assert (small.learner.scorer.config.microbatch_rows, small.learner.scorer.config.microbatch_tokens) == (2, 100)
    given = Critic(small_policy())
    built = Trainer(babbling_policy(), corridor(), RECIPES["ppo"], TASKS, CONFIG, scorer=given)
    assert built.learner.scorer is given


def test_other_architectures_have_values_and_mixed_precision_ends_below_the_head() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=32)).eval()
    table = filled(replies=[Reply("", (1, 2, 3), (4, 5), (-1.0,) * 2), Reply("", (6,), (7,), (-1.0,))])
    values = talking(SimpleNamespace(model=model), level="token").scores(table)
    assert values.shape == (2, 2)
    assert (values != 0).tolist() == [[True, True], [True, False]]
    critic, table = talking(small_policy(autocast=torch.bfloat16)), written()
    found, exact = critic.scores(table), talking(small_policy()).scores(table)
    assert 0 < np.abs(found - exact).max() < 0.1 * np.abs(exact).max()
    assert (found != torch.from_numpy(found).bfloat16().double().numpy()).any()
    assert np.isfinite(critic.update(table, found, np.ones(len(table)), np.random.default_rng(0), 1e-3)["value_loss"])


def sums(table: StepTable, scores: np.ndarray) -> np.ndarray:
    return np.bincount(table.trajectory, np.nan_to_num(scores), table.n_trajectories)


def test_losses_and_gradients_of_the_reference() -> None:
    def error(table: StepTable, contributions: torch.Tensor) -> torch.Tensor:
        return sum_error(contributions, torch.from_numpy(table.trajectory), torch.from_numpy(table.trajectory_won))

    for table, result, places in tiny_models():
        agrees(result["w"], result["answers"]["spa_mse"], lambda w: error(table, w[places]))  # noqa: B023
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


def test_segmented_rewards_begin_as_grounding_and_pass_settings_on() -> None:
    table = played(8)
    np.testing.assert_allclose(SegmentedReward(babbling_policy()).scores(table), 0.3 * (table.valid - 1.0))
    bonus = SegmentedReward(babbling_policy(), SegmentedRewardConfig(grounding="bonus", alpha=0.5)).scores(table)
    np.testing.assert_allclose(bonus, 0.5 * table.valid)
    reward = trainer(credit=RECIPES["hisr"], microbatch_tokens=100, temperature=0.7).learner.scorer
    assert isinstance(reward, SegmentedReward)
    for part in (reward.contribution, reward.hindsight):
        assert part.config.microbatch_tokens == 100
    assert reward.hindsight.config.temperature == 0.7


def rollouts_alone(table: StepTable) -> torch.Tensor:
    """What each rollout says for itself, averaged with no other: .95^(T - 1 - t) if it was won."""
    return torch.from_numpy(0.95 ** (np.diff(table.offsets)[table.trajectory] - 1 - table.t) * table.won)


def test_recorded_losses_of_action_values_and_given_targets() -> None:
    for table, result, places in tiny_models():
        target = rollouts_alone(table)
        agrees(result["w"], result["answers"]["q_mse"], lambda w: action_loss(w[places], target, "squared").mean())  # noqa: B023
    said = oracles.scores("q")
    results = oracles.load(oracles.PAPER)["results"]
    for (table, rows), result in zip(oracles.batches(), results, strict=True):
        targets = torch.from_numpy(action_targets(table, unit="state"))
        loss = action_loss(torch.logit(torch.from_numpy(said[rows])), targets, "cross-entropy").mean()
        assert loss.item() == pytest.approx(result["agentprm"]["bce"], abs=1e-6)
    table = played()
    scorer = ActionValue(small_policy())
    targets = np.linspace(0, 1, len(table))
    assert scorer.update(table, targets, targets, np.random.default_rng(0), 1e-3)["explained_variance"] == 1.0
    with pytest.raises(ValueError, match=r"needs targets between 0 and 1; row 0 has -0\.5"):
        scorer.update(table, targets, targets - 0.5, np.random.default_rng(0), 1e-3)


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
