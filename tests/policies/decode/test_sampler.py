import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Qwen2Config

from policies.decode import batch
from policies.decode.continuous import Request
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding, complete, first_logits, pick
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.policies.agreement import check_written
from tests.policies.small_models import small_model


class Chain(nn.Module):
    """A language model whose next token depends on the last one only: row = logits after that token."""

    def __init__(self, table):
        super().__init__()
        self.head = nn.Linear(len(table), len(table), bias=False)
        self.head.weight = nn.Parameter(torch.tensor(table).T.clone())
        self.config = Qwen2Config(num_hidden_layers=1)
        self.seen = []

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, **arguments):
        self.seen.append((tuple(input_ids.shape), arguments["use_cache"]))
        return SimpleNamespace(logits=self.head(nn.functional.one_hot(input_ids, self.head.in_features).float()))


def sure(*following):
    """A chain in which token i is always followed by ``following[i]``."""
    table = np.full((len(following), len(following)), -30.0, dtype=np.float32)
    table[np.arange(len(following)), following] = 30.0
    return table.tolist()


def decoding(temperature=1.0, max_new_tokens=5, end=0, batch_size=64):
    return Decoding(temperature, max_new_tokens, lambda ids: ids[-1] == end, 0, batch_size)


def test_the_loop_by_hand() -> None:
    # 1 -> 2 -> 3 -> 0 (end); 4 -> 5 -> 4 -> ... for ever
    chain = Chain(sure(0, 2, 3, 0, 5, 4))
    done = complete(chain, [(9 % 6, 1), (4,), (3,)], None, decoding(temperature=0.0))
    assert [one.token_ids for one in done] == [[2, 3, 0], [5, 4, 5, 4, 5], [0]]
    assert all(len(one.logprobs) == len(one.token_ids) for one in done)
    chain = Chain(sure(0, 2, 3, 0, 5, 4))
    complete(chain, [(1,)] * 5 + [(4,)] * 2, None, decoding(temperature=0.0))
    # Two distinct prompts, then 7 places for two steps (tokens 2 and 5, then 3 and 4), then the five are at the end.
    assert [shape for shape, _ in chain.seen] == [(2, 1), (7, 1), (7, 1), (2, 1), (2, 1)]
    chain = Chain(sure(1, 2, 0))
    assert first_logits(chain, [(0, 1), (2,), (0,)], decoding(max_new_tokens=1)).argmax(1).tolist() == [2, 0, 1]
    assert chain.seen == [((3, 2), False)]
    # 1 -> 2 -> 0 (end); 3 -> 4 -> 3 -> ...; an end token in the last place is an end.
    done = complete(Chain(sure(0, 2, 0, 4, 3)), [(1,), (3,), (2,)], None, decoding(temperature=0.0, max_new_tokens=2))
    assert [(one.token_ids, one.finish) for one in done] == [([2, 0], "stop"), ([4, 3], "length"), ([0], "stop")]
    one = LoopSampler(Chain(sure(1, 0))).write([(0,), (1,)], None, decoding(temperature=0.0, max_new_tokens=1))
    assert [(each.token_ids, each.finish) for each in one] == [([1], "length"), ([0], "stop")]


def test_tokens_are_drawn_from_the_distribution() -> None:
    table = torch.log(torch.tensor([[0.1, 0.2, 0.7]] * 3)).tolist()
    uniforms = np.array([[0.05, 0.15], [0.29, 0.31], [0.999, 0.0]])
    done = complete(Chain(table), [(1,)] * 3, uniforms, decoding(max_new_tokens=2, end=-1))
    assert [one.token_ids for one in done] == [[0, 1], [1, 2], [2, 0]]
    assert done[1].logprobs == pytest.approx([np.log(0.2), np.log(0.7)], abs=1e-6)
    # Probabilities 1/4 and 3/4 at temperature 1/2 become 1/16 : 9/16 = 0.1 and 0.9.
    logits = torch.log(torch.tensor([[0.25, 0.75], [0.25, 0.75]]))
    tokens, logprobs = pick(logits, torch.tensor([0.099, 0.101], dtype=torch.float64), 0.5)
    assert tokens.tolist() == [0, 1]
    assert logprobs.exp().tolist() == pytest.approx([0.1, 0.9])
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(500, 7)) * 3, dtype=torch.float32)
    logits[:, 6] = -torch.inf
    logits[::2, 0] = -torch.inf
    uniforms = rng.random(500)
    uniforms[:4] = [0.0, 0.0, np.nextafter(1, 0), np.nextafter(1, 0)]
    tokens, _ = pick(logits, torch.from_numpy(uniforms), 1.0)
    for row, token, uniform in zip(logits.tolist(), tokens.tolist(), uniforms, strict=True):
        weights = np.exp(np.array(row))
        left = uniform * weights.sum()
        expected = 0
        while left >= weights[expected] and weights[expected + 1 :].sum() > 0:
            left -= weights[expected]
            expected += 1
        assert token == expected


