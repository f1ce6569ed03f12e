"""The updates of supervised learning: passes over items in random order, each batch one step of AdamW."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from agentgym.checks import Checked, Count, Positive, Size, Weight, fields_checked
from policies.scoring.head import not_finite


@dataclass(frozen=True)
class Batch:
    """The items of one update.

    Attributes:
        epoch: the pass over the items, from 1.
    """

    epoch: int
    items: list[int]


@fields_checked
@dataclass(frozen=True, kw_only=True)
class Updates(Checked):
    """Passes over items by AdamW, with a linear warm-up and a cosine decay to 0.

    Attributes:
        epochs: number of passes.
        seed: of the order of the items.
        batch_size: items of an update; sizes differ by at most one.
        learning_rate: the largest, reached after `warmup` updates.
        weight_decay: of matrices; norms and biases have none.
        max_grad_norm: gradients are scaled down to this Euclidean norm.
        progress: called after each update with the number of finished updates and their total number.
        enough: called after each update with the number of finished updates; True ends learning.

    Raises:
        TypeError: a field has a value of the wrong type.
        ValueError: a number is out of range.
    """

    epochs: Size
    seed: int
    batch_size: Size = 32
    learning_rate: Positive = 3e-3
    weight_decay: Weight = 0.01
    warmup: Count = 20
    max_grad_norm: Positive = 1.0
    progress: Callable[[int, int], None] | None = None
    enough: Callable[[int], bool] | None = None

    def batches(self, model: Any, count: int) -> Iterator[Batch]:
        """Yield batches of `count` items. The caller adds the gradient of a batch before it asks for the next one.

        Raises:
            FloatingPointError: the gradient is not finite; the weights are those of the last good update.
        """
        generator = torch.Generator().manual_seed(self.seed)
        optimizer = _optimizer(model, self.weight_decay)
        batches = math.ceil(count / self.batch_size)
        total, done = self.epochs * batches, 0
        try:
            for epoch in range(1, self.epochs + 1):
                order = torch.randperm(count, generator=generator)
                for part in order.tensor_split(batches):
                    for group in optimizer.param_groups:
                        group["lr"] = self.learning_rate * _schedule(done, self.warmup, total)
                    optimizer.zero_grad()
                    yield Batch(epoch, part.tolist())
                    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), self.max_grad_norm))
                    if not math.isfinite(norm):
                        raise FloatingPointError(
                            f"the gradient norm is {norm} at update {done + 1} ({not_finite(model, gradients=True)}); "
                            "a smaller learning_rate may help"
                        )
                    optimizer.step()
                    done += 1
                    if self.progress is not None:
                        self.progress(done, total)
                    if self.enough is not None and self.enough(done):
                        return
        finally:  # a failed update also frees the memory of the gradients
            optimizer.zero_grad(set_to_none=True)


def _schedule(step: int, warmup: int, total: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


def _optimizer(model: torch.nn.Module, weight_decay: float) -> torch.optim.AdamW:
    # Norms and biases are vectors. Weight decay would work against the architecture.
    matrices = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim > 1]
    vectors = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    # The fused step costs a sixth of the plain one: for the tiny model 7 % of an update.
    return torch.optim.AdamW(groups, lr=0.0, fused=True)
