"""A learning problem of a second: the corridor, and a language model of some thousand parameters."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from baselines.config import Checkpoints, Optimiser, TrainerConfig, Validation
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.corridor import CorridorVectorEnv
from wrappers import VectorPromptWindow, VectorReplyParser

WORDS = ("left", "right", "jump")
TASKS: list[Mapping[str, Any]] = [{"index": start} for start in (1, 2, 3)]
CONFIG = TrainerConfig(
    iterations=6,
    groups=3,
    group_size=4,
    temperature=1.0,
    learning_rate=1e-2,
    optimiser=Optimiser(minibatch_rows=3),
    validation=Validation(every=2),
    checkpoint=Checkpoints(every=0),
)


def corridor(places: int = 12) -> VectorPromptWindow:
    envs = CorridorVectorEnv(places, max_episode_steps=6, autoreset_mode="Disabled")
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def small_policy(seed: int = 0, width: int = 16, max_new_tokens: int = 1, **settings: Any) -> HuggingFacePolicy:
    return tiny_policy(
        [f"cell {cell}" for cell in range(5)],
        seed=seed,
        extra_words=WORDS,
        width=width,
        layers=1,
        heads=2,
        kv_heads=1,
        mlp=16,
        max_new_tokens=max_new_tokens,
        **settings,
    )


def babbling_policy(seed: int = 0) -> HuggingFacePolicy:
    """A policy that answers the three words about equally often, so that there is something to learn from."""
    policy = small_policy(seed)
    policy.model.load_state_dict(_babbling(seed))
    return policy


@cache
def _babbling(seed: int) -> dict[str, Any]:
    policy = small_policy(seed)
    prompts = [policy.encode([{"role": "user", "content": f"cell {cell}"}]) for cell in range(5) for _ in WORDS]
    replies = [policy.tokenizer(word, add_special_tokens=False)["input_ids"] for _ in range(5) for word in WORDS]
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=2e-2)
    for _ in range(30):
        optimizer.zero_grad()
        (-policy.score(prompts, replies, temperature=1.0).logprobs.mean()).backward()
        optimizer.step()
    return policy.model.state_dict()
