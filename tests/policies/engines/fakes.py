"""Policies and engines without an engine, for the tests of samplers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from policies.decode.sampler import Completion, Decoding, complete
from policies.huggingface import HuggingFacePolicy

SETTINGS: dict[str, Any] = {"prefix": "<action>", "suffix": "</action>", "max_new_tokens": 4, "temperature": 0.7}


def over(policy: Any, sampler: Any) -> HuggingFacePolicy:
    """The policy, played by a sampler."""
    return HuggingFacePolicy(policy.model, policy.tokenizer, sampler=sampler, **SETTINGS)


def written(model: Any, prompts: Any, seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
    """What a model writes by the numbers of a seed for each prompt; without seeds the most probable tokens."""
    drawn = [np.random.default_rng(seed).random(decoding.max_new_tokens) for seed in seeds]
    return complete(model, prompts, None if seeds[0] is None else np.stack(drawn), decoding)


def act(policy: Any, observations: Sequence[str] = ("look", "up down"), seed: int = 0) -> list[Any]:
    found: list[Any] = policy.act(observations, {}, np.random.default_rng(seed))
    return found


def move(policy: Any, part: str = "") -> None:
    """Change the weights, or those that have `part` in their name."""
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if part in name:
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.3)


def adapted(policy: Any) -> Any:
    pytest.importorskip("peft")
    from policies.lora import LoraSettings, add_lora

    return add_lora(policy, LoraSettings(rank=2, alpha=4.0), seed=0)
