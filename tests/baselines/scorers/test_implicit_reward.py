"""Implicit reward, and losses of trajectory scores: by hand, and against recorded answers."""

import dataclasses
import functools
import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from agentgym.trajectory import Reply, StepTable
from baselines.learner import Learner
from baselines.scorers.implicit_reward import ImplicitReward, ImplicitRewardConfig
from baselines.scorers.losses import Pairs, cross_entropy, outcome_pairs, pair_loss, trajectory_scores
from tests.baselines.corridor_learning import CONFIG, babbling_policy, rollouts, small_policy
from tests.baselines.scorers.heads import agrees, tiny_models
from tests.cases import cases
from tests.playing import filled
from tests.wrappers.credit.oracles import AUTHORS, batches, load, mask, token_logprobs
from wrappers.credit.evidence import pair_accuracy

RATE = 1e-3
# Replies of several tokens say no word of the corridor yet.
pytestmark = pytest.mark.filterwarnings("ignore:.*refused every action:RuntimeWarning")


def talkative() -> Any:
    """Replies of one to three tokens."""
    return small_policy(max_new_tokens=3)


def judged(table: StepTable, seed: int = 0) -> StepTable:
    """The same steps, where about half of the trajectories are won, at random."""
    won = np.random.default_rng(seed).random(table.n_trajectories) < 0.5
    return dataclasses.replace(table, won=won[table.trajectory])


def awake(policy: Any, table: StepTable, **changes: Any) -> ImplicitReward:
    """A reward model that has learned once, and moved far."""
    reward = ImplicitReward(policy, ImplicitRewardConfig(**changes))
    reward.scores(table)
    reward.update(table, np.zeros(len(table)), None, np.random.default_rng(0), 1e-2)
    return reward


