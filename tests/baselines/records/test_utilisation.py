"""Arithmetic of an update, against counts made by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch

from baselines.records import utilisation
from baselines.records.utilisation import (
    PeakMemory,
    decode_seconds,
    forward_flops,
    peak_bandwidth,
    peak_flops,
    training_flops,
    update_figures,
)
from policies.vision.tiny import tiny_vision_policy
from tests.baselines.corridor_learning import small_policy


def by_hand(vocabulary: int) -> tuple[int, int]:
    # Width 16, one layer, 2 heads and 1 key-value head of size 8, feed-forward 16: products per token with
    # queries 16x16, keys and values 16x8 each, output 16x16, three feed-forward matrices of 16x16, and the head.
    weights = 256 + 2 * 128 + 256 + 3 * 256 + 16 * vocabulary
    return weights, 4 * 1 * 16


def test_the_arithmetic_of_a_training_pass_by_hand() -> None:
    policy = small_policy()
    weights, attention = by_hand(len(policy.tokenizer))
    # Forward and backward of all weights is 6 per weight and token; attention 3 * a S^2 / 2, S = 3 and 5.
    assert training_flops(policy.model, [3, 5]) == 6 * weights * 8 + 1.5 * attention * (9 + 25)


def test_frozen_weights_have_no_gradients_of_their_own() -> None:
    policy = small_policy()
    weights, attention = by_hand(len(policy.tokenizer))
    policy.model.requires_grad_(False)
    assert training_flops(policy.model, [4]) == 4 * weights * 4 + 1.5 * attention * 16


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_of_a_model_that_sees_the_language_model_is_counted(monkeypatch: pytest.MonkeyPatch, family: Any) -> None:
    pytest.importorskip("transformers", minversion="5.23")  # earlier releases are not known to see alike
    policy = tiny_vision_policy(["up"], seed=0, family=family, layers=1, width=16, heads=2, kv_heads=1, mlp=16)
    weights, attention = by_hand(len(policy.tokenizer))  # of the same sizes
    monkeypatch.setattr(utilisation, "peak_flops", lambda device: 1e6)
    counted = 6 * weights * 8 + 1.5 * attention * (9 + 25)
    found = update_figures(policy.model, [3, 5], epochs=1, seconds=1.0)
    assert found["share_peak_flops"] == pytest.approx(100 * counted / 1e6)
    assert forward_flops(policy.model, [3, 5]) == counted / 3
    read = 2 * weights + 3 * 10 * 32
    assert decode_seconds(policy.model, 3, 10, bandwidth=1.0, peak=1e30) == pytest.approx(read)


def test_where_no_peak_is_known_nothing_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small_policy()
    assert peak_flops(torch.device("cpu")) is None
    assert update_figures(policy.model, [10, 30], epochs=2, seconds=4.0) == {"update_tokens_per_second": 20.0}
    monkeypatch.setattr(utilisation, "peak_flops", lambda device: 1e6)
    found = update_figures(policy.model, [10, 30], epochs=2, seconds=4.0)
    assert found["share_peak_flops"] == pytest.approx(100 * 2 * training_flops(policy.model, [10, 30]) / 4e6)


def test_devices_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"H100 80GB HBM3": 989e12, "H100 PCIe": 756e12, "A10": 125e12, "A10G": 70e12, "T4": None}
    for name, peak in known.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: f"NVIDIA {name}")
        assert peak_flops(torch.device("cuda")) == peak


def test_a_decode_step_reads_weights_and_cache_once_and_computes_with_both() -> None:
    policy = small_policy()
    weights, attention = by_hand(len(policy.tokenizer))
    # Keys and values of one layer and one head of size 8, two bytes each: 32 bytes per token of context.
    read = 2 * weights + 3 * 10 * 32
    assert decode_seconds(policy.model, 3, 10, bandwidth=1.0, peak=1e30) == pytest.approx(read)
    computed = 2 * weights * 3 + attention * 3 * 10
    assert decode_seconds(policy.model, 3, 10, bandwidth=1e30, peak=1.0) == pytest.approx(computed)


def test_recomputation_adds_a_forward_pass() -> None:
    policy = small_policy()
    weights, attention = by_hand(len(policy.tokenizer))
    assert forward_flops(policy.model, [3, 5]) == 2 * weights * 8 + attention * (9 + 25) / 2
    assert 3 * forward_flops(policy.model, [7]) == training_flops(policy.model, [7])


def test_a_devices_bandwidth_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, speed in (("NVIDIA H200", 4.8e12), ("NVIDIA A100-SXM4-80GB", 2.039e12), ("NVIDIA T4", None)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert peak_bandwidth(torch.device("cuda")) == speed
    assert peak_bandwidth(torch.device("cpu")) is None


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel of this system keeps no peak")
def test_a_processors_peak_is_what_the_process_held() -> None:
    memory = PeakMemory(torch.device("cpu"))
    block = torch.ones(2**26)  # a quarter of a GiB
    del block
    memory.end("update")
    memory.end("rest")
    apart = memory.figures["memory_update_resident"] - memory.figures["memory_rest_resident"]
    assert apart == pytest.approx(0.25, abs=0.02)
