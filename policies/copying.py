"""Initial weights with which a small transformer soon learns to copy words from its prompt."""

from __future__ import annotations

import math
from typing import Any

import torch

#: Largest score of the token before the current one in the head that looks back.
_SHARPNESS = 12.0
#: What remains of the random weights of that head's queries and keys, so that it can still learn to look elsewhere.
_KEPT = 0.1
#: Scale of queries and keys that find the same token again.
_MATCH = 0.7


def start_copying(model: Any, *, seed: int) -> None:
    """Change the attention weights of an untrained model so that copying needs not be discovered.

    Commands name things that the prompt names: a product, a person, a room. Pretrained models copy by attention heads
    that look for a token seen before and repeat what followed it. A model of two or three layers with random weights
    finds that late, and nothing else improves until it does. Here

    * the first head of the first layer begins by looking at the token before the current one;
    * the values of every head, seen through its output weights, begin as the token itself, in a random subspace;
    * queries and keys of all layers but the first begin alike, so that a token finds itself.

    All of it is a beginning: every weight is trained as before.

    Args:
        model: an untrained causal language model with Llama's module names, rotary positions and biases in its query
            and key projections (the Qwen2 architecture).
        seed: of the random subspaces.

    Source:
        Olsson et al., "In-context Learning and Induction Heads", 2022; queries and keys, values and outputs alike:
        Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", ICML 2023.
    """
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.hidden_size
    with torch.no_grad():
        for number, layer in enumerate(model.model.layers):
            attention = layer.self_attn
            size = attention.q_proj.weight.shape[0] // heads
            for kv in range(kv_heads):
                values, keys = (_subspace(width, size, generator) for _ in range(2))
                key_rows = slice(kv * size, (kv + 1) * size)
                attention.v_proj.weight[key_rows] = values
                if number:
                    attention.k_proj.weight[key_rows] = _MATCH * keys
                for head in range(kv * heads // kv_heads, (kv + 1) * heads // kv_heads):
                    rows = slice(head * size, (head + 1) * size)
                    attention.o_proj.weight[:, rows] = values.T
                    if number:
                        attention.q_proj.weight[rows] = _MATCH * keys
        _look_back(model.model.layers[0].self_attn, model.model.rotary_emb.inv_freq)


def _subspace(width: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw a (size, width) matrix with orthonormal rows, or columns where a head is wider than the model."""
    drawn = torch.randn(max(width, size), min(width, size), generator=generator)
    basis: torch.Tensor = torch.linalg.qr(drawn)[0]
    return basis.T if size <= width else basis


def _look_back(attention: Any, frequencies: torch.Tensor) -> None:
    """Let the first head prefer the token before: its query's bias is its key's, turned by one position."""
    half = len(frequencies)
    length = math.sqrt(_SHARPNESS * math.sqrt(2 * half) / half)
    attention.q_proj.weight[: 2 * half] *= _KEPT
    attention.k_proj.weight[: 2 * half] *= _KEPT
    attention.q_proj.bias[: 2 * half] = length * torch.cat([torch.cos(frequencies), -torch.sin(frequencies)])
    attention.k_proj.bias[: 2 * half] = length * torch.cat([torch.ones(half), torch.zeros(half)])
