"""Relabelled rows in an update: their log-probabilities are those of the policy now, under the new prompts."""

import gymnasium as gym
import numpy as np
import pytest
import torch

import agentgym  # noqa: F401  # registers the environments
from agentgym.rollout import collect
from agentgym.rollout.hindsight import relabel_goals
from agentgym.trajectory import StepTable
from baselines.batch import make_batch
from baselines.config import Loss, Optimiser, TrainerConfig
from baselines.off_policy import rescored
from baselines.update import update
from policies.tiny import tiny_policy
from wrappers import VectorPromptWindow, VectorReplyParser

torch.set_num_threads(1)


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


def test_relabelled_rows_keep_no_log_probability_and_no_token_of_the_old_prompt(envs, tables):
    played, relabelled = tables
    assert relabelled.n_trajectories > 3
    old = {reply.prompt_ids for reply in played.replies}
    assert all(reply.logprobs == () and reply.prompt_ids not in old for reply in relabelled.replies)
    with pytest.raises(ValueError, match="row 0: 1 reply tokens but 0 log-probabilities"):
        make_batch(relabelled, np.ones(len(relabelled)))


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


def test_an_update_makes_what_was_relabelled_more_likely(tables):
    policy, (_, relabelled) = student(), tables
    config = TrainerConfig(learning_rate=1e-3, loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=64, epochs=4))
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=config.learning_rate)
    before = rescored(policy, relabelled, temperature=config.temperature)
    batch = make_batch(before, np.ones(len(before)))
    figures = update(policy, optimizer, batch, config, np.random.default_rng(0))
    after = rescored(policy, relabelled, temperature=config.temperature)
    gains = [b.logprobs[0] - a.logprobs[0] for a, b in zip(before.replies, after.replies, strict=True)]
    assert np.mean(gains) > 0.05
    assert figures["updates"] >= 4


def test_the_ratio_begins_at_one(tables):
    policy, (_, relabelled) = student(), tables
    config = TrainerConfig(learning_rate=0.0, loss=Loss(kl=0.0), optimiser=Optimiser(minibatch_rows=10_000))
    batch = make_batch(rescored(policy, relabelled, temperature=config.temperature), np.ones(len(relabelled)))
    still = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    figures = update(policy, still, batch, config, np.random.default_rng(0))
    # with every ratio 1 and every advantage 1 the objective is 1, and nothing is clipped
    assert figures["policy_loss"] == pytest.approx(-1.0, abs=1e-4)
    assert figures["approx_kl"] == pytest.approx(0.0, abs=1e-6)
    assert figures["clip_fraction"] == 0.0


def test_a_table_without_rows_or_tokens():
    policy = student()
    empty = relabel_goals_of_nothing()
    assert rescored(policy, empty, temperature=1.0) is empty
    table = StepTable.from_arrays(
        group=["g"], trajectory=["a"], t=[0], state=["s"], action=["up"], next_state=["goal"], reward=[1], won=[1]
    )
    assert rescored(policy, table, temperature=1.0) is table


def relabel_goals_of_nothing():
    envs = gym.make_vec("AgentRL/Sokoban-v0", num_envs=1, autoreset_mode="Disabled", max_episode_steps=1)
    table = StepTable.from_arrays(
        group=["train/0"], trajectory=["a"], t=[0], state=["s"], action=["jump"], next_state=["s"], reward=[0], won=[0],
        valid=[False], terminated=[False], truncated=[True],
    )  # fmt: skip
    return relabel_goals(table, envs)
