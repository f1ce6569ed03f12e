"""PPO's advantages per turn and token, and rollouts of an older policy."""

import dataclasses
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import Reply, StepTable
from baselines.batch import make_batch
from baselines.config import Loss, Optimiser, TrainerConfig
from baselines.losses import aggregate, clipped_surrogate, importance_ratio, normaliser
from baselines.off_policy import rescored
from baselines.ppo import ppo
from baselines.update import update
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import TASKS, corridor, small_policy
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import episodes
from wrappers import VectorPromptWindow, VectorReplyParser
from wrappers.credit.scores import whiten

PLAIN: dict[str, Any] = {"whiten": False, "lam": 0.5, "gamma": 0.8, "token_gamma": 0.9}


def table_of(*lengths: int) -> StepTable:
    """One trajectory whose replies have these lengths; the last but one action is not valid, the last is rewarded."""
    n = len(lengths)
    return filled(
        replies=[Reply("", (1,), (2,) * k, (-1.0,) * k) for k in lengths], state=range(n), next_state=range(1, n + 1),
        reward=[0.0] * (n - 1) + [1.0], won=[True] * n, valid=[i != n - 2 for i in range(n)],
    )  # fmt: skip


def test_by_hand_and_with_forks() -> None:
    table = table_of(1, 1, 1, 1)
    values = np.random.default_rng(0).normal(size=4)
    turn = ppo(table, values, **{**PLAIN, "level": "turn"})
    token = ppo(table, values[:, None], **{**PLAIN, "level": "token", "token_gamma": 0.8})
    both = ppo(table, values[:, None], **{**PLAIN, "level": "bi-level"})
    for found in (token, both, ppo(table, values[:, None], **{**PLAIN, "level": "residual", "token_lam": 0.5})):
        np.testing.assert_allclose(found.advantages[:, 0], turn.advantages, atol=1e-12)
        np.testing.assert_allclose(found.targets[:, 0], turn.targets, atol=1e-12)
    # One sequence of 2 + 1 tokens, values 0.1, 0.2, 0.3: 1 - 0.3; 0.9 * 0.3 - 0.2 + 0.45 * 0.7; 0.08 + 0.45 * 0.385.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **{**PLAIN, "level": "token"})
    np.testing.assert_allclose(found.advantages, [[0.08 + 0.45 * 0.385, 0.385], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.18 + 0.45 * 0.385, 0.585], [1.0, 0.0]])
    # Turns: 1 - 0.3; 0.8 * 0.3 - 0.2 + 0.4 * 0.7 = 0.32. Inside the first: 0.9 * 0.2 - 0.1 + 0.45 * 0.32.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **{**PLAIN, "level": "bi-level"})
    np.testing.assert_allclose(found.advantages, [[0.08 + 0.45 * 0.32, 0.32], [0.7, 0.0]])
    # Turns: 1 - 0.3; 0.8 * 0.3 - 0.1 + 0.4 * 0.7 = 0.42. Tokens, lam 1, 0.8 between turns: 0.8 * 1 - 0.2 = 0.6 and
    # 0.9 * 0.8 - 0.1 = 0.62: a hundredth about their mean, of which a half.
    options = {**PLAIN, "level": "residual", "residual": 0.5}
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), **options)
    np.testing.assert_allclose(found.advantages, [[0.425, 0.415], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.72, 0.8], [1.0, 0.0]])
    # gamma = lam = 1: the return 1 less the value; the first step is not valid: 0.1 off its reward.
    found = ppo(table_of(2, 1), np.array([[0.1, 0.2], [0.3, 9.0]]), preset="authors", whiten=False)
    np.testing.assert_allclose(found.advantages, [[0.8, 0.7], [0.7, 0.0]])
    np.testing.assert_allclose(found.targets, [[0.9, 0.9], [1.0, 0.0]])
    table = episodes("s -x-> u -x-> goal +", "0.0: u -x-> pit")
    table = dataclasses.replace(table, replies=np.array([Reply("", (1,), (2,), (-1.0,))] * 3, object))
    # One way leads to 1 and the other to 0: the first step is worth half.
    assert ppo(table, whiten=False, lam=1.0).advantages.tolist() == [0.5, 1.0, 0.0]
    for level in ("token", "bi-level"):
        with pytest.raises(ValueError, match=r"cut from others .*: what follows a shared token is not one sequence"):
            ppo(table, level=level)


