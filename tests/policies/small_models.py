"""Random models of transformers, small enough for any test."""

from typing import Any

import torch
import transformers


def small_model(kind: str = "Qwen2", **options: Any) -> Any:
    """Return a model such as `Qwen2ForCausalLM` with weights of seed 0; options of its config replace these sizes."""
    sizes = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.15}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **heads, **options})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(transformers, "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(config).eval()
