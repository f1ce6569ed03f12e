"""Adapters: a fresh one changes nothing, a trained one can be switched off, saved, loaded and merged."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.outside.text import DataError
from policies.huggingface import HuggingFacePolicy
from policies.lora import BASE_FOLDER, LoraSettings, add_lora, has_adapter, merge_lora
from policies.tiny import tiny_policy
from policies.training import check_trainable, frozen, recomputed_activations, trained_state
from tests.cases import cases
from tests.policies.agreement import check_scores
from tests.refusals import refuses

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
    one, same, other = (trained_state(add_lora(plain(), SMALL, seed=seed).model) for seed in (3, 3, 4))
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
    assert len(trained_state(policy.model)) == 2 * 2 * 2
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
