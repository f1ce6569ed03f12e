"""Vision-language models of some 0.2 million parameters, built from a config: nothing is downloaded."""

from collections.abc import Sequence
from typing import Any, Literal

import torch

from policies.tiny import FRAME, tiny_tokenizer
from policies.vision.policy import VisionPolicy, image_processor

START, END, PLACEHOLDER, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"


def tiny_vision_policy(
    texts: Sequence[str], *, seed: int, extra_words: Sequence[str] = ("up", "down", "left", "right"),
    family: Literal["qwen2_5_vl", "qwen3_vl"] = "qwen2_5_vl", patch: int = 8, merge: int = 1, width: int = 64,
    layers: int = 4, heads: int = 4, kv_heads: int = 2, mlp: int = 192, vision_layers: int = 1, positions: int = 2048,
    rope_base: float = 4.0, pieces: Sequence[str] = FRAME, prefix: str = "<action>", suffix: str = "</action>",
    max_new_tokens: int = 1, **settings: Any,
) -> VisionPolicy:  # fmt: skip
    """Build an untrained policy of the Qwen2.5-VL or Qwen3-VL architecture with its own tokenizer.

    Like `policies.tiny.tiny_policy`, whose other arguments it takes, it answers with one token.

    Args:
        texts: examples of what the policy will read, see `policies.tiny.tiny_tokenizer`.
        seed: of the weights; the global torch generator does not change.
        merge: side, in patches, of the square that becomes one placeholder; 2 in published models.
        width: of the residual streams of language model and vision tower.
        kv_heads: key-value heads of the language model.
        mlp: hidden units of a block's feed-forward part, in both.
        rope_base: base of the language model's rotary angles; 4 separates the few rows and columns of a small board;
            100, the default for texts, hardly does.
        prefix: put before every reply, see `policies.huggingface.Settings`.
        max_new_tokens: most tokens that the model writes. **settings: further arguments of
        `policies.vision.policy.VisionPolicy`.
    """
    import transformers

    tokenizer = tiny_tokenizer(texts, extra_words, pieces=pieces)
    tokenizer.add_special_tokens({"additional_special_tokens": [START, END, PLACEHOLDER, VIDEO]}, False)
    start, end, placeholder, video = tokenizer.convert_tokens_to_ids([START, END, PLACEHOLDER, VIDEO])
    half = width // heads // 2
    side = half // 2
    text: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "intermediate_size": mlp,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width // heads,
        "max_position_embeddings": positions,
        # Numbers of a head's angles that encode time (a board has none), height and width.
        "rope_parameters": {
            "rope_type": "default", "rope_theta": rope_base, "mrope_section": [half - 2 * side, side, side],
        },
        "initializer_range": width**-0.5,
        "tie_word_embeddings": True,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
    }  # fmt: skip
    tower: dict[str, Any] = {
        "depth": vision_layers, "hidden_size": width, "intermediate_size": mlp, "num_heads": heads,
        "patch_size": patch, "spatial_merge_size": merge, "out_hidden_size": width, "initializer_range": width**-0.5,
    }  # fmt: skip
    if family == "qwen2_5_vl":
        tower |= {"fullatt_block_indexes": list(range(vision_layers)), "window_size": 64 * patch}
        config: Any = transformers.Qwen2_5_VLConfig
        kind: Any = transformers.Qwen2_5_VLForConditionalGeneration
    else:
        text["rope_parameters"]["mrope_interleaved"] = True
        tower |= {"deepstack_visual_indexes": [vision_layers - 1], "num_position_embeddings": 64}
        config, kind = transformers.Qwen3VLConfig, transformers.Qwen3VLForConditionalGeneration
    made = config(
        text_config=text, vision_config=tower, image_token_id=placeholder, video_token_id=video,
        vision_start_token_id=start, vision_end_token_id=end, tie_word_embeddings=True,
    )  # fmt: skip
    # transformers draws initial weights from the global generator: fork it.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = kind(made)
    processor = image_processor(
        patch_size=patch, merge_size=merge, size={"shortest_edge": (patch * merge) ** 2, "longest_edge": 2**20}
    )
    return VisionPolicy(
        model, tokenizer, processor, prefix=prefix, suffix=suffix, max_new_tokens=max_new_tokens, **settings
    )
