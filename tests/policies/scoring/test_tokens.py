import copy

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from policies.scoring import score_replies
from policies.scoring import tokens as scoring_tokens
from policies.scoring.tokens import score_with_divergence
from tests.refusals import refuses

torch.set_num_threads(1)

PROMPTS = [(5, 6, 7), (8,), (5, 6, 7), (9, 10, 11, 12), (5, 6, 7)]
REPLIES = [(4,), (5, 6, 7), (9,), (10, 11), (4, 12)]


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=20,
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                initializer_range=0.3,
                tie_word_embeddings=True,
            )
        ).eval()


def naive(model, prompt, reply, temperature):
    """One unpadded row; log-probabilities, entropies and which tokens were the most probable."""
    logits = model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1] / temperature
    distribution = torch.distributions.Categorical(logits=logits)
    return distribution.log_prob(torch.tensor(reply)), distribution.entropy(), logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_scores_equal_those_of_single_unpadded_rows(model, temperature):
    scores = score_replies(model, PROMPTS, REPLIES, temperature=temperature)
    assert scores.logprobs.shape == scores.entropy.shape == scores.mask.shape == scores.top.shape == (5, 3)
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        logprobs, entropy, best = naive(model, prompt, reply, temperature)
        assert scores.mask[row].tolist() == [place < len(reply) for place in range(3)]
        torch.testing.assert_close(scores.logprobs[row, : len(reply)], logprobs, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(scores.entropy[row, : len(reply)], entropy, atol=1e-5, rtol=1e-5)
        assert scores.logprobs[row, len(reply) :].abs().sum() == scores.entropy[row, len(reply) :].abs().sum() == 0
        assert scores.top[row].tolist() == [b == t for b, t in zip(best, reply, strict=True)] + [False] * (
            3 - len(reply)
        )


def another(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.8)
    return other


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_divergence_from_another_model_is_that_of_whole_distributions(model, temperature):
    other = another(model)
    logprobs, divergence = score_with_divergence(model, other, PROMPTS, REPLIES, temperature=temperature)
    torch.testing.assert_close(logprobs, score_replies(model, PROMPTS, REPLIES, temperature=temperature).logprobs)
    for row, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        ids = torch.tensor([[*prompt, *reply]])
        ours, theirs = (
            torch.distributions.Categorical(logits=of(input_ids=ids).logits[0, len(prompt) - 1 : -1] / temperature)
            for of in (model, other)
        )
        expected = torch.distributions.kl_divergence(theirs, ours)
        assert expected.min() > 1e-3
        torch.testing.assert_close(divergence[row, : len(reply)], expected, atol=1e-5, rtol=1e-4)
        assert not divergence[row, len(reply) :].any()
    divergence.sum().backward()
    assert all(weight.grad is None for weight in other.parameters())
    assert any(weight.grad is not None for weight in model.parameters())
    model.zero_grad()


def test_the_divergence_among_allowed_tokens_is_finite(model):
    allowed = [((4, 5),), ((5,), (6, 7), (7,)), ((),), ((), ()), ((4, 9), (12, 1))]
    _, divergence = score_with_divergence(model, another(model), PROMPTS, REPLIES, allowed=allowed)
    assert divergence[1].tolist()[::2] == [0.0, 0.0]  # one token allowed: nothing to differ in
    assert torch.isfinite(divergence).all()
    divergence.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters() if weight.grad is not None)
    model.zero_grad()


def test_gradients_equal_those_of_single_rows(model):
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0])

    def gradients(loss):
        return torch.autograd.grad(loss, list(model.parameters()))

    scores = score_replies(model, PROMPTS, REPLIES)
    shared = gradients((scores.logprobs.sum(1) * weights).sum() + scores.entropy.sum())
    rows = [naive(model, prompt, reply, 1.0) for prompt, reply in zip(PROMPTS, REPLIES, strict=True)]
    single = gradients(sum(w * row[0].sum() + row[1].sum() for w, row in zip(weights, rows, strict=True)))
    for one, other in zip(shared, single, strict=True):
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-3)


def test_the_head_runs_once_per_distinct_position_of_a_reply(model):
    rows = []
    handle = model.lm_head.register_forward_hook(lambda _, __, output: rows.append(output.shape[-2]))
    bodies = []
    body = model.model.register_forward_pre_hook(
        lambda _, __, arguments: bodies.append(tuple(arguments["input_ids"].shape)), with_kwargs=True
    )
    score_replies(model, [(5, 6, 7)] * 4 + [(8, 9)], [(1,), (2,), (1,), (3,), (4, 5)])
    handle.remove()
    body.remove()
    # Four replies to one prompt read one position; the fifth reads two. Two distinct inputs of three tokens.
    assert rows == [3]
    assert bodies == [(2, 3)]


def test_a_token_of_probability_zero_leaves_the_entropy_finite(model):
    scores = score_replies(model, [(5,)], [(6,)], temperature=1e-4)
    assert torch.isfinite(scores.entropy).all()
    assert scores.entropy.item() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("prompts", "replies", "temperature", "words"),
    [
        ([(1,)], [], 1.0, "1 prompts and 0 replies"),
        ([], [], 1.0, "at least one pair"),
        ([(1,), ()], [(1,), (2,)], 1.0, "prompt 1 has no tokens"),
        ([(1,)], [()], 1.0, "reply 0 has no tokens"),
        ([(1,)], [(2, -1)], 1.0, "reply 0 has the token id -1; ids are at least 0"),
        ([(1,)], [(2,)], 0.0, "temperature above 0"),
        ([(1,)], [(2,)], np.nan, "temperature above 0"),
    ],
)
def test_wrong_input_is_explained(model, prompts, replies, temperature, words):
    refuses(ValueError, words, score_replies, model, prompts, replies, temperature=temperature)


@pytest.mark.parametrize("restricted", [False, True])
def test_a_head_in_pieces_scores_as_a_whole_one(model, monkeypatch, restricted):
    allowed = [[(token, 3, 7) for token in reply] if row % 2 else () for row, reply in enumerate(REPLIES)]
    given = {"temperature": 0.7, "allowed": allowed if restricted else None}
    whole = score_replies(model, PROMPTS, REPLIES, **given)
    monkeypatch.setattr(scoring_tokens, "_WHOLE_HEAD", 0)
    pieces = score_replies(model, PROMPTS, REPLIES, **given)
    for one, other in zip(vars(pieces).values(), vars(whole).values(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    weights = list(model.parameters())
    for one, other in zip(
        *(torch.autograd.grad((each.logprobs.sum() + each.entropy.sum()), weights) for each in (pieces, whole)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
    for how in (0, 2**30):
        monkeypatch.setattr(scoring_tokens, "_WHOLE_HEAD", how)
        none = score_replies(model, PROMPTS, REPLIES, entropy=None, **given)
        assert torch.equal(none.entropy, torch.zeros_like(whole.entropy))
        torch.testing.assert_close(none.logprobs, whole.logprobs, atol=1e-5, rtol=0)