def move(reward: ImplicitReward) -> None:
    """Take a reward model away from the policy it was copied of."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in reward.model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)


def sums(reward: ImplicitReward, table: StepTable) -> torch.Tensor:
    """Step scores row by row with gradients: beta times the log-ratio to the sampler."""
    found = []
    for reply in table.replies:  # type: ignore[union-attr]
        scored = reward.twin.score([reply.prompt_ids], [reply.token_ids], 1.0).logprobs.double()
        found.append(reward.config.beta * (scored.sum() - sum(reply.logprobs)))
    return torch.stack(found)


def naive_loss(reward: ImplicitReward, table: StepTable, loss: str, reduce: Any, pair_weight: Any) -> torch.Tensor:
    totals = trajectory_scores(sums(reward, table), torch.from_numpy(table.trajectory), table.n_trajectories, reduce)
    if loss == "ce":
        return cross_entropy(totals, torch.from_numpy(table.trajectory_won))
    outcome = table.trajectory_group, table.trajectory_won, table.trajectory_return
    return pair_loss(totals, outcome_pairs(*outcome, pair_weight=pair_weight))


@pytest.mark.parametrize("changes", [{}, {"reference": "start"}, {"centre": True}, {"level": "token"}])
def test_a_new_reward_model_says_exactly_0_and_equal_models_have_no_ratio(changes: dict[str, Any]) -> None:
    policy, table = talkative(), rollouts(talkative(), 8)
    reward = ImplicitReward(policy, ImplicitRewardConfig(beta=1.0, **changes))
    scores = reward.scores(table)
    tokens = max(len(reply.token_ids) for reply in table.replies)  # type: ignore[union-attr]
    assert scores.shape == ((len(table), tokens) if changes.get("level") else (len(table),))
    assert not scores.any()
    reward._learned = True
    assert np.abs(reward.scores(table)).max() < 1e-5


def test_scores_are_the_log_ratio_row_by_row() -> None:
    policy = talkative()
    table = judged(rollouts(policy, 8))
    reward = awake(policy, table)
    found = sums(reward, table).detach().numpy()
    np.testing.assert_allclose(reward.scores(table), found, atol=1e-6)
    assert np.abs(found).max() > 1e-3
    tokens = awake(policy, table, level="token").scores(table)
    np.testing.assert_allclose(tokens.sum(1), found, atol=1e-6)
    lengths = [len(reply.token_ids) for reply in table.replies]  # type: ignore[union-attr]
    assert len(set(lengths)) > 1
    assert ((tokens != 0).sum(1) == lengths).all()


@pytest.mark.parametrize(
    ("loss", "reduce", "pair_weight"),
    [("pair", "sum", "task"), ("pair", "mean", "flat"), ("ce", "sum", "task"), ("ce", "mean", "task")],
)
def test_the_gradient_is_that_of_a_loop_however_it_is_cut(loss: Any, reduce: Any, pair_weight: Any) -> None:
    policy = talkative()
    table = judged(rollouts(policy, 2))
    settings: dict[str, Any] = {"loss": loss, "reduce": reduce, "pair_weight": pair_weight, "max_grad_norm": 1e9}
    naive = ImplicitReward(policy, ImplicitRewardConfig(beta=2.0))
    move(naive)
    expected = naive_loss(naive, table, loss, reduce, pair_weight)
    expected.backward()  # type: ignore[no-untyped-call]
    recomputed = {"microbatch_rows": 3, "activation_checkpointing": True}
    for limits in ({}, {"microbatch_rows": 3}, {"microbatch_tokens": 40}, recomputed):
        reward = ImplicitReward(policy, ImplicitRewardConfig(beta=2.0, **settings, **limits))
        reward._optimizer.zero_grad = lambda **_: None  # type: ignore[method-assign]  # the gradients stay
        move(reward)
        row = reward.update(table, np.zeros(len(table)), None, np.random.default_rng(0), RATE)
        assert row["prm_loss"] == pytest.approx(float(expected.detach()), abs=1e-5)
        square, apart = 0.0, 0.0
        for weight, same in zip(reward.model.parameters(), naive.model.parameters(), strict=True):
            square += float(same.grad.square().sum())
            apart += float((weight.grad - same.grad).square().sum())
        assert square > 0
        assert apart < 1e-6 * square
        assert row["prm_grad_norm"] == pytest.approx(square**0.5, rel=1e-3)


@cases(
    "changes",
    {"reduce": "sum"},
    {"reduce": "mean", "loss": "ce"},
    {"centre": True, "reduce": "sum"},
    {"centre": "group", "reduce": "sum"},
    {"reference": "start", "loss": "ce", "level": "token"},
    {"centre": "group", "loss": "ce", "level": "token"},
)
@pytest.mark.parametrize("rows", [None, 4])
def test_finite_differences_through_two_layers(changes: dict[str, Any], rows: int | None) -> None:
    from policies.tiny import tiny_policy

    texts = [f"cell {cell}" for cell in range(5)]
    policy = tiny_policy(
        texts, seed=0, extra_words=("left", "right"), width=16, layers=2, heads=2, kv_heads=1, mlp=16, max_new_tokens=2
    )
    table = judged(rollouts(policy))
    reward = ImplicitReward(policy, ImplicitRewardConfig(beta=1.0, microbatch_rows=rows, max_grad_norm=1e9, **changes))
    reward._optimizer.zero_grad = lambda **_: None  # type: ignore[method-assign]  # the gradients stay
    reward.scores(table)
    move(reward)  # at the sampler itself, centring has a slope of 0
    weights = list(reward.model.parameters())
    start = [weight.detach().clone() for weight in weights]

    def loss(shift: float) -> float:
        """The loss with the weights moved along the gradient, and nothing learned from it."""
        with torch.no_grad():
            for weight, place, slope in zip(weights, start, direction, strict=True):
                weight.copy_(place + shift * slope)
        return reward.update(table, np.zeros(len(table)), None, np.random.default_rng(0), 0.0)["prm_loss"]

    direction = [torch.zeros_like(weight) for weight in weights]
    loss(0.0)
    slopes = [torch.zeros_like(weight) if weight.grad is None else weight.grad.clone() for weight in weights]
    norm = float(sum(slope.square().sum() for slope in slopes)) ** 0.5
    direction = [slope / norm for slope in slopes]
    step = 5e-3
    assert norm > 0.01
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(norm, rel=0.01)


def test_tasks_weigh_alike_and_what_was_always_won_teaches_nothing() -> None:
    table, policy = rollouts(size=8), babbling_policy()
    contrast = [
        group for group in range(table.n_groups) if len(set(table.trajectory_won[table.trajectory_group == group])) == 2
    ]
    assert len(contrast) > 1
    reward = ImplicitReward(policy, ImplicitRewardConfig(minibatch_groups=1, epochs=2))
    steps: list[tuple[float, float]] = []
    original = reward.step
    reward.step = lambda losses: steps.append(original(losses)) or steps[-1]  # type: ignore[func-returns-value,method-assign]
    reward.update(table, reward.scores(table), None, np.random.default_rng(0), RATE)
    assert len(steps) == 2 * len(contrast)
    table = rollouts(size=8)
    table = dataclasses.replace(table, won=np.ones(len(table), bool))
    reward = ImplicitReward(babbling_policy())
    row = reward.update(table, reward.scores(table), None, np.random.default_rng(0), RATE)
    assert row == {"prm_loss": 0.0, "prm_grad_norm": 0.0}
    assert not reward.scores(table).any()
    assert awake(babbling_policy(), rollouts(size=8)).scores(table).any()
    table = judged(rollouts(talkative(), 8))
    steps = awake(talkative(), table, centre="group").scores(table)
    np.testing.assert_allclose(np.bincount(table.group, steps), 0.0, atol=1e-9)
    tokens = awake(talkative(), table, centre="group", level="token").scores(table)
    np.testing.assert_allclose(np.bincount(table.group, tokens.sum(1)), 0.0, atol=1e-9)
    assert np.abs(np.bincount(table.group, awake(talkative(), table).scores(table))).max() > 1e-3


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_what_is_centred_exactly_has_mean_0_where_the_sampler_writes(temperature: float) -> None:
    policy = small_policy(temperature=temperature)
    table = judged(rollouts(policy, 8))
    reward = awake(policy, table, centre=True)
    plain = awake(policy, table)
    for prompt in {reply.prompt_ids for reply in table.replies}:  # type: ignore[union-attr]
        # One row for every token there is, with its probability: the expectation itself.
        tokens = range(len(policy.tokenizer))
        with torch.no_grad():
            logprobs = policy.score([prompt] * len(tokens), [(token,) for token in tokens]).logprobs[:, 0].tolist()
        replies = [Reply("", prompt, (token,), (lp,)) for token, lp in zip(tokens, logprobs, strict=True)]
        every = filled(replies=replies, trajectory=range(len(replies)))
        chance = np.exp(logprobs)
        assert chance.sum() == pytest.approx(1.0, abs=1e-5)
        assert float(chance @ reward.scores(every)) == pytest.approx(0.0, abs=1e-6)
        assert float(chance @ plain.scores(every)) < -1e-4


def test_references_follow_or_stand_still() -> None:
    policy = babbling_policy()
    table = rollouts(policy, 8)
    reward = awake(policy, table, centre=True)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.1)
    moved = rollouts(policy, 8)
    scores = reward.scores(moved)
    other = ImplicitReward(policy, reward.config)
    other.load_state_dict(reward.state_dict())
    np.testing.assert_array_equal(other.scores(moved), scores)
    with torch.no_grad():  # as the policy's own update does, between scores and update
        for weight in policy.model.parameters():
            weight.zero_()
    one, two = (each.update(moved, scores, None, np.random.default_rng(0), RATE) for each in (reward, other))
    assert one == two
    policy = babbling_policy()
    table = rollouts(policy, 8)
    reward = awake(policy, table, reference="start", loss="ce", order="before")
    assert reward.order == "before"
    before = reward.scores(table)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.zero_()
    np.testing.assert_array_equal(reward.scores(table), before)
    resumed = ImplicitReward(policy, reward.config)  # made beside other weights
    resumed.load_state_dict(reward.state_dict())
    np.testing.assert_array_equal(resumed.scores(table), before)


def test_restricted_and_unsampled_replies_and_temperatures() -> None:
    policy = small_policy(prefix="<action>", suffix="</action>", max_new_tokens=2, admissible=True)
    table = rollouts(policy, 8)
    assert all(reply.allowed for reply in table.replies)  # type: ignore[union-attr]
    for changes in ({}, {"centre": True}, {"microbatch_tokens": 30}):
        reward = ImplicitReward(policy, ImplicitRewardConfig(beta=1.0, **changes))
        reward._learned = True
        assert np.abs(reward.scores(table)).max() < 1e-5
        row = reward.update(judged(table), np.zeros(len(table)), None, np.random.default_rng(0), RATE)
        assert row["prm_grad_norm"] > 0
    table = rollouts(size=8)
    replies = np.array([Reply("", r.prompt_ids, r.token_ids) for r in table.replies], object)  # type: ignore[union-attr]
    table = dataclasses.replace(table, replies=replies)
    reward = ImplicitReward(babbling_policy())
    with pytest.raises(ValueError, match="row 0 has 1 reply tokens and 0 log-probabilities"):
        reward.update(table, np.zeros(len(table)), None, np.random.default_rng(0), RATE)
    start = ImplicitReward(babbling_policy(), ImplicitRewardConfig(reference="start"))
    assert start.update(table, np.zeros(len(table)), None, np.random.default_rng(0), RATE)["prm_grad_norm"] > 0
    credit: Any = SimpleNamespace(scorer=ImplicitRewardConfig(), score_level="turn")
    learner = Learner(babbling_policy(), credit, dataclasses.replace(CONFIG, temperature=0.7))
    assert learner.scorer.config.temperature == 0.7  # type: ignore[attr-defined]
    credit.scorer = ImplicitRewardConfig(temperature=0.9)
    learner = Learner(babbling_policy(), credit, dataclasses.replace(CONFIG, temperature=0.7))
    assert learner.scorer.config.temperature == 0.9  # type: ignore[union-attr]


# Two made worlds: one where one action decides, and one where nothing but the length does.
CELLS, DECISIVE = 5, 2


@cache
def _policy() -> Any:
    return babbling_policy()


def _table(cells: list[np.ndarray], won: Any, seed: int) -> StepTable:
    """Episodes in groups of eight, each a walk through given cells whatever is done; `won(words)` is their outcome."""
    seen = np.concatenate(cells)
    trajectory = np.repeat(np.arange(len(cells)), [len(walk) for walk in cells])
    replies = _policy().act([f"cell {cell}" for cell in seen], {}, np.random.default_rng(seed))
    words = np.array([reply.text for reply in replies])
    outcome = np.array([won(words[trajectory == one], cells[one]) for one in range(len(cells))])
    t = np.concatenate([np.arange(len(walk)) for walk in cells])
    return filled(trajectory=trajectory, group=trajectory // 8, t=t, won=outcome[trajectory], replies=replies)


def _crossroads(seed: int, episodes: int = 128) -> StepTable:
    """All five cells in turn; what is answered in the third decides."""
    return _table([np.arange(CELLS)] * episodes, lambda words, _: "right" in words[DECISIVE], seed)


def _waiting(seed: int, episodes: int = 128) -> StepTable:
    """Two to six random cells; short episodes are won."""
    rng = np.random.default_rng(seed)
    walks = [rng.integers(0, CELLS, rng.integers(2, 7)) for _ in range(episodes)]
    return _table(walks, lambda words, _: len(words) <= 3, seed)


def _learned(world: Any, iterations: int, **changes: Any) -> tuple[ImplicitReward, list[float]]:
    """A reward model, and how it ordered the pairs of each table before it learned from it."""
    reward, rng = ImplicitReward(_policy(), ImplicitRewardConfig(beta=0.5, **changes)), np.random.default_rng(0)
    accuracies = []
    for seed in range(iterations):
        table = world(seed)
        scores = reward.scores(table)
        accuracies.append(pair_accuracy(table, scores))
        reward.update(table, scores, None, rng, 2e-3)
    return reward, accuracies


def test_the_decisive_step_scores_highest_and_sums_must_be_centred() -> None:
    reward, accuracies = _learned(_crossroads, 30, reduce="sum")
    table = _crossroads(seed=999, episodes=256)
    steps = reward.scores(table).reshape(-1, CELLS)[table.trajectory_won]
    assert len(steps) > 50
    assert (steps.argmax(1) == DECISIVE).mean() > 0.9  # .99 measured; at random .2
    assert accuracies[-1] > 0.95 > 0.5 == accuracies[0]
    table = _waiting(seed=999, episodes=2048)
    plain, _ = _learned(_waiting, 40, reduce="sum")
    scores = plain.scores(table)
    assert pair_accuracy(table, scores) > 0.9  # though no answer made a difference
    assert pair_accuracy(table, scores, centred=True) == pytest.approx(0.5, abs=0.05)
    centred, _ = _learned(_waiting, 40, reduce="sum", centre=True)
    assert pair_accuracy(table, centred.scores(table)) == pytest.approx(0.5, abs=0.05)


#: iStar's and PRIME's, in the files of answers.
BETA = 0.05


def pairs_of(table: StepTable, **options: Any) -> Pairs:
    return outcome_pairs(table.trajectory_group, table.trajectory_won, table.trajectory_return, **options)


def totals(table: StepTable, steps: Tensor, reduce: Any = "sum") -> Tensor:
    return trajectory_scores(steps, torch.from_numpy(table.trajectory), table.n_trajectories, reduce)


def loss_of(name: str, table: StepTable, steps: Tensor) -> Tensor:
    """One of the losses of the files, by its name there."""
    if name.startswith("ce"):
        return cross_entropy(totals(table, steps), torch.from_numpy(table.trajectory_won))
    return pair_loss(totals(table, steps, "mean" if "mean" in name else "sum"), pairs_of(table))


def test_pairs_margins_and_losses_by_hand() -> None:
    group, won = np.array([0, 1, 0, 0, 1, 2]), np.array([1, 0, 0, 1, 1, 1], bool)
    returns = np.array([10.0, 0.0, 2.0, 9.0, 9.0, 9.0])
    pairs = outcome_pairs(group, won, returns)
    assert list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [(0, 2), (3, 2), (4, 1)]
    assert pairs.weight.tolist() == [0.5, 0.5, 1.0]
    assert outcome_pairs(group, won, returns, pair_weight="flat").weight.tolist() == [1.0, 1.0, 1.0]
    group, won = np.zeros(4, np.int64), np.array([1, 1, 0, 0], bool)
    returns = np.array([1.0, 0.4, 0.5, 0.5])
    pairs = outcome_pairs(group, won, returns, margin=0.0)
    assert list(zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True)) == [
        (0, 1), (0, 2), (0, 3), (2, 1), (3, 1),
    ]  # fmt: skip
    assert len(outcome_pairs(group, won, returns, margin=0.55)) == 1
    assert len(outcome_pairs(group, won, returns, margin=1.0)) == 0
    scores = torch.tensor([2.0, 0.0, 1.0, -1.0])
    pairs = Pairs(np.array([0, 2]), np.array([1, 3]), np.array([1.0, 0.5]))
    expected = (math.log1p(math.exp(-2.0)) + 0.5 * math.log1p(math.exp(-2.0))) / 1.5
    assert float(pair_loss(scores, pairs)) == pytest.approx(expected)
    assert float(pair_loss(scores, pairs, divisor=3.0)) == pytest.approx(expected / 2)
    won = torch.tensor([True, False, False, True])
    terms = math.log1p(math.exp(-2.0)) + math.log(2.0) + 2 * math.log1p(math.exp(1.0))
    assert float(cross_entropy(scores, won)) == pytest.approx(terms / 4)
    assert float(cross_entropy(scores, won, divisor=2.0)) == pytest.approx(terms / 2)
    scores = torch.tensor([-1e4, 1e4], requires_grad=True)
    loss = pair_loss(scores, Pairs(np.array([0]), np.array([1]), np.ones(1)))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert float(loss.detach()) == 2e4
    assert gradient.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("name", ["dpo_sum", "dpo_mean", "dpo_sum_centred", "ce_sum"])
def test_the_tiny_model_has_its_losses_gradients_and_steps(name: str) -> None:
    for table, result, places in tiny_models():
        old = torch.tensor(result["theta_old"], dtype=torch.float64).log_softmax(1)

        def loss(theta: Tensor, table: StepTable = table, old: Tensor = old, **given: Any) -> Tensor:
            phi = theta.log_softmax(1)
            ratio = (phi - old)[given["places"]]
            if name.endswith("centred"):
                ratio = ratio + (old.exp() * (old - phi)).sum(1)[given["places"][0]]
            return loss_of(name, table, given["beta"] * ratio)

        loss_at = functools.partial(loss, places=places, beta=result["beta"])
        agrees(result["theta"], result["answers"][name], loss_at)


def test_the_releases_losses_and_gradients() -> None:
    old, compared = BETA * (token_logprobs("prm") - token_logprobs("old")).sum(1), 0
    start = BETA * (token_logprobs("prm") - token_logprobs("init")).sum(1)
    lengths = mask().sum(1)
    for (table, rows), result in zip(batches(), load(AUTHORS)["results"], strict=True):
        assert lengths[rows].all()
        ours = [(float(loss_of("ce", table, torch.from_numpy(start[rows]))), result["prime"]["ce_loss"])]
        ratios = torch.from_numpy(old[rows] / BETA).requires_grad_()
        per_step = cross_entropy(BETA * ratios, torch.from_numpy(table.won))
        (gradient,) = torch.autograd.grad(per_step, ratios)
        expected = result["istar"]["ce_per_step"]
        ours.append((float(per_step.detach()), expected["loss"]))
        np.testing.assert_allclose(gradient.numpy(), expected["grad_q_first_token"], atol=1e-6)
        eto = result["istar"]["eto"]
        if len(pairs_of(table)):
            loss = loss_of("dpo_mean", table, BETA * ratios)
            (gradient,) = torch.autograd.grad(loss, ratios)
            ours.append((float(loss.detach()), eto["loss"]))
            np.testing.assert_allclose(gradient.numpy(), eto["grad_q_first_token"], atol=1e-6)
            compared += 1
        for found, theirs in ours:
            assert found == pytest.approx(theirs, abs=1e-5)
    assert compared > 20  # most synthetic groups are won, or lost, throughout
