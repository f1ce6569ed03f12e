"""HCAPO's scorer: what the policy is told, and that its likelihoods are the policy's own."""

import dataclasses

import numpy as np
import pytest

from agentgym.rollout import collect
from baselines.recipes import RECIPES
from baselines.scorers.reply_in_hindsight import ReplyInHindsight, ReplyInHindsightConfig
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor, small_policy
from tests.baselines.test_trainer import trainer
from tests.refusals import refuses
from wrappers.credit.grpo import grpo
from wrappers.credit.hcapo import hcapo
from wrappers.credit.scores import reply_entropies


def test_the_final_state_stands_in_front_and_the_prompt_ends_as_it_did() -> None:
    policy = babbling_policy()
    table = collect(corridor(), policy, tasks=TASKS, group_size=4, seed=0)
    scorer = ReplyInHindsight(policy)
    for row, asked in enumerate(scorer.asked(table)):
        ending = table.states[table.next_state[table.last[table.trajectory[row]]]]
        told = scorer.encode(f"It ended here: {ending}\n")
        assert asked.prompt_ids == told + table.replies[row].prompt_ids  # type: ignore[index]
        assert asked.token_ids == table.replies[row].token_ids  # type: ignore[index]
    assert len({asked.prompt_ids for asked in scorer.asked(table)}) > len(set(table.state))
    words = ReplyInHindsight(policy, ReplyInHindsightConfig(final="outcome", won_text="right", lost_text="left"))
    for won, asked in zip(table.won, words.asked(table), strict=True):
        assert asked.prompt_ids[: len(words.encode("right"))] == words.encode("right" if won else "left")


def test_scores_are_the_policys_likelihoods_one_reply_at_a_time() -> None:
    policy = small_policy(max_new_tokens=3)
    with pytest.warns(RuntimeWarning, match="refused every action"):
        table = collect(corridor(), policy, tasks=TASKS, group_size=2, seed=0)
    for limits in ({}, {"microbatch_tokens": 80}):
        scorer = ReplyInHindsight(policy, ReplyInHindsightConfig(temperature=0.7, **limits))
        expected = [
            float(policy.score([asked.prompt_ids], [asked.token_ids], 0.7).logprobs.mean().detach())
            for asked in scorer.asked(table)
        ]
        np.testing.assert_allclose(scorer.scores(table), expected, atol=1e-5)


def test_a_policy_that_is_told_nothing_has_ratio_1() -> None:
    policy = babbling_policy()
    table = collect(corridor(), policy, tasks=TASKS, group_size=8, seed=0)
    scorer = ReplyInHindsight(policy, ReplyInHindsightConfig(final="outcome", won_text="", lost_text=""))
    np.testing.assert_allclose(scorer.scores(table), -reply_entropies(table), atol=1e-5)
    found = RECIPES["hcapo"].estimate(table, scorer.scores(table))
    assert found.figures["hindsight_ratio"] == pytest.approx(1, abs=1e-5)
    assert found.figures["hindsight_clipped"] == 0


def test_the_recipe_gives_the_functions_advantages_and_says_how_the_ratios_are() -> None:
    table = collect(corridor(), babbling_policy(), tasks=TASKS, group_size=8, seed=0)
    told = -reply_entropies(table) + np.where(np.arange(len(table)) % 2, 3.0, 0.0)
    found = RECIPES["hcapo"].with_options(penalty="row", invalid_penalty=0.0, std="none").estimate(table, told)
    np.testing.assert_array_equal(found.advantages, hcapo(table, hindsight=told, std="none"))
    odd = (len(table) // 2) / len(table)
    assert found.figures["hindsight_clipped"] == pytest.approx(odd)
    assert found.figures["hindsight_ratio"] == pytest.approx(1 + 0.2 * odd)
    assert not np.array_equal(RECIPES["hcapo"](table), grpo(table))  # the returns to come are still compared


def test_a_run_logs_the_ratios_at_its_temperature() -> None:
    made = trainer(credit=RECIPES["hcapo"], iterations=1, temperature=0.9)
    assert made.learner.scorer.config.temperature == 0.9  # type: ignore[union-attr]
    row = made.run()[-1]
    assert 0.8 <= row["hindsight_ratio"] <= 1.2
    assert made.learner.scorer.describe()["final"] == "state"  # type: ignore[union-attr]


def test_final_states_that_do_not_fit_and_wrong_settings() -> None:
    policy = babbling_policy()
    table = collect(corridor(), policy, tasks=TASKS, group_size=1, seed=0)
    scorer = ReplyInHindsight(policy)
    reply = table.replies[0]  # type: ignore[index]
    policy.model.config.max_position_embeddings = len(reply.prompt_ids) + len(reply.token_ids) + 1
    asked = scorer.asked(dataclasses.replace(table, replies=np.full(len(table), reply)))[0]
    assert asked.prompt_ids == scorer.encode("It ended here: ")[:1] + reply.prompt_ids
    refuses(ValueError, "final must be 'state' or 'outcome', got 'end'", ReplyInHindsightConfig, final="end")
    refuses(ValueError, "level must be 'turn'", ReplyInHindsightConfig, level="token")
    refuses(ValueError, "temperature must be None or above 0", ReplyInHindsightConfig, temperature=0.0)