@pytest.mark.parametrize("level", ["turn", "token", "bi-level", "residual"])
def test_whitening_is_over_what_was_written(level: Any) -> None:
    table = table_of(3, 1, 2)
    values = np.arange(3.0) if level == "turn" else np.arange(9.0).reshape(3, 3)
    raw = ppo(table, values, **{**PLAIN, "level": level})
    white = ppo(table, values, **{**PLAIN, "level": level, "whiten": True})
    written = np.ones(3, bool) if level == "turn" else np.arange(3) < np.array([[3], [1], [2]])
    np.testing.assert_allclose(white.advantages, whiten(raw.advantages, written))
    assert np.array_equal(white.targets, raw.targets)


@pytest.mark.parametrize("level", ["turn", "token", "bi-level", "residual"])
@cases(
    "where, lost, unlearned",
    # Values 0, all discounts and lam 1: rows 0, 1, 2 of which row 1 is not valid.
    ("row", [0.0, 0.4, 0.0], [0.0, 0.4, 0.0]),
    ("discounted", [0.4, 0.4, 0.0], [0.4, 0.4, 0.0]),
    ("advantage", [0.0, 0.4, 0.0], [0.0, 0.0, 0.0]),
)
def test_where_the_penalty_is_felt(level: Any, where: Any, lost: list[float], unlearned: list[float]) -> None:
    options = {"whiten": False, "lam": 1.0, "gamma": 1.0, "invalid_penalty": 0.4, "penalty": where}
    found = ppo(table_of(2, 1, 1), level=level, **options)
    advantages, returns = found.advantages.reshape(3, -1), found.targets.reshape(3, -1)
    np.testing.assert_allclose(advantages[:, 0], 1 - np.array(lost))
    np.testing.assert_allclose(returns[:, 0], 1 - np.array(unlearned))
    if level != "turn":
        assert advantages[0, 0] == advantages[0, 1]
        assert not advantages[1:, 1].any()


@cases(
    "arguments, error, words",
    ({"values": np.zeros((2, 1))}, ValueError, r"one value per step, shape \(2,\), got shape \(2, 1\)"),
    ({"values": np.zeros(2), "level": "token"}, ValueError, r"one value per reply token, shape \(2, 2\)"),
    ({"level": "bi-level", "horizon": "step"}, ValueError, "horizon 'step' has no level of turns"),
    ({"level": "word"}, ValueError, "unknown level 'word'"),
    ({"lambda_": 0.9}, TypeError, "unknown option 'lambda_'"),
    ({"whiten": 1}, TypeError, "whiten must be True or False"),
)
def test_wrong_input_is_named(arguments: Any, error: Any, words: str) -> None:
    refuses(error, words, lambda: ppo(table_of(2, 1), **arguments))


@pytest.mark.parametrize("level", ["token", "bi-level"])
def test_every_token_gets_the_gradient_of_its_own_advantage(level: Any) -> None:
    policy = small_policy(max_new_tokens=4)
    table = collect(corridor(), policy, tasks=TASKS, group_size=4, seed=0)
    replies: list[Any] = list(table.replies)  # type: ignore[arg-type]
    lengths = np.array([len(reply.token_ids) for reply in replies])
    assert len(set(lengths.tolist())) > 1
    values = np.random.default_rng(0).normal(size=(len(table), lengths.max()))
    advantages = ppo(table, values, level=level, whiten=False, gamma=0.8, token_gamma=0.9, lam=0.7).advantages
    assert not advantages[np.arange(lengths.max()) >= lengths[:, None]].any()
    # On policy the ratio is 1: the gradient is that of the mean over tokens of -A log pi(token).
    batch = make_batch(table, advantages)
    logprobs = policy.score(batch.prompts, batch.replies, 1.0).logprobs
    ratio = importance_ratio(logprobs, logprobs.detach(), batch.mask)
    surrogate = clipped_surrogate(ratio, batch.positive, batch.negative)
    aggregate(surrogate, batch.mask, "token-mean", normaliser(batch.mask, batch.weight, "token-mean")).backward()
    found = {name: weight.grad.clone() for name, weight in policy.model.named_parameters() if weight.grad is not None}
    policy.model.zero_grad()
    total = torch.zeros(())
    for row, reply in enumerate(replies):
        one = policy.score([reply.prompt_ids], [reply.token_ids], 1.0).logprobs[0]
        for place in range(lengths[row]):
            total = total - advantages[row, place] * one[place]
    (total / lengths.sum()).backward()
    for name, weight in policy.model.named_parameters():
        if name in found:
            torch.testing.assert_close(found[name], weight.grad, atol=2e-6, rtol=1e-3)
    assert found