LARGE = {"pad_token_id": 0, "initializer_range": 0.3}
MODELS = {
    "qwen": small_model(**LARGE),
    "window": small_model(**LARGE, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "gpt2": small_model("GPT2", **LARGE, n_positions=64),
}


def naive(model, prompt, uniforms, settings):
    """No cache, no padding, one prompt: the whole sequence again for every token."""
    ids, written = list(prompt), []
    for uniform in uniforms:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[:, -1]
        token = int(pick(logits, torch.tensor([uniform], dtype=torch.float64), settings.temperature)[0])
        ids.append(token)
        written.append(token)
        if settings.is_end(written):
            break
    return written


# Rotary positions, a sliding attention window, and learned absolute positions.
@pytest.mark.parametrize("name", list(MODELS))
def test_padding_sharing_and_cache_change_no_token(name):
    model, settings = MODELS[name], Decoding(0.8, 8, lambda ids: ids[-1] % 5 == 3, 0, 5)
    rng = np.random.default_rng(1)
    prompts = [tuple(rng.integers(4, 40, size=length).tolist()) for length in (3, 9, 1, 6, 9, 12)]
    prompts = [prompts[i] for i in (0, 1, 2, 3, 4, 5, 0, 1, 0, 5, 2)]
    uniforms = rng.random((len(prompts), 8))
    done = complete(model, prompts, uniforms, settings)
    expected = [naive(model, prompt, row, settings) for prompt, row in zip(prompts, uniforms, strict=True)]
    assert [one.token_ids for one in done] == expected
    assert len({len(one) for one in expected}) > 1, "some replies should end early"
    alone = [complete(model, [prompt], uniforms[[i]], settings)[0] for i, prompt in enumerate(prompts)]
    check_written(alone, done, 2e-5)


@pytest.mark.parametrize("name", list(MODELS))
def test_first_logits_agree_with_unpadded_passes(name):
    prompts = [(5, 6, 7), (8,), (9, 10, 11, 12, 13, 14), (8, 9)]
    logits = first_logits(MODELS[name], prompts, decoding(max_new_tokens=1, batch_size=3))
    for prompt, row in zip(prompts, logits, strict=True):
        with torch.no_grad():
            alone = MODELS[name](input_ids=torch.tensor([prompt])).logits[0, -1]
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=1e-5)


class Only:
    """Allows the same tokens at every place."""

    def __init__(self, *tokens):
        self.tokens = tokens

    def allowed(self, token_ids):
        return self.tokens


@pytest.mark.parametrize("steps", [1, 2])
def test_a_restriction_takes_the_other_tokens_out_of_the_distribution(steps):
    # 0.1, 0.2, 0.7 without the last token: 1/3 and 2/3.
    table = torch.log(torch.tensor([[0.1, 0.2, 0.7]] * 3)).tolist()
    uniforms = np.array([[0.32] * 2, [0.34] * 2, [0.32] * 2])
    one, two, free = LoopSampler(Chain(table)).write(
        [(1,)] * 3, uniforms[:, :steps], decoding(max_new_tokens=steps, end=-1), [Only(0, 1), Only(0, 1), None]
    )
    assert (one.token_ids, two.token_ids, free.token_ids) == ([0] * steps, [1] * steps, [2] * steps)
    assert one.logprobs == pytest.approx([np.log(1 / 3)] * steps, abs=1e-6)
    assert two.logprobs == pytest.approx([np.log(2 / 3)] * steps, abs=1e-6)
    assert free.logprobs == pytest.approx([np.log(0.7)] * steps, abs=1e-6)
    assert (one.allowed, free.allowed) == ([(0, 1)] * steps, [])
    # Greedy: the most probable of those that are allowed.
    greedy = decoding(temperature=0.0, max_new_tokens=steps, end=-1)
    assert LoopSampler(Chain(table)).write([(1,)], None, greedy, [Only(0, 1)])[0].token_ids == [1] * steps


