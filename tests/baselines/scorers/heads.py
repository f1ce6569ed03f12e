"""Scorers with a head, made to say something, and their gradients held against finite differences."""

from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym.rollout import collect
from agentgym.trajectory import StepTable
from baselines.scorers.critic import Critic
from tests.baselines.corridor_learning import TASKS, babbling_policy, corridor
from tests.wrappers.credit import oracles


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
    targets = np.ones(len(table)) if isinstance(scorer, Critic) else None  # the others know what to learn
    row: dict[str, float] = scorer.update(table, scorer.scores(table), targets, rng or np.random.default_rng(0), rate)
    return row


def tiny_models() -> Iterator[tuple[StepTable, dict[str, Any], tuple[list[int], list[int]]]]:
    """Yield a table, the answers recorded for models of one number per state and action, and its rows' places there."""
    numbers = {case["case_id"]: i for i, case in enumerate(oracles.cases())}
    results = oracles.load("learned_tiny_model")["results"]
    assert len(results) == 33
    for result in results:
        table, _ = oracles.batches()[numbers[result["case_id"]]]
        states = [result["states"].index(table.states[state]) for state in table.state]
        yield table, result, (states, [result["actions"].index(table.actions[action]) for action in table.action])


def agrees(start: Any, answer: dict[str, Any], loss: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Compare a loss at some weights, its gradient, and the loss one step of gradient descent later with an answer."""
    weights = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    found = loss(weights)
    (gradient,) = torch.autograd.grad(found, weights)
    assert found.item() == pytest.approx(answer["loss"], abs=1e-8)
    np.testing.assert_allclose(gradient.numpy(), answer["gradient"], atol=1e-8, rtol=0)
    with torch.no_grad():
        assert loss(weights - answer["rate"] * gradient).item() == pytest.approx(
            answer["loss_after_one_step"], abs=1e-8
        )


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
