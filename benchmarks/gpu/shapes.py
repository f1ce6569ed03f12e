"""Models of known shapes with random weights, made on the spot: nothing is downloaded, nothing is stored."""

from __future__ import annotations

import itertools
import string
from dataclasses import dataclass

import torch

from benchmarks.gpu.results import MEASURED, WARMUP, Sizes
from policies.huggingface import HuggingFacePolicy
from policies.lora import LoraSettings, add_lora
from policies.tiny import tiny_tokenizer

_SEED = 0


@dataclass(frozen=True)
class Shape:
    """The Qwen2 architecture in one size, and what is measured with it.

    Attributes:
        width, mlp, layers, heads, kv_heads, vocabulary: of the model.
        tied: whether embedding and output head are one matrix.
        rank: of the adapter; 0: all weights are trained, in float32. The base of an adapter is bfloat16.
        instructions: whether prompts begin with the task's rules: about 800 tokens here.
        sizes: what is measured unless told otherwise.
    """

    width: int
    mlp: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool
    rank: int
    instructions: bool
    sizes: Sizes


_SIZES = Sizes(
    warmup=WARMUP, iterations=MEASURED, groups=4, group_size=8, turns=5, reply_tokens=128, tokens=4096,
    decode_batch=128, decode_context=1000, decode_tokens=64, attention="sdpa", held_out=32,
)  # fmt: skip
_TINY_SIZES = Sizes(
    warmup=WARMUP, iterations=MEASURED, groups=2, group_size=2, turns=2, reply_tokens=4, tokens=512,
    decode_batch=4, decode_context=32, decode_tokens=8, attention="sdpa", held_out=4,
)  # fmt: skip
#: Shapes by name; the large ones are those of Qwen2.5.
SHAPES = {
    "tiny": Shape(32, 64, 2, 2, 1, 512, True, 0, False, _TINY_SIZES),
    "1.5B": Shape(1536, 8960, 28, 12, 2, 151_936, True, 0, True, _SIZES),
    "7B-lora": Shape(3584, 18_944, 28, 28, 4, 152_064, False, 32, True, _SIZES),
}


def make_policy(shape: Shape, sizes: Sizes, device: torch.device) -> HuggingFacePolicy:
    """Return a policy with random weights on a device.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    from transformers import AutoModelForCausalLM, Qwen2Config

    # A word for every token: what the model writes is the text of its tokens and of no others.
    names = map("".join, itertools.product(string.ascii_lowercase, repeat=4))
    plain = len(tiny_tokenizer([]))
    tokenizer = tiny_tokenizer([], list(itertools.islice(names, shape.vocabulary - plain)))
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=32_768,
        rope_theta=1e6,  # type: ignore[call-arg]  # releases 4 and 5 both take this name
        tie_word_embeddings=shape.tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    dtype = torch.bfloat16 if shape.rank else torch.float32
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), device:
        torch.manual_seed(_SEED)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=sizes.attention)
    policy = HuggingFacePolicy(
        model, tokenizer, prefix="<action>", suffix="</action>", max_new_tokens=sizes.reply_tokens
    )
    return add_lora(policy, LoraSettings(shape.rank, 2.0 * shape.rank), seed=_SEED) if shape.rank else policy
