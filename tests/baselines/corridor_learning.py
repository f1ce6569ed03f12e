"""A learning problem of a second: the corridor, and a language model of some thousand parameters."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agentgym.rollout import collect
from agentgym.trajectory import Reply, StepTable
from baselines.config import Checkpoints, Optimiser, TrainerConfig, Validation
from baselines.recipes import RECIPES
from baselines.records.metrics import Row
from baselines.trainer import Trainer
from policies.huggingface import HuggingFacePolicy
from policies.tiny import tiny_policy
from tests.corridor import CorridorVectorEnv
from wrappers import VectorPromptWindow, VectorReplyParser

WORDS = ("left", "right", "jump")
TASKS: list[Mapping[str, Any]] = [{"index": start} for start in (1, 2, 3)]
CONFIG = TrainerConfig(
    iterations=6, groups=3, group_size=4, temperature=1.0, learning_rate=1e-2,
    optimiser=Optimiser(minibatch_rows=3), validation=Validation(every=2), checkpoint=Checkpoints(every=0),
)  # fmt: skip


def corridor(places: int = 12, limit: int = 6) -> VectorPromptWindow:
    envs = CorridorVectorEnv(places, max_episode_steps=limit, autoreset_mode="Disabled")
    return VectorPromptWindow(VectorReplyParser(envs), history=0, instructions=False)


def small_policy(seed: int = 0, width: int = 16, max_new_tokens: int = 1, **settings: Any) -> HuggingFacePolicy:
    return tiny_policy(
        [f"cell {cell}" for cell in range(5)], seed=seed, extra_words=WORDS, width=width, layers=1, heads=2, kv_heads=1,
        mlp=16, max_new_tokens=max_new_tokens, **settings,
    )  # fmt: skip


def babbling_policy(seed: int = 0) -> HuggingFacePolicy:
    """A policy that answers the three words about equally often, so that there is something to learn from."""
    policy = small_policy(seed)
    policy.model.load_state_dict(_babbling(seed))
    return policy


def rollouts(policy: HuggingFacePolicy | None = None, size: int = 4, seed: int = 0) -> StepTable:
    """Return episodes of the corridor, `size` of each of its three tasks."""
    return collect(corridor(), policy or babbling_policy(), tasks=TASKS, group_size=size, seed=seed)


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


def trainer(policy: HuggingFacePolicy | None = None, envs: Any = None, **changes: Any) -> Trainer:
    names = ("folder", "resume", "tensorboard", "validation_tasks", "scorer")
    arguments: dict[str, Any] = {name: changes.pop(name) for name in names if name in changes}
    credit = changes.pop("credit", RECIPES["rewardflow"])
    config = dataclasses.replace(CONFIG, **changes)
    return Trainer(policy or babbling_policy(), envs or corridor(), credit, TASKS, config, **arguments)


def conversations(policy: HuggingFacePolicy, rng: np.random.Generator, count: int, turns: int) -> list[Reply]:
    """Return replies of 1 to 3 tokens to prompts that only grow, one conversation after the other."""
    vocabulary, replies = policy.model.config.vocab_size, list[Reply]()
    for _ in range(count):
        prompt = tuple(rng.integers(vocabulary, size=5).tolist())
        for _ in range(turns):
            tokens = tuple(rng.integers(vocabulary, size=rng.integers(1, 4)).tolist())
            replies.append(Reply("", prompt, tokens, tuple(policy.score([prompt], [tokens], 1.0).logprobs[0].tolist())))
            prompt += tokens + tuple(rng.integers(vocabulary, size=3).tolist())
    return replies


def passes_of(model: torch.nn.Module) -> list[tuple[int, int]]:
    """Return a list to which every pass through a model will add its rows and columns."""
    found: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda _, __, given: found.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    return found


def same_weights(one: torch.nn.Module, other: torch.nn.Module, atol: float = 0.0, rtol: float = 0.0) -> None:
    """Check that two models of one kind have the same weights."""
    for name, value in one.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, atol=atol, rtol=rtol, msg=name)


def digest(policy: HuggingFacePolicy) -> str:
    found = hashlib.sha256()
    for value in policy.model.state_dict().values():
        found.update(value.numpy().tobytes())
    return found.hexdigest()


def repeatable(rows: list[Row]) -> list[Row]:
    """Return rows without keys that depend on clock or memory readings; all other values repeat exactly."""
    measured = ("seconds", "share", "memory")
    return [{k: v for k, v in row.items() if not (k.startswith(measured) or k.endswith("per_second"))} for row in rows]


def goes_on_exactly(
    folder: Path, stop: int, lanes: Any = lambda: None, stopped: Callable[[Path], None] = lambda parts: None,
    make: Callable[[], HuggingFacePolicy] = babbling_policy, **changes: Any,
) -> list[Row]:  # fmt: skip
    """Check that a run that is stopped after an iteration and resumed equals one that was not; returns its rows.

    Args:
        folder: of both runs.
        stop: the last iteration before the stop.
        lanes: makes the environments.
        stopped: looks at the folder of the stopped run before it goes on.
        make: makes the policy.
        **changes: of `trainer`.
    """
    straight, resumed, parts = make(), make(), folder / f"stopped at {stop}"
    expected = trainer(straight, lanes(), folder=folder / f"straight {stop}", **changes).run()
    rows = trainer(make(), lanes(), folder=parts, **changes).run(lambda run, table, row: row["iteration"] < stop)
    assert repeatable(rows) == repeatable(expected[: stop + 1])
    stopped(parts)
    rows = trainer(resumed, lanes(), folder=parts, resume=True, **changes).run()
    assert digest(resumed) == digest(straight)
    assert repeatable(rows) == repeatable(expected)
    return rows
