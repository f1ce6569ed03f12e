"""Rollouts that read no text twice, beside those that read every prompt from its beginning."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

from policies.decode import batch
from policies.decode.batch import takes_runs
from policies.decode.kept import KeptKeys
from policies.decode.loop import LoopSampler
from policies.decode.sampler import Decoding

SETTINGS = Decoding(0.8, 6, lambda ids: ids[-1] % 5 == 3, 0, 4)


def qwen(**options):
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 40,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "initializer_range": 0.5,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
    return Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, **options)).eval()


def play(sampler, *, turns=4, rows=6, forget=False):
    """Transcripts of two tasks: each prompt goes on behind the last and its reply."""
    rng = np.random.default_rng(0)
    prompts = [tuple(rng.integers(4, 40, size=9).tolist())[: 9 - row % 2] for row in range(2)] * (rows // 2)
    written, distinct = [], set()
    for _ in range(turns):
        done = sampler.write(prompts, rng.random((rows, 6)), SETTINGS)
        written += done
        whole = [(*prompt, *one.token_ids) for prompt, one in zip(prompts, done, strict=True)]
        distinct |= {ids[:end] for ids in whole for end in range(1, len(ids))}
        prompts = [(*ids, *rng.integers(4, 40, size=3).tolist()) for ids in whole]
        if forget:
            sampler.forget()
    return written, distinct


def test_turns_are_read_once_and_the_replies_are_those_of_whole_prompts():
    model = qwen()
    naive, reusing = LoopSampler(model, reuse=False), LoopSampler(model, reuse=True)
    expected, distinct = play(naive)
    found, _ = play(reusing)
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    counts = reusing.counts
    assert counts.prompts == naive.counts.prompts
    assert counts.read + counts.written <= 1.1 * len(distinct)  # equal prompts whose replies begin alike
    assert naive.counts.read > 3 * counts.read
    forgetful = LoopSampler(model, reuse=True)
    assert [one.token_ids for one in play(forgetful, forget=True)[0]] == [one.token_ids for one in expected]
    assert forgetful.counts.read > 2 * counts.read


def test_replies_of_one_token_are_read_once_as_well():
    model, one = qwen(), Decoding(0.8, 1, lambda ids: True, 0, 4)
    prompts = [tuple(range(4, 10 + row)) for row in range(5)]
    draws = np.random.default_rng(1).random((5, 1))
    naive, reusing = LoopSampler(model, reuse=False), LoopSampler(model, reuse=True)
    expected = [each.token_ids for each in naive.write(prompts, draws, one)]
    assert [each.token_ids for each in reusing.write(prompts, draws, one)] == expected
    assert (reusing.counts.read, naive.counts.read) == (10, 4 * 9 + 10)  # rectangles of four and of one


def test_other_weights_have_other_keys():
    model = qwen()
    sampler, prompt = LoopSampler(model, reuse=True), [tuple(range(4, 12))]
    draws = np.full((1, 6), 0.5)
    sampler.write(prompt, draws, SETTINGS)
    read = sampler.counts.read
    sampler.write(prompt, draws, SETTINGS)
    assert sampler.counts.read == read + 1
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(input_ids=torch.tensor(prompt), labels=torch.tensor(prompt)).loss.backward()
    for change in (optimiser.step, lambda: model.load_state_dict(qwen().state_dict()), model.lm_head.weight.data.neg_):
        change()
        expected = LoopSampler(model, reuse=False).write(prompt, draws, SETTINGS)
        read = sampler.counts.read
        assert sampler.write(prompt, draws, SETTINGS)[0].token_ids == expected[0].token_ids
        assert sampler.counts.read == read + 8


def test_sequences_share_their_beginnings_and_the_oldest_ends_are_dropped():
    def keys(tokens, scale=1.0):
        return torch.tensor(tokens, dtype=torch.float32)[None, None, None, :, None].expand(2, 2, 1, -1, 1) * scale

    token = 4 * 4  # bytes: two layers, keys and values
    kept = KeptKeys(8 * token)
    kept.add((1, 2, 3, 4), keys((1, 2, 3, 4)))
    kept.add((1, 2, 5), keys((1, 2, 5)))  # cuts the first in two
    assert kept.bytes == 5 * token
    count, pieces = kept.find((1, 2, 3, 4, 9))
    assert count == 4
    assert torch.equal(torch.cat(pieces, 3), keys((1, 2, 3, 4)))
    assert kept.find((1, 2, 5))[0] == 2  # the last token is read for its logits
    kept.add((7, 8, 9, 6), keys((7, 8, 9, 6)))
    assert kept.bytes == 8 * token
    assert [kept.find((*tokens, 0))[0] for tokens in ((1, 2, 5), (1, 2, 3, 4), (7, 8, 9, 6))] == [2, 4, 4]
    kept.add((1,) * 20, keys((1,) * 20))  # larger than all
    assert kept.bytes == 8 * token
    kept.at(1)
    assert (kept.bytes, kept.find((1, 2, 3))[0]) == (0, 0)


def hybrid():
    torch.manual_seed(0)
    config = Qwen3_5TextConfig(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, linear_num_key_heads=1, linear_num_value_heads=1, linear_key_head_dim=8,
        linear_value_head_dim=8, layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    return Qwen3_5ForCausalLM(config).eval()


def sliding():
    return qwen(use_sliding_window=True, sliding_window=4, max_window_layers=0)


def test_models_whose_keys_cannot_be_kept_read_whole_prompts_and_say_so_once():
    recurrent = hybrid()
    assert [takes_runs(model) for model in (qwen(), sliding(), recurrent)] == [True, False, False]
    with pytest.warns(UserWarning, match="reads whole prompts"):
        found, _ = play(LoopSampler(recurrent, reuse=True), turns=2)
    expected, _ = play(LoopSampler(recurrent, reuse=False), turns=2)
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]


@pytest.mark.parametrize("make", [sliding, hybrid])
def test_whole_prompts_are_read_in_passes_of_so_many_tokens(make, monkeypatch):
    model, sizes = make(), list[int]()
    expected, _ = play(LoopSampler(model, reuse=False), turns=3)
    monkeypatch.setattr(batch, "READ_TOKENS", 40)
    model.register_forward_pre_hook(lambda _, __, given: sizes.append(given["input_ids"].numel()), with_kwargs=True)
    found, _ = play(LoopSampler(model, reuse=False), turns=3)
    assert [one.token_ids for one in found] == [one.token_ids for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert 20 < max(sizes) <= 40
