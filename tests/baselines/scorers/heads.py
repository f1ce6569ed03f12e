"""Scorers with a head, made to say something, and their gradients held against finite differences."""

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor


@cache
def played(size: int = 4, seed: int = 0) -> StepTable:
    """Episodes of the corridor, `size` of each of its three tasks."""
    return collect(corridor(3 * size), babbling_policy(), tasks=TASKS, group_size=size, seed=seed)


def awake(scorer: Any, std: float = 0.3) -> Any:
    """The scorer, with an output layer that is not zero."""
    head: Any = scorer.model.head[-1] if isinstance(scorer.model.head, torch.nn.Sequential) else scorer.model.head
    with torch.no_grad():
        torch.nn.init.normal_(head.weight, std=std, generator=torch.Generator().manual_seed(0))
    return scorer


def learn(scorer: Any, table: StepTable, rate: float = 3e-3, rng: Any = None) -> dict[str, float]:
    row: dict[str, float] = scorer.update(table, scorer.scores(table), None, rng or np.random.default_rng(0), rate)
    return row


def two_layers(table: StepTable) -> Any:
    """A policy whose model has two layers and computes in double precision throughout, which Qwen's norms do not."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    words = 1 + max(max(*reply.prompt_ids, *reply.token_ids) for reply in table.replies)  # type: ignore[union-attr]
    config = GPT2Config(vocab_size=words, n_embd=8, n_layer=2, n_head=2, n_positions=32, initializer_range=0.3)
    return SimpleNamespace(model=GPT2LMHeadModel(config))


def finite_differences(scorer: Any, table: StepTable, loss: Callable[[Any], float]) -> None:
    """Compare the gradients of an update with how the loss answers when a weight of each tensor is moved."""
    scorer.model.double()
    scorer._optimizer.zero_grad = lambda **_: None  # the gradients stay
    learn(scorer, table, rate=0.0)
    rng = np.random.default_rng(0)
    named = [(name, weight) for name, weight in scorer.model.named_parameters() if weight.grad is not None]
    assert {"trunk.h.0.mlp.c_fc.weight", "trunk.h.1.attn.c_attn.weight", "trunk.wte.weight"} < {
        name for name, _ in named
    }
    assert any(name.startswith("head.") for name, _ in named)
    for name, weight in named[::3]:
        flat, slopes = weight.data.view(-1), weight.grad.view(-1)
        place = int(rng.choice(np.flatnonzero(slopes.numpy())))
        kept, found = float(flat[place]), []
        for move in (1e-5, -1e-5):
            flat[place] = kept + move
            found.append(loss(scorer))
        flat[place] = kept
        assert (found[0] - found[1]) / 2e-5 == pytest.approx(float(slopes[place]), rel=1e-5, abs=1e-8), name
