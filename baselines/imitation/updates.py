"""The updates of supervised learning: passes over items in random order, each batch one step of AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from policies.scoring.head import not_finite
from policies.training import check_trainable


@dataclass(frozen=True)
class Batch:
    """What one update learns from.

    Attributes:
        epoch: the pass over the items, from 1.
    """

    epoch: int
    items: list[int]


def check_updates(
    model: Any, epochs: int, batch_size: int, microbatch_rows: int | None, learning_rate: float, warmup: int
) -> None:
    """Check what `updates` is going to be given, before anything is played or scored for it.

    Raises:
        ValueError: a number is out of range, or the weights have fewer than 32 bits.
    """
    least = min(epochs, batch_size, 1 if microbatch_rows is None else microbatch_rows)
    if not least >= 1 or not 0 < learning_rate < math.inf or not warmup >= 0:
        raise ValueError(
            "updates need epochs, batch_size and microbatch_rows of at least 1, a positive, finite learning_rate and a "
            f"warmup of at least 0, got epochs={epochs}, batch_size={batch_size}, microbatch_rows={microbatch_rows}, "
            f"learning_rate={learning_rate}, warmup={warmup}"
        )
    check_trainable(model)


def updates(
    model: Any,
    count: int,
    *,
    epochs: int,
    seed: int,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.01,
    warmup: int = 20,
    max_grad_norm: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
    enough: Callable[[int], bool] | None = None,
) -> Iterator[Batch]:
    """Yield batches of item numbers; whoever gets one adds its gradient, and the step follows when the next is asked.

    AdamW with a linear warm-up and a cosine decay to 0. Sizes of batches differ by at most one. Call `check_updates`
    first: nothing here runs before the first batch is asked for.

    Raises:
        ValueError: `weight_decay` or `max_grad_norm` is out of range; nothing has moved.
        FloatingPointError: the gradient is not finite; the weights are those of the last good update.
    """
    if not 0 <= weight_decay < math.inf or not max_grad_norm > 0:  # NaN would go into every weight without a word
        raise ValueError(
            "updates need a finite weight_decay of at least 0 and a max_grad_norm above 0, got "
            f"weight_decay={weight_decay}, max_grad_norm={max_grad_norm}"
        )
    generator = torch.Generator().manual_seed(seed)
    optimizer = _optimizer(model, weight_decay)
    batches = math.ceil(count / batch_size)
    total, done = epochs * batches, 0
    try:
        for epoch in range(1, epochs + 1):
            order = torch.randperm(count, generator=generator)
            for part in order.tensor_split(batches):
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate * _schedule(done, warmup, total)
                optimizer.zero_grad()
                yield Batch(epoch, part.tolist())
                norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm))
                if not math.isfinite(norm):
                    raise FloatingPointError(
                        f"the gradient norm is {norm} at update {done + 1} ({not_finite(model, gradients=True)}); "
                        "a smaller learning_rate may help"
                    )
                optimizer.step()
                done += 1
                if progress is not None:
                    progress(done, total)
                if enough is not None and enough(done):
                    return
    finally:  # also where an update failed: the memory of the gradients is free again
        optimizer.zero_grad(set_to_none=True)


def _schedule(step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def _optimizer(model: torch.nn.Module, weight_decay: float) -> torch.optim.AdamW:
    # Norms and biases are vectors: pulling them to 0 would fight the architecture.
    matrices = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    # The fused step costs a sixth of the plain one: for the tiny model 7 % of an update.
    return torch.optim.AdamW(groups, lr=0.0, fused=True)
