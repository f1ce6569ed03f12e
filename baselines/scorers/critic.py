"""Critic: what a state, or a reply so far, is worth, read off a copy of the policy's own network.

The trunk of the policy's model (everything below the output head) gets one linear head with a single output, which
starts at 0 and counts in units of the first returns. The value before a token is read where the model would predict
that token, so V of a state is the value at the end of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.checks import fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.config import Positive, Size
from baselines.scorers.scorer import ScoreLevel, ScorerConfig
from baselines.scorers.value_model import Inputs, head_network, value_model


@fields_checked
@dataclass(frozen=True)
class CriticConfig(ScorerConfig):
    """Numbers of a critic, beside those of `baselines.scorers.scorer.ScorerConfig`.

    Attributes:
        head_rate: learning rate of the head, which starts from nothing, as a multiple of the policy's; `rate` is the
            trunk's.
        minibatch_rows: distinct inputs (prompts, or prompts with replies) per update.
        value_clip: PPO's value clipping: a prediction that moves further than this from the one before the update
            earns nothing by it. In units of the returns; None: off.
    """

    head_rate: Positive = 10.0
    minibatch_rows: Size = 32
    value_clip: Positive | None = None

    def make(self, policy: Any) -> Critic:
        """Make the critic of a policy, from its weights as they are now."""
        return Critic(policy, self)


class Critic:
    """Values of a policy's states, learned beside it: a `baselines.scorers.scorer.StepScorer`.

    Args:
        policy: whose trunk is copied, as it is now; with `model`, a Hugging Face causal language model, and as
            options `precision` (autocast type) as `policies.huggingface.HuggingFacePolicy` has it.
        config: see `CriticConfig`.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """

    order: Literal["after"] = "after"
    takes_forks = True

    def __init__(self, policy: Any, config: CriticConfig | None = None) -> None:
        self.config = config or CriticConfig()
        self._precision: torch.dtype | None = getattr(policy, "precision", None)
        self.model = value_model(policy)
        self._network = head_network(self.model, self.config, self.config.head_rate, "the critic's")

    @property
    def level(self) -> ScoreLevel:
        """What a value is given for."""
        return self.config.level

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), V of each row's state, or (N, K), V before each of its reply tokens, 0 behind them.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        inputs = Inputs.of(table, self.level)
        every = np.arange(len(inputs.sequences))
        by_row = inputs.numbers(self.model, self._network, self._precision, every)[inputs.of_row]
        return by_row[:, 0] if self.level == "turn" else np.where(inputs.written, by_row, 0.0)

    def update(
        self,
        table: StepTable,
        scores: Floats,
        targets: Floats | None,
        generator: np.random.Generator,
        learning_rate: float,
    ) -> dict[str, float]:
        """Fit the values to returns by the mean of half the squared error over steps, or over reply tokens.

        Args:
            table: what `scores` was asked for.
            scores: what it answered: (N,) or (N, K).
            targets: float64, the same shape: the returns.
            generator: shuffles mini-batches.
            learning_rate: the policy's, see `CriticConfig`.

        Returns:
            "value_loss", mean over the updates; "explained_variance" of the returns by the values before the update:
            1 is perfect, 0 as good as their mean (0 also where the returns do not vary).

        Raises:
            ValueError: there are no targets.
            FloatingPointError: a gradient is not finite, the message names it; the weights are those of the last good
                step. Or the step itself has made a weight that is not finite.
        """
        if targets is None:
            raise ValueError("a critic is fitted to returns: its credit method must give targets, as ppo does")
        config, network = self.config, self._network
        inputs = Inputs.of(table, self.level)
        # One entry per step or token: its input, its place there, what was said and what came.
        row, place = np.nonzero(inputs.written)
        before, target = (array.reshape(len(table), -1)[row, place] for array in (scores, targets))
        entries = _Entries(inputs.of_row[row], place, _tensor(before, network.device), _tensor(target, network.device))
        network.begin(learning_rate)
        self._find_scale(target)
        losses: list[Tensor] = []
        for _ in range(config.epochs):
            order = generator.permutation(len(inputs.sequences))
            minibatches = np.array_split(order, -(-len(order) // config.minibatch_rows))
            share = len(row) / len(minibatches)
            for chosen in minibatches:
                network.step(self._losses(inputs, entries, chosen, share, losses))
        network.end()
        # In double precision: the passes of a mini-batch are parts of one sum.
        value_loss = float(torch.stack(losses).double().sum()) / (config.epochs * len(minibatches))
        return {"value_loss": value_loss, "explained_variance": explained_variance(before, target)}

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimiser state, as a checkpoint keeps them."""
        return self._network.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._network.load_state_dict(state)

    def describe(self) -> dict[str, Any]:
        """Return the settings, as a checkpoint keeps them."""
        settings = self._network.describe()
        del settings["level"]  # is in the method's options
        return settings

    def _find_scale(self, target: NDArray[np.float64]) -> None:
        """Take the root mean square of the first returns that are not all 0; until then every value is 0 as well."""
        size = float(np.sqrt(np.mean(target**2)))
        if size > 0 and self.model.silent:
            self.model.scale.fill_(size)

    def _losses(
        self, inputs: Inputs, entries: _Entries, chosen: NDArray[np.int64], share: float, losses: list[Tensor]
    ) -> Iterator[Tensor]:
        """What some inputs add to the gradient, pass by pass; their loss is added to `losses`."""
        for part in self._network.parts(inputs.lengths, chosen, learning=True):
            local = np.full(len(inputs.sequences), -1)
            local[part] = np.arange(len(part))
            mine = np.flatnonzero(local[entries.input] >= 0)
            at, place, picked = (
                torch.from_numpy(array).to(self._network.device)
                for array in (local[entries.input[mine]], entries.place[mine], mine)
            )
            predicted = inputs.predict(self.model, part, self._precision)[at, place]
            errors = value_error(predicted, entries.target[picked], entries.before[picked], self.config.value_clip)
            loss = errors.sum() / share
            losses.append(loss.detach())
            # In units of the scale: gradients, and their limit, do not depend on the unit of the rewards.
            yield loss / self.model.scale.square()


def value_error(predicted: Tensor, target: Tensor, before: Tensor, clip: float | None) -> Tensor:
    """Return half the squared errors, with PPO's clipping the larger of the free and the clipped one; any shape.

    >>> value_error(torch.tensor([2.0, 0.5]), torch.tensor([3.0, 3.0]), torch.tensor([0.0, 0.0]), 1.0)
    tensor([2.0000, 3.1250])
    """
    errors = (predicted - target).square()
    if clip is not None:
        kept = before + (predicted - before).clamp(-clip, clip)
        errors = torch.maximum(errors, (kept - target).square())
    return 0.5 * errors


def explained_variance(values: NDArray[np.float64], returns: NDArray[np.float64]) -> float:
    """Return `1 - var(returns - values) / var(returns)`; 0 where the returns do not vary."""
    spread = float(returns.var())
    return 1.0 - float((returns - values).var()) / spread if spread > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _Entries:
    """What a critic is fitted to: input number and place (numpy), value before and target (tensors), all (S,)."""

    input: NDArray[np.int64]
    place: NDArray[np.int64]
    before: Tensor
    target: Tensor


def _tensor(array: NDArray[np.float64], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(torch.float32).to(device)
