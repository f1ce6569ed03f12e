"""Memory of an update by arithmetic, against the sums of real sizes worked out by hand."""

import types

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.gpu.arithmetic import GIB, expected_memory
from benchmarks.gpu.shapes import SHAPES


def on_paper(name, dtype):
    """The model of a shape without memory behind its weights."""
    shape = SHAPES[name]
    with torch.device("meta"):
        model = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.mlp,
                num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
                tie_word_embeddings=shape.tied,
            )
        )  # fmt: skip
    model.to(dtype)
    return types.SimpleNamespace(model=model, precision=torch.bfloat16)


def test_all_weights_of_the_smaller_shape():
    policy = on_paper("1.5B", torch.float32)
    assert sum(weight.numel() for weight in policy.model.parameters()) == 1_543_714_304
    parts = expected_memory(policy, 16_384, reference=True)
    # 1.544e9 weights: 4 bytes each, 4 of gradients, 8 of AdamW are 23.0 GiB; 2 of copies and 2 of the reference.
    assert parts["weights"] + parts["gradients"] + parts["optimiser"] == pytest.approx(23.0, abs=0.01)
    assert parts["16-bit copies"] == pytest.approx(2.875, abs=0.01)
    assert parts["reference"] == pytest.approx(2.875, abs=0.01)
    # 28 layers x width 1,536 x 2 bytes = 0.086 MB per token; one layer with everything 3.10 MB / 28.
    assert parts["layer inputs"] * GIB / 16_384 == 86_016
    assert parts["one layer"] * GIB / 16_384 == pytest.approx(3.10e6 / 28, rel=0.01)
    assert 1e9 < parts["output head"] * GIB < 2e9


def test_an_adapter_keeps_no_reference_and_its_base_no_copies():
    policy = on_paper("7B-lora", torch.bfloat16)
    assert sum(weight.numel() for weight in policy.model.parameters()) == 7_615_616_512
    policy.model.requires_grad_(False)
    policy.model.peft_config = {}  # what an adapter has, without its layers
    policy.model.disable_adapter = None
    parts = expected_memory(policy, 16_384, reference=True)
    assert parts["weights"] == pytest.approx(14.2, abs=0.05)
    assert (parts["gradients"], parts["optimiser"], parts["16-bit copies"], parts["reference"]) == (0, 0, 0, 0)
    assert parts["layer inputs"] * GIB / 16_384 == pytest.approx(0.20e6, rel=0.01)
    assert parts["one layer"] * GIB / 16_384 == pytest.approx(6.77e6 / 28, rel=0.01)
