"""What an update's memory should be, part by part, from the shape of a model alone."""

from __future__ import annotations

from typing import Any

import torch

from policies.lora import has_adapter

GIB = 2**30
#: Numbers that a layer keeps per token between forward and backward pass, in the widths of the feed-forward part and
#: of the residual stream: gate, up, their activation and product; norms, queries, keys, values, output, residuals.
_LAYER_MLP, _LAYER_WIDTH = 4.0, 12.7
#: Positions of the output head per piece, and float32 copies of their logits that are alive at once.
_HEAD, _HEAD_COPIES = 512, 5


def expected_memory(policy: Any, tokens: int, *, reference: bool) -> dict[str, float]:
    """Return the parts of an update's peak in GiB: recomputed activations, AdamW, packed passes.

    Args:
        policy: with its model.
        tokens: of a pass.
        reference: whether a bfloat16 copy of the start is kept; with an adapter there is none.
    """
    model, config = policy.model, policy.model.config
    weights = list(model.parameters())
    trained = sum(weight.numel() for weight in weights if weight.requires_grad)
    every = sum(weight.numel() for weight in weights)
    cast = sum(weight.numel() for weight in weights if weight.dtype == torch.float32 and weight.dim() == 2)
    layer = _LAYER_MLP * config.intermediate_size + _LAYER_WIDTH * config.hidden_size
    parts = {
        "weights": sum(weight.numel() * weight.element_size() for weight in weights),
        "gradients": 4 * trained,
        "optimiser": 8 * trained,
        "16-bit copies": 2 * cast if policy.precision == torch.bfloat16 else 0,
        "reference": 2 * every if reference and not has_adapter(model) else 0,
        "layer inputs": 2 * config.num_hidden_layers * config.hidden_size * tokens,
        "one layer": 2 * layer * tokens,  # the one that is being computed again
        "output head": 4 * _HEAD_COPIES * min(_HEAD, tokens) * config.vocab_size,
    }
    return {name: value / GIB for name, value in parts.items()}
