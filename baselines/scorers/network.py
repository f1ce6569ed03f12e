"""Network: a scorer's model under its optimiser, and one step on a loss that memory cuts into parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from baselines.scorers.scorer import ScorerConfig
from policies.scoring.head import check_finite, not_finite
from policies.training import can_recompute, load_trained_state, on_gpu, recompute_activations, trained_state

# Inputs per pass where no gradients are kept.
_SCORING_ROWS = 256


class Network:
    """A model that is fitted beside the policy.

    Args:
        model: its trainable weights are trained.
        rates: weights, and their learning rate as a multiple of the policy's.
        config: clipping, passes, weight decay.
        name: for messages: "the critic's".
    """

    def __init__(
        self, model: nn.Module, rates: Sequence[tuple[list[nn.Parameter], float]], config: ScorerConfig, name: str
    ) -> None:
        self.model = model
        self.config = config
        self.name = name
        self._weights = [weight for weights, _ in rates for weight in weights]
        self._rates = [rate for _, rate in rates]
        self.device = self._weights[0].device
        self._optimizer = torch.optim.AdamW(
            [{"params": weights} for weights, _ in rates],
            lr=0.0,
            weight_decay=config.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),
        )
        recomputed, inner = config.activation_checkpointing, getattr(model, "trunk", model)
        if on_gpu(model) and can_recompute(inner) if recomputed is None else recomputed:
            recompute_activations(inner)  # for good: nobody decodes with it

    def begin(self, learning_rate: float) -> None:
        """Set the rates of an iteration from the policy's."""
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * learning_rate

    def step(self, losses: Iterable[Tensor]) -> float:
        """Make one optimiser step on the sum of losses, each of which is computed when the one before is done with.

        Returns:
            The gradient's Euclidean norm, before clipping.

        Raises:
            FloatingPointError: a gradient is not finite, the message names it; the weights are those of the last good
                step.
        """
        self._optimizer.zero_grad(set_to_none=True)
        for loss in losses:
            loss.backward()
        norm = float(nn.utils.clip_grad_norm_(self._weights, self.config.max_grad_norm))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"{self.name} gradient norm is {norm} ({not_finite(self.model, gradients=True)}); "
                "a smaller learning_rate may help"
            )
        self._optimizer.step()
        return norm

    def end(self) -> None:
        """Look at the weights after an iteration's steps, and give back the memory of the gradients.

        Raises:
            FloatingPointError: a step has made a weight that is not finite.
        """
        self._optimizer.zero_grad(set_to_none=True)
        check_finite(self.model, f"the update was too large: {self.name}")

    def parts(
        self, lengths: NDArray[np.int64], chosen: NDArray[np.int64], *, learning: bool
    ) -> list[NDArray[np.int64]]:
        """Cut inputs into passes of the rows and tokens that a pass may have; without gradients more rows fit.

        Args:
            lengths: int64 (n,), tokens of every input.
            chosen: int64 (m,), which inputs, in the order in which they are cut.
            learning: whether gradients are kept.
        """
        rows = (self.config.microbatch_rows or len(chosen)) if learning else _SCORING_ROWS
        tokens, parts = self.config.microbatch_tokens, [chosen[low : low + rows] for low in range(0, len(chosen), rows)]
        if tokens is None:
            return parts
        cut: list[list[int]] = []
        for part in parts:
            longest = 0
            for position, i in enumerate(part.tolist()):
                longest = max(longest, int(lengths[i]))
                if position == 0 or longest * (len(cut[-1]) + 1) > tokens:
                    cut.append([])
                    longest = int(lengths[i])
                cut[-1].append(i)
        return [np.array(part) for part in cut]

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimiser state, as a checkpoint keeps them."""
        return {"model": trained_state(self.model), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        load_trained_state(self.model, state["model"])
        self._optimizer.load_state_dict(state["optimizer"])

    def describe(self) -> dict[str, Any]:
        """Return the settings, as a checkpoint keeps them: without what only fits the passes into memory."""
        settings = dataclasses.asdict(self.config)
        del settings["microbatch_tokens"], settings["activation_checkpointing"]
        return settings


def shuffled_together(sets: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return an order, int64 (n,), in which sets are shuffled and their members stay next to each other, in order.

    Args:
        sets: int64 (n,), the set of each member, numbered from 0 on.
        generator: shuffles.
    """
    return np.argsort(generator.permutation(sets.max(initial=-1) + 1)[sets], kind="stable")


def joint_loss(
    predict: Callable[[NDArray[np.int64]], Tensor],
    parts: Sequence[NDArray[np.int64]],
    loss: Callable[[Tensor], Tensor],
) -> tuple[float, Iterator[Tensor]]:
    """Return a loss of numbers that do not all fit one pass, and losses of the parts that sum to its gradient.

    A loss of pairs of trajectories needs the numbers of all their steps at once. They are predicted without gradients
    first; the loss has a derivative by each of them, and the chain rule does the rest, part by part.

    Args:
        predict: numbers of some inputs, a tensor whose first dimension is theirs.
        parts: the inputs of each pass; one part is computed once.
        loss: of all numbers, in the order of the parts.

    Returns:
        The loss, and as many losses as parts, for `Network.step`; each is computed when it is asked for.
    """
    if len(parts) == 1:
        whole = loss(predict(parts[0]))
        return float(whole.detach()), iter([whole])
    with torch.no_grad():
        numbers = torch.cat([predict(part) for part in parts])
    numbers.requires_grad_()
    whole = loss(numbers)
    (by_number,) = torch.autograd.grad(whole, numbers)
    slopes = by_number.split([len(part) for part in parts])
    return float(whole.detach()), ((predict(part) * slope).sum() for part, slope in zip(parts, slopes, strict=True))
