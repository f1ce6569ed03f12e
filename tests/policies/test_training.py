"""Precision, dropout and recomputed activations: what has to hold before and while a model is trained."""

import pytest
import torch
from torch import Tensor, nn

from policies.scoring.packed import score_packed
from policies.tiny import tiny_policy
from policies.training import (
    check_no_dropout,
    check_trainable,
    fingerprint,
    frozen,
    load_trained_state,
    recomputed_activations,
    trained_beside,
    trained_state,
)
from tests.policies.small_models import small_model
from tests.refusals import refuses

PROMPTS, REPLIES = [(5, 6, 7, 8, 9, 1), (8, 4, 4, 1)], [(4, 2, 1), (5, 6, 7)]


def make(**options):  # type: ignore[no-untyped-def]
    sizes = {"vocab_size": 20, "intermediate_size": 64, "num_hidden_layers": 3, "initializer_range": 0.02}
    return small_model(**sizes, num_attention_heads=2, num_key_value_heads=1, **options)


def test_bits_dropout_and_modes() -> None:
    model = make()
    check_trainable(model)
    check_trainable(make().double())
    words = r"embed_tokens.weight is bfloat16.*dtype=torch.float32.*adapter"
    refuses(ValueError, words, check_trainable, make().bfloat16())
    refuses(ValueError, "no weight of the model is trainable", lambda: check_trainable(model.requires_grad_(False)))
    half = make().bfloat16().requires_grad_(False)
    half.lm_head = nn.Linear(32, 20, bias=False)
    check_trainable(half)  # what is frozen may have any type
    check_no_dropout(make())
    refuses(ValueError, "layers.0.self_attn has a dropout of 0.1", check_no_dropout, make(attention_dropout=0.1))
    refuses(ValueError, "transformer.drop has a dropout of 0.2", check_no_dropout, small_model("GPT2", embd_pdrop=0.2))
    with pytest.raises(ValueError, match="dropout"), recomputed_activations(make(attention_dropout=0.1)):
        pytest.fail("the block must not run")
    model = make()
    with pytest.raises(KeyError), recomputed_activations(model):
        raise KeyError
    assert not any(module.training for module in model.modules())


def kept_and_gradients(model):  # type: ignore[no-untyped-def]
    kept = 0

    def pack(value: Tensor) -> Tensor:
        nonlocal kept
        kept += value.nbytes
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        logprobs = score_packed(model, PROMPTS, REPLIES).logprobs
    return kept, logprobs.detach(), torch.autograd.grad(logprobs.sum(), list(model.parameters()))


def test_recomputed_activations_are_fewer_and_have_the_same_gradients() -> None:
    model = make()
    plain, logprobs, gradients = kept_and_gradients(model)
    with recomputed_activations(model):
        assert model.training
        fewer, same, again = kept_and_gradients(model)
    assert not model.training
    assert torch.equal(same, logprobs)
    assert fewer < plain / 3
    for one, other in zip(again, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * float(other.abs().max()))
    assert kept_and_gradients(model)[0] == plain  # and nothing stays switched on


def test_frozen_policies_stay_what_they_were() -> None:
    policy = tiny_policy(["up down"], seed=0, layers=1, max_new_tokens=3)
    rows = [policy.encode("up")], [(5, 6, 7)]
    before = policy.score(*rows).logprobs.detach().clone()
    exact, rounded = frozen(policy), frozen(policy, torch.bfloat16)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    assert float((policy.score(*rows).logprobs - before).detach().abs().max()) > 0.05
    assert torch.equal(exact.score(*rows).logprobs, before)
    assert not exact.score(*rows).logprobs.requires_grad
    assert {weight.dtype for weight in rounded.model.parameters()} == {torch.bfloat16}
    assert 0 < float((rounded.score(*rows).logprobs - before).abs().max()) < 0.05
    # Tied weights stay one.
    assert rounded.model.lm_head.weight is rounded.model.model.embed_tokens.weight
    policy = tiny_policy(["up down"], seed=0, layers=2, max_new_tokens=3)
    policy.model.model.layers[0].requires_grad_(False)
    rows = [policy.encode("up")], [(5, 6, 7)]
    before = policy.score(*rows).logprobs.detach().clone()
    twin = trained_beside(policy)
    for (name, ours), theirs in zip(twin.model.named_parameters(), policy.model.parameters(), strict=True):
        assert (ours is theirs) == name.startswith("model.layers.0.")
    with torch.no_grad():
        for weight in twin.model.parameters():
            weight += 0.1 * weight.requires_grad
    assert torch.equal(policy.score(*rows).logprobs, before)
    assert float((twin.score(*rows).logprobs - before).detach().abs().max()) > 0.01
    model = make()
    assert trained_state(model).keys() == model.state_dict().keys()
    model.model.embed_tokens.requires_grad_(False)
    state = {name: value.clone() for name, value in trained_state(model).items()}
    assert "model.embed_tokens.weight" not in state
    other = make()
    other.model.embed_tokens.requires_grad_(False)
    with torch.no_grad():
        for weight in other.parameters():
            weight += 1
    load_trained_state(other, state)
    assert torch.equal(other.lm_head.weight, model.lm_head.weight)
    assert torch.equal(other.model.embed_tokens.weight, model.model.embed_tokens.weight + 1)
    words = "another model: 'model.embed_tokens.weight' is in only one"
    refuses(ValueError, words, load_trained_state, make(), state)
    state["lm_head.weight"] = torch.zeros(1)
    refuses(ValueError, r"lm_head.weight has shape \[20, 32\], the state \[1\]", load_trained_state, other, state)
    model = make()
    found = fingerprint(model.named_parameters())
    assert found == fingerprint(make().named_parameters())
    assert found == fingerprint(make().bfloat16().named_parameters())
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] += 0.1
    assert found != fingerprint(model.named_parameters())