def test_mixed_precision_decodes_with_a_copy_that_is_cast_once_and_follows_the_weights():
    casts = []

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), given=None):
            given = given or {}
            if function is torch.ops.aten._to_copy.default and given.get("dtype") is torch.bfloat16:
                casts.append(tuple(arguments[0].shape))
            return function(*arguments, **given)

    sizes = {"vocab_size": 13, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    model = small_model(**sizes, num_attention_heads=2, initializer_range=0.02)
    sampler, settings = LoopSampler(model), Decoding(0.0, 4, lambda ids: False, 0, 64, torch.bfloat16)
    with Counting():
        sampler.follow(model, 0)
        first = sampler.write([(1, 2, 3)], None, settings)
        assert casts.count(tuple(model.model.layers[0].mlp.gate_proj.weight.shape)) == 7  # all are 16 x 16
        casts.clear()
        assert sampler.write([(1, 2, 3)], None, settings) == first
        lanes = sampler.continuous(settings)
        lanes.put(Request(0, (1, 2, 3), None))
        assert lanes.get()[0][1].token_ids == first[0].token_ids
        assert (16, 16) not in casts
    played = sampler.playing(torch.bfloat16)
    assert {keys.dtype for keys in batch.KeyedBatch(played, [(1, 2, 3)]).keys} == {torch.bfloat16}
    assert {weight.dtype for weight in played.parameters()} == {torch.bfloat16}
    assert first == complete(copy.deepcopy(model).to(torch.bfloat16), [(1, 2, 3)], None, settings)
    with torch.no_grad():
        model.lm_head.weight.neg_()
    sampler.follow(model, 1)
    assert sampler.write([(1, 2, 3)], None, settings) != first
    assert sampler.playing(torch.bfloat16) is played
    assert sampler.playing(None) is model


def test_prompts_are_read_in_passes_of_so_many_tokens(monkeypatch):
    model, settings = MODELS["qwen"], Decoding(0.8, 6, lambda ids: ids[-1] % 5 == 3, 0, 64)
    rng = np.random.default_rng(2)
    prompts = [(k + 4, *rng.integers(4, 40, size=k).tolist()) for k in (3, 9, 1, 6, 9, 12)]
    uniforms = rng.random((len(prompts), 6))
    expected = [one.token_ids for one in complete(model, prompts, uniforms, settings)]
    read = []
    hook = model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["input_ids"].numel()), with_kwargs=True
    )
    monkeypatch.setattr(batch, "READ_TOKENS", 18)
    try:
        found = LoopSampler(model, reuse=True).write(prompts, uniforms, settings)
    finally:
        hook.remove()
    assert [one.token_ids for one in found] == expected
    assert read[4:8] == [13, 10, 9, 13]  # behind the looks at the model: lengths 2, 4 and 7; 10; 9 of 10; 13


def test_a_loop_of_ones_own_is_kept_under_other_settings_and_refused_over_another_model():
    policy = tiny_policy(["P"], seed=0, layers=1)

    class Noted(LoopSampler):
        pass

    sampler = Noted(policy.model)
    one = HuggingFacePolicy(policy.model, policy.tokenizer, sampler=sampler)
    assert one.with_settings(temperature=0.5).sampler is sampler
    with pytest.raises(TypeError, match=r"Noted .*writes with the model it was made with"):
        one.with_model(copy.deepcopy(policy.model))
    assert type(policy.with_model(copy.deepcopy(policy.model)).sampler) is LoopSampler