@pytest.fixture(scope="module")
def envs():
    bare = gym.make_vec("AgentRL/Sokoban-v0", num_envs=8, autoreset_mode="Disabled")
    return VectorPromptWindow(VectorReplyParser(bare), history=0, instructions=False)


def student():
    return tiny_policy(["######\n#_OX√#\n#PS__#\n######"], seed=0, width=32, layers=1, mlp=64)


@pytest.fixture(scope="module")
def tables(envs):
    """What a player did that wrote with this student's tokens, and the same relabelled."""
    policy = student()
    tasks = [{"split": "train", "index": index} for index in range(6)]
    played = collect(envs, policy.with_settings(admissible=True), tasks=tasks, group_size=4, seed=0)
    return played, relabel_goals(played, envs, demonstrate=policy.demonstrate)


def test_relabelled_rows_keep_nothing_of_the_old_prompt_and_empty_tables_stay(envs, tables):
    played, relabelled = tables
    assert relabelled.n_trajectories > 3
    old = {reply.prompt_ids for reply in played.replies}
    assert all(reply.logprobs == () and reply.prompt_ids not in old for reply in relabelled.replies)
    with pytest.raises(ValueError, match="row 0: 1 reply tokens but 0 log-probabilities"):
        make_batch(relabelled, np.ones(len(relabelled)))
    policy = student()
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=1, autoreset_mode="Disabled", max_episode_steps=1)
    empty = relabel_goals(filled(group=["train/0"], action=["jump"], valid=[False], truncated=[True]), envs)
    assert rescored(policy, empty, temperature=1.0) is empty
    table = episodes("s -up-> goal +")
    assert rescored(policy, table, temperature=1.0) is table


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("tokens_per_pass", [None, 400])
def test_log_probabilities_are_the_policy_s_row_by_row(tables, temperature, tokens_per_pass):
    policy, (_, relabelled) = student(), tables
    found = rescored(policy, relabelled, temperature=temperature, tokens_per_pass=tokens_per_pass)
    assert relabelled.replies[0].logprobs == ()  # the table that was given stays
    for before, reply in zip(relabelled.replies, found.replies, strict=True):
        with torch.no_grad():
            logits = policy.model(torch.tensor([reply.prompt_ids])).logits[0, -1] / temperature
        assert reply.logprobs == pytest.approx([torch.log_softmax(logits, -1)[reply.token_ids[0]].item()], abs=1e-5)
        assert (reply.text, reply.prompt_ids, reply.token_ids) == (before.text, before.prompt_ids, before.token_ids)


def test_an_update_begins_at_ratio_one_and_makes_what_was_relabelled_more_likely(tables):
    policy, (_, relabelled) = student(), tables
    config = TrainerConfig(learning_rate=1e-3, loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=64, epochs=4))
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=config.learning_rate)
    before = rescored(policy, relabelled, temperature=config.temperature)
    figures = update(policy, optimizer, make_batch(before, np.ones(len(before))), config, np.random.default_rng(0))
    after = rescored(policy, relabelled, temperature=config.temperature)
    gains = [b.logprobs[0] - a.logprobs[0] for a, b in zip(before.replies, after.replies, strict=True)]
    assert np.mean(gains) > 0.05
    assert figures["updates"] >= 4
    policy, (_, relabelled) = student(), tables
    config = TrainerConfig(learning_rate=0.0, loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=10_000))
    batch = make_batch(rescored(policy, relabelled, temperature=config.temperature), np.ones(len(relabelled)))
    still = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    figures = update(policy, still, batch, config, np.random.default_rng(0))
    # with every ratio 1 and every advantage 1 the objective is 1, and nothing is clipped
    assert figures["policy_loss"] == pytest.approx(-1.0, abs=1e-4)
    assert (figures["approx_kl"], figures["clip_fraction"]) == (pytest.approx(0.0, abs=1e-6), 0.0)
