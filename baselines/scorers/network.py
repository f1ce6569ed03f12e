"""NetworkScorer: a scorer with a model and an optimiser; a subclass defines the fit."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trajectory import Floats, Ints, StepTable
from baselines.scorers.scorer import ScorerConfig, StepScorer
from policies.scoring.head import check_finite, not_finite
from policies.training import can_recompute, load_trained_state, on_gpu, recompute_activations, trained_state

# Inputs per pass without gradients.
_SCORING_ROWS = 256
#: Losses of one optimiser step, pass by pass, each with its contribution to the reported loss.
Losses = Iterator[tuple[Tensor, float]]


@dataclass(frozen=True, eq=False)
class Fit:
    """Items and losses of one update of a network.

    Attributes:
        order: draws an order of the items (inputs, trajectories or tasks), int64 (n,), for each epoch.
        losses: from the items of a mini-batch, and the number of mini-batches.
        reports: name of the mean loss and, optionally, of the mean gradient norm before clipping.
    """

    order: Callable[[np.random.Generator], Ints]
    size: int
    losses: Callable[[Ints, int], Losses]
    reports: Sequence[str] = ("prm_loss",)
    figures: Mapping[str, float] = field(default_factory=dict)


class NetworkScorer(StepScorer):
    """A scorer whose model is trained together with the policy.

    Args:
        config: rates, passes, clipping, weight decay.
        rates: weights, and their learning rate as a multiple of the policy's.
        name: for messages: "the critic's".
    """

    config: ScorerConfig
    model: Any

    def __init__(
        self, config: ScorerConfig, model: Any, rates: Sequence[tuple[list[nn.Parameter], float]], name: str
    ) -> None:
        self.config, self.model, self.level, self._name = config, model, config.level, name
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
            recompute_activations(inner)  # permanently, because this model never decodes
        self._learned = False

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Make `config.epochs` passes over what `fit` returns; see `StepScorer.update`."""
        fit, steps = self.fit(table, scores, targets), list[tuple[float, float]]()
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * learning_rate
        for _ in range(self.config.epochs):
            order = fit.order(rng)
            minibatches = np.array_split(order, -(-len(order) // fit.size)) if len(order) else []
            steps += [self.step(fit.losses(chosen, len(minibatches))) for chosen in minibatches]
        self._optimizer.zero_grad(set_to_none=True)  # the next rollout needs the memory of the gradients
        check_finite(self.model, f"the update was too large: {self._name}")
        self._learned = self._learned or bool(steps)
        means = np.mean(steps, axis=0).tolist() if steps else (0.0, 0.0)
        return {**dict(zip(fit.reports, means, strict=False)), **fit.figures}

    def step(self, losses: Iterable[tuple[Tensor, float]]) -> tuple[float, float]:
        """Make one optimiser step on a sum of losses; each is computed after the backward pass of the previous one.

        Returns:
            The reported loss, and the gradient's Euclidean norm before clipping.
        """
        self._optimizer.zero_grad(set_to_none=True)
        reported = 0.0
        for loss, value in losses:
            loss.backward()
            reported += value
        norm = float(nn.utils.clip_grad_norm_(self._weights, self.config.max_grad_norm))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"{self._name} gradient norm is {norm} ({not_finite(self.model, gradients=True)}); "
                "a smaller learning_rate may help"
            )
        self._optimizer.step()
        return reported, norm

    def parts(self, lengths: Ints, chosen: Ints, *, learning: bool) -> list[Ints]:
        """Cut inputs into passes within the limits of rows and tokens; without gradients more rows fit.

        Args:
            lengths: int64 (n,), tokens of every input.
            chosen: int64 (m,), the inputs, in the order in which they are cut.
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
        return {"model": trained_state(self.model), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_trained_state(self.model, state["model"])
        self._optimizer.load_state_dict(state["optimizer"])

    def describe(self) -> dict[str, Any]:
        settings = dataclasses.asdict(self.config)
        del settings["microbatch_tokens"], settings["activation_checkpointing"]
        return settings


def shuffled_together(sets: NDArray[np.int64], generator: np.random.Generator) -> Ints:
    """Return an order, int64 (n,), that shuffles sets and keeps the members of each together, in order.

    Args:
        sets: int64 (n,), the set of each member, numbered from 0 on.
    """
    return np.argsort(generator.permutation(sets.max(initial=-1) + 1)[sets], kind="stable")


def joint_losses(
    predict: Callable[[Ints], Tensor], parts: Sequence[Ints], loss: Callable[[Tensor], Tensor], unit: float = 1.0
) -> Losses:
    """Yield losses of parts whose gradients sum to that of a loss over values that do not fit one pass.

    A loss of pairs of trajectories needs the values of all their steps at once. They are first predicted without
    gradients; the loss is differentiated by each value, and the chain rule gives the gradient part by part.

    Args:
        predict: values of some inputs, a tensor whose first dimension is that of the inputs.
        parts: the inputs of each pass; a single part is computed only once.
        loss: loss of all values, in the order of the parts.
        unit: factor of the loss in the report, which comes with the first part.
    """
    if len(parts) == 1:
        whole = loss(predict(parts[0]))
        yield whole, float(whole.detach()) * unit
        return
    with torch.no_grad():
        numbers = torch.cat([predict(part) for part in parts])
    numbers.requires_grad_()
    whole = loss(numbers)
    (by_number,) = torch.autograd.grad(whole, numbers)
    for k, (part, slope) in enumerate(zip(parts, by_number.split([len(part) for part in parts]), strict=True)):
        yield (predict(part) * slope).sum(), 0.0 if k else float(whole.detach()) * unit
