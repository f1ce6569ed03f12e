"""What is trained: precision, dropout, activations computed anew; adapters: switched off, saved, loaded, merged."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agentgym.outside.text import DataError
from policies import training
from policies.huggingface import HuggingFacePolicy
from policies.lora import BASE_FOLDER, LoraSettings, add_lora, has_adapter, merge_lora
from policies.scoring.packed import score_packed
from policies.tiny import tiny_policy
from policies.training import check_no_dropout, check_trainable, frozen, load_trained_state, recomputed_activations
from tests.cases import cases
from tests.policies.agreement import check_scores
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
    twin = training.trained_beside(policy)
    for (name, ours), theirs in zip(twin.model.named_parameters(), policy.model.parameters(), strict=True):
        assert (ours is theirs) == name.startswith("model.layers.0.")
    with torch.no_grad():
        for weight in twin.model.parameters():
            weight += 0.1 * weight.requires_grad
    assert torch.equal(policy.score(*rows).logprobs, before)
    assert float((twin.score(*rows).logprobs - before).detach().abs().max()) > 0.01
    model = make()
    assert training.trained_state(model).keys() == model.state_dict().keys()
    model.model.embed_tokens.requires_grad_(False)
    state = {name: value.clone() for name, value in training.trained_state(model).items()}
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
    found = training.fingerprint(model.named_parameters())
    assert found == training.fingerprint(make().named_parameters())
    assert found == training.fingerprint(make().bfloat16().named_parameters())
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] += 0.1
    assert found != training.fingerprint(model.named_parameters())


BOARD, OTHER = "#####\n#PXO#\n#####", "#####\n#_PS#\n#####"
SMALL = LoraSettings(rank=4, alpha=8.0)


def plain(seed: int = 0, **settings: Any) -> HuggingFacePolicy:
    given: dict[str, Any] = {"max_new_tokens": 4, "prefix": "", "suffix": "", "stop": ()}
    return tiny_policy([BOARD], seed=seed, layers=2, initial_scale=0.1, **(given | settings))


def adapter() -> HuggingFacePolicy:
    return add_lora(plain(), SMALL, seed=0)


def rows(policy: HuggingFacePolicy) -> tuple[list[Any], list[Any]]:
    return [policy.encode(BOARD), policy.encode(OTHER)], [(5, 6, 7), (9,)]


def trained(policy: HuggingFacePolicy, steps: int = 3) -> HuggingFacePolicy:
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        (-policy.score(*rows(policy)).logprobs.sum()).backward()
        optimizer.step()
    return policy


def logprobs(policy: Any) -> torch.Tensor:
    with torch.no_grad():
        return policy.score(*rows(policy)).logprobs


def test_adapters_start_and_are_switched_off() -> None:
    base = plain()
    before = logprobs(base)
    replies = base.act([BOARD, OTHER], {}, np.random.default_rng(0))
    policy = add_lora(base, SMALL, seed=0)
    assert torch.equal(logprobs(policy), before)
    assert policy.act([BOARD, OTHER], {}, np.random.default_rng(0)) == replies
    assert policy.settings == base.settings
    names = {name.rpartition(".")[0] for name, weight in policy.model.named_parameters() if weight.requires_grad}
    # Two layers of seven linear maps with two matrices each; neither embeddings nor head.
    assert len(names) == 2 * 7 * 2
    assert all("lora" in name for name in names)
    engine: Any = object()
    policy = add_lora(plain(sampler=engine), SMALL, seed=0)
    assert policy.sampler is engine
    assert merge_lora(policy).sampler is engine
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    one, same, other = (training.trained_state(add_lora(plain(), SMALL, seed=seed).model) for seed in (3, 3, 4))
    assert torch.rand(1) == expected
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    before, policy = logprobs(plain()), adapter()
    reference = frozen(policy)
    trained(policy)
    assert float((logprobs(policy) - before).abs().max()) > 0.1
    assert torch.equal(logprobs(reference), before)
    assert not reference.score(*rows(policy)).logprobs.requires_grad
    packed = reference.score(*rows(policy), tokens_per_pass=50, entropy=False).logprobs
    torch.testing.assert_close(packed, before, atol=1e-5, rtol=0)
    # Afterwards it is on again, and still trainable.
    assert float((logprobs(policy) - before).abs().max()) > 0.1
    assert policy.score(*rows(policy)).logprobs.requires_grad


def test_adapters_agree_are_precise_and_merge() -> None:
    policy = trained(adapter())
    # Prompts of unequal length are padded on the left: positions must reach the model through the adapter.
    replies = policy.act([BOARD, "P", OTHER, "up\ndown left"], {}, np.random.default_rng(1))
    check_scores(policy, replies)
    check_scores(policy, replies, tokens_per_pass=60)
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    expected = torch.autograd.grad(policy.score(*rows(policy)).logprobs.sum(), weights)
    with recomputed_activations(policy.model):
        found = torch.autograd.grad(policy.score(*rows(policy)).logprobs.sum(), weights)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6 * float(other.abs().max()), rtol=0)
    before = logprobs(policy)
    merged = merge_lora(policy)
    assert not has_adapter(merged.model)
    torch.testing.assert_close(logprobs(merged), before, atol=1e-5, rtol=0)
    assert torch.equal(logprobs(policy), before)  # which was not touched
    refuses(ValueError, "no adapter to merge", merge_lora, merged)
    base = plain()
    base.model.bfloat16()
    refuses(ValueError, "train an adapter", check_trainable, base.model)
    policy = add_lora(base, SMALL, seed=0)
    check_trainable(policy.model)
    kinds = {weight.requires_grad: weight.dtype for weight in policy.model.parameters()}
    assert kinds == {True: torch.float32, False: torch.bfloat16}
    before = logprobs(policy)
    assert not torch.equal(logprobs(trained(policy)), before)
    policy = add_lora(plain(), dataclasses.replace(SMALL, targets=("q_proj", "v_proj")), seed=0)
    assert len(training.trained_state(policy.model)) == 2 * 2 * 2
    with pytest.raises(ValueError, match=r"no adapter can be added for targets=\('nothing',\)"):
        add_lora(plain(), dataclasses.replace(SMALL, targets=("nothing",)), seed=0)
    assert copy.deepcopy(policy).settings == policy.settings


def saved(folder: Path, base: Path | None) -> HuggingFacePolicy:
    if base is None:
        policy = plain()
    else:
        plain().save_pretrained(base)
        policy = HuggingFacePolicy.from_pretrained(base, device="cpu")
    policy = trained(add_lora(policy, SMALL, seed=0))
    policy.save_pretrained(folder)
    return policy


@pytest.mark.parametrize("named", [True, False], ids=["base in a folder", "base made here"])
def test_an_adapter_is_saved_without_its_base_and_loaded_on_it(tmp_path: Path, named: bool) -> None:
    folder, base = tmp_path / "adapter", tmp_path / "start"
    policy = saved(folder, base if named else None)
    assert (folder / "adapter_model.safetensors").stat().st_size < 200_000
    assert not list(folder.glob("model*"))
    assert (folder / BASE_FOLDER).is_dir() != named
    if not named:  # what is self-contained may move
        folder = folder.rename(tmp_path / "moved")
    again = HuggingFacePolicy.from_pretrained(folder, device="cpu")
    assert torch.equal(logprobs(again), logprobs(policy))
    assert again.settings == policy.settings
    assert again.act([BOARD], {}, np.random.default_rng(2)) == policy.act([BOARD], {}, np.random.default_rng(2))
    # It can be trained on, exactly as the first one.
    assert torch.equal(logprobs(trained(again)), logprobs(trained(policy)))
    merge_lora(again).save_pretrained(tmp_path / "merged")
    whole = HuggingFacePolicy.from_pretrained(tmp_path / "merged", device="cpu")
    torch.testing.assert_close(logprobs(whole), logprobs(again), atol=1e-5, rtol=0)


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    folder, base = tmp_path / "adapter", tmp_path / "start"
    saved(folder, base)
    plain(seed=1).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match=r"trained on other weights than those in '.*other'.*start"):
        HuggingFacePolicy.from_pretrained(folder, base=tmp_path / "other", device="cpu")
    (folder / "adapter_base.json").unlink()  # as peft writes it: shapes are all there is to go by
    tiny_policy([BOARD], seed=0, layers=2, width=128).save_pretrained(tmp_path / "wide")
    with pytest.raises(ValueError, match="does not fit the model in"):
        HuggingFacePolicy.from_pretrained(folder, base=tmp_path / "wide", device="cpu")
    base.rename(tmp_path / "gone")
    refuses(DataError, r"needs its base '.*start': pass base=", HuggingFacePolicy.from_pretrained, folder, device="cpu")
    assert has_adapter(HuggingFacePolicy.from_pretrained(folder, base=tmp_path / "gone", device="cpu").model)


def test_a_damaged_adapter_is_explained(tmp_path: Path) -> None:
    policy = saved(tmp_path, None)
    refuses(FileExistsError, r"holds an adapter .*: name another folder", plain().save_pretrained, tmp_path)
    for file, content, words in (
        ("adapter_model.safetensors", "no", "does not fit the model"),
        ("adapter_config.json", '{"peft_type": "PREFIX_TUNING"}', "type 'PREFIX_TUNING', expected 'LORA'"),
        ("adapter_config.json", "{", "adapter_config.json cannot be read as JSON"),
    ):
        (tmp_path / file).write_text(content)
        refuses(ValueError, words, HuggingFacePolicy.from_pretrained, tmp_path, device="cpu")
    refuses(ValueError, "has an adapter already", add_lora, policy, SMALL, seed=0)


@cases(
    "changes, words",
    ({"rank": 0}, "rank must be an integer of at least 1, got 0"),
    ({"alpha": 0.0}, "alpha must be above 0"),
    ({"targets": ()}, "targets must be names of layers"),
    ({"dropout": 0.1}, "dropout must be 0, got 0.1"),
)
def test_wrong_settings_are_explained(changes: dict[str, Any], words: str) -> None:
    refuses(ValueError, words, dataclasses.replace, SMALL, **changes)


def test_a_model_that_was_cast_in_memory_plays_what_it_plays_when_it_is_read_again(tmp_path: Path) -> None:
    policy = plain()
    policy.model.to(torch.bfloat16)  # rounds the rotary frequencies, which are in no file
    adapted = add_lora(policy, SMALL, seed=0)
    adapted.save_pretrained(tmp_path)
    again = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu")
    buffers = [dict(each.model.named_buffers()) for each in (adapted, again)]
    assert {value.dtype for value in buffers[0].values()} == {torch.float32}
    assert buffers[0].keys() == buffers[1].keys()
    assert all(torch.equal(value, buffers[1][name]) for name, value in buffers[0].items())
    assert torch.equal(logprobs(adapted), logprobs(again))


def test_replies_are_written_with_sums_of_base_and_adapter_and_no_weight_drifts() -> None:
    policy = adapter()
    before = {name: value.clone() for name, value in policy.model.state_dict().items() if "lora" not in name}
    for _ in range(3):
        trained(policy, steps=1)
        policy.forget()
        replies = policy.act([BOARD, OTHER], {}, np.random.default_rng(0))
        played = policy.sampler.playing(None)  # type: ignore[attr-defined]
        assert not has_adapter(played)
        assert not any("lora" in name for name, _ in played.named_modules())
        check_scores(policy, replies)
    assert all(torch.equal(policy.model.state_dict()[name], value) for name, value in before.items())
    with policy.model.disable_adapter():  # another state of the same weights
        policy.act([BOARD], {}, np.random.default_rng(0))
        assert policy.sampler.playing(None) is policy.model  # type: ignore[attr-defined]
    policy.model.get_base_model().hf_quantizer = object()  # sums would not be what a quantised base computes
    policy.forget()
    policy.act([BOARD], {}, np.random.default_rng(0))
    assert policy.sampler.playing(None) is policy.model  # type: ignore[attr-defined]
