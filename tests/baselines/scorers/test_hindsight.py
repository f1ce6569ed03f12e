"""Scorers in hindsight: of actions, and of replies."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agentgym.trajectory import Reply, StepTable
from baselines.recipes import RECIPES
from baselines.scorers.hindsight import Hindsight, HindsightConfig, new_tokens, without
from baselines.scorers.reply_in_hindsight import ReplyInHindsight, ReplyInHindsightConfig
from policies.prompts import FIRST_PICTURE as P
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import babbling_policy, rollouts, small_policy, trainer
from tests.playing import filled
from tests.refusals import refuses
from wrappers.credit.grpo import grpo
from wrappers.credit.hcapo import hcapo
from wrappers.credit.scores import reply_entropies

RATE = 1e-2


def learn(model: Hindsight, table: StepTable, rng: np.random.Generator) -> dict[str, float]:
    return model.update(table, model.scores(table), None, rng, RATE)


def two_turns(second: tuple[int, ...]) -> StepTable:
    """A trajectory of two turns whose prompts and replies are given tokens."""
    replies = [Reply("", (20, 21, 29), (25, 26), (-1.0,) * 2), Reply("", second, (27,), (-1.0,))]
    return filled(replies=replies, won=[1, 1])


def test_prompts_with_the_outcome_in_front() -> None:
    policy, table = babbling_policy(), rollouts(size=8)
    prompts = Hindsight(policy).prompts(table)
    for row, reply in enumerate(table.replies):  # type: ignore[arg-type]
        text = "Won.\n" if table.won[row] else "Lost.\n"
        assert prompts[row] == (*policy.tokenizer(text, add_special_tokens=False)["input_ids"], *reply.prompt_ids)
    assert 0 < table.trajectory_won.mean() < 1
    policy = babbling_policy()
    model = Hindsight(policy)
    won = model._outcome[1]
    table = two_turns((20, 21, 29, 25, 26, 23, 29))
    policy.tokenizer.bos_token_id = 20
    assert model.prompts(table)[0] == (20, *won, 21, 29)
    model.model.config.max_position_embeddings = 1 + len(won) + 1 + 2
    assert model.prompts(table)[0] == (20, *won, 29)  # one place is left beside the reply's two
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["up"], seed=0, layers=1, width=16, heads=2, mlp=16)
    model = Hindsight(policy, HindsightConfig(hindsight="cloze"))
    after, won = model._encode("After: "), model._outcome[1]
    first, second = (20, P, P + 1, P + 2, 29), (20, P + 3, P + 4, P + 5, 29)
    table = two_turns(second)
    table.replies[0] = Reply("", first, (25,), (-1.0,))  # type: ignore[index]
    for room, prompt in (
        (len(after) + 4 + 5, (*won, *after, *second[1:4], 27, *first)),  # all that was new, but for the line's end
        (len(after) + 2 + 5, (*won, *after, *first)),  # two of three placeholders
        (4, (*won, *after[:3], 29)),  # of the prompt, too
    ):
        model.model.config.text_config.max_position_embeddings = len(won) + room + 1
        assert model.prompts(table)[0] == prompt, room
    before = Reply("", (1, 2, 9), (7,))
    assert (new_tokens(before, (1, 2, 9)), new_tokens(before, (4, 5, 9))) == ((), (4, 5))
    assert new_tokens(before, (1, 2, 9, 7, 9)) == ()
    assert (without((1, 1, 2, 3), (1, 2)), without((), (1,))) == ((1, 3), ())


@pytest.mark.parametrize("second", [(20, 21, 29, 25, 26, 23, 29), (20, 23, 29), (20, 25, 26, 23, 29)])
def test_a_cloze_knows_what_came_after_but_not_the_reply_itself(second: tuple[int, ...]) -> None:
    policy = babbling_policy()
    model = Hindsight(policy, HindsightConfig(hindsight="cloze"))
    encoded = [tuple(policy.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in ("After: ", "\n")]
    won = model._outcome[1]
    # A transcript, a window on the last observation, and one that repeats the reply: 23 was seen, 27 was done.
    assert model.prompts(two_turns(second)) == [(*won, *encoded[0], 23, 27, *encoded[1], 20, 21, 29), (*won, *second)]
    model.model.config.max_position_embeddings = len(won) + len(encoded[0]) + 1 + 3 + 2
    assert model.prompts(two_turns(second))[0] == (*won, *encoded[0], 23, 20, 21, 29)


def test_the_gradient_is_that_of_the_mean_over_tokens_however_it_is_cut() -> None:
    policy = small_policy(max_new_tokens=3)
    with pytest.warns(RuntimeWarning, match="refused every action"):
        table = rollouts(policy, 2)
    naive = Hindsight(policy)
    losses = [
        -naive.twin.score([prompt], [reply.token_ids], 1.0).logprobs.sum()
        for prompt, reply in zip(naive.prompts(table), table.replies, strict=True)  # type: ignore[arg-type]
    ]
    expected = torch.stack(losses).sum() / sum(len(reply.token_ids) for reply in table.replies)  # type: ignore[union-attr]
    expected.backward()  # type: ignore[no-untyped-call]
    for limits in ({}, {"microbatch_rows": 3}, {"microbatch_tokens": 80}):
        model = Hindsight(policy, HindsightConfig(minibatch_rows=1000, max_grad_norm=1e9, **limits))
        model._optimizer.zero_grad = lambda **_: None  # type: ignore[method-assign]  # the gradients stay
        row = learn(model, table, np.random.default_rng(0))
        assert row["prm_loss"] == pytest.approx(float(expected.detach()), rel=1e-5)
        for weight, same in zip(model.model.parameters(), naive.model.parameters(), strict=True):
            torch.testing.assert_close(weight.grad, same.grad, atol=1e-5, rtol=1e-3)


def test_it_learns_which_reply_the_outcome_tells() -> None:
    # The same prompt three times; won episodes said "right" in all, so the outcome gives the reply away.
    policy = babbling_policy()
    replies = policy.act(["cell 2"] * 96, {}, np.random.default_rng(0))
    right = np.array(["right" in reply.text for reply in replies])
    table = filled(replies=replies, trajectory=range(len(replies)), next_state=right, won=right)
    model, rng = Hindsight(policy, HindsightConfig(beta=1.0)), np.random.default_rng(0)
    rows = [learn(model, table, rng) for _ in range(40)]
    assert rows[-1]["prm_loss"] < rows[0]["prm_loss"]
    # In hindsight the word is certain: its importance is the inverse of the policy's probability.
    chance = np.exp(next(reply.logprobs[0] for reply in replies if "right" in reply.text))
    assert model.scores(table)[right].mean() > 0.7 / chance > 1.3


def test_bounds_and_what_is_refused() -> None:
    table = rollouts(size=8)
    model = Hindsight(babbling_policy(), HindsightConfig(clip=2.0))
    scores = np.where(np.arange(len(table)) < 3, np.exp(-2.0), 1.0)
    row = model.update(table, scores, None, np.random.default_rng(0), 0.0)
    assert row["prm_clipped"] == pytest.approx(3 / len(table))
    policy = babbling_policy()
    unknown = lambda *_, **__: {"input_ids": [0]}  # noqa: E731  # every word
    blind = SimpleNamespace(model=policy.model, score=policy.score, tokenizer=unknown)
    refuses(ValueError, r"same tokens of 'Lost.\\n' and 'Won.\\n'", Hindsight, blind)


def test_the_final_state_stands_in_front_and_the_prompt_ends_as_it_did() -> None:
    policy = babbling_policy()
    table = rollouts(policy)
    scorer = ReplyInHindsight(policy)
    for row, asked in enumerate(scorer.behind_ending(table)):
        ending = table.states[table.next_state[table.last[table.trajectory[row]]]]
        ending_ids = scorer.encode(f"It ended here: {ending}\n")
        assert asked.prompt_ids == ending_ids + table.replies[row].prompt_ids  # type: ignore[index]
        assert asked.token_ids == table.replies[row].token_ids  # type: ignore[index]
    assert len({asked.prompt_ids for asked in scorer.behind_ending(table)}) > len(set(table.state))
    words = ReplyInHindsight(policy, ReplyInHindsightConfig(final="outcome", won_text="right", lost_text="left"))
    for won, asked in zip(table.won, words.behind_ending(table), strict=True):
        assert asked.prompt_ids[: len(words.encode("right"))] == words.encode("right" if won else "left")


def test_scores_are_the_policys_likelihoods_one_reply_at_a_time() -> None:
    policy = small_policy(max_new_tokens=3)
    with pytest.warns(RuntimeWarning, match="refused every action"):
        table = rollouts(policy, 2)
    for limits in ({}, {"microbatch_tokens": 80}):
        scorer = ReplyInHindsight(policy, ReplyInHindsightConfig(temperature=0.7, **limits))
        expected = [
            float(policy.score([asked.prompt_ids], [asked.token_ids], 0.7).logprobs.mean().detach())
            for asked in scorer.behind_ending(table)
        ]
        np.testing.assert_allclose(scorer.scores(table), expected, atol=1e-5)


def test_the_recipe_gives_the_functions_advantages_and_logs_the_ratios_at_its_temperature() -> None:
    policy = babbling_policy()
    table = rollouts(policy, 8)
    scorer = ReplyInHindsight(policy, ReplyInHindsightConfig(final="outcome", won_text="", lost_text=""))
    np.testing.assert_allclose(scorer.scores(table), -reply_entropies(table), atol=1e-5)
    found = RECIPES["hcapo"].estimate(table, scorer.scores(table))
    assert (found.figures["hindsight_ratio"], found.figures["hindsight_clipped"]) == (pytest.approx(1, abs=1e-5), 0)
    table = rollouts(size=8)
    values = -reply_entropies(table) + np.where(np.arange(len(table)) % 2, 3.0, 0.0)
    found = RECIPES["hcapo"].with_options(penalty="row", invalid_penalty=0.0, std="none").estimate(table, values)
    np.testing.assert_array_equal(found.advantages, hcapo(table, hindsight=values, std="none"))
    odd = (len(table) // 2) / len(table)
    assert found.figures["hindsight_clipped"] == pytest.approx(odd)
    assert found.figures["hindsight_ratio"] == pytest.approx(1 + 0.2 * odd)
    assert not np.array_equal(RECIPES["hcapo"](table), grpo(table))  # the returns to come are still compared
    made = trainer(credit=RECIPES["hcapo"], iterations=1, temperature=0.9)
    assert made.learner.scorer.config.temperature == 0.9  # type: ignore[union-attr]
    assert 0.8 <= made.run()[-1]["hindsight_ratio"] <= 1.2
    assert made.learner.scorer.describe()["final"] == "state"  # type: ignore[union-attr]


def test_final_states_that_do_not_fit() -> None:
    policy = babbling_policy()
    table = rollouts(policy, 1)
    scorer = ReplyInHindsight(policy)
    reply = table.replies[0]  # type: ignore[index]
    policy.model.config.max_position_embeddings = len(reply.prompt_ids) + len(reply.token_ids) + 1
    asked = scorer.behind_ending(dataclasses.replace(table, replies=np.full(len(table), reply)))[0]
    assert asked.prompt_ids == scorer.encode("It ended here: ")[:1] + reply.prompt_ids
