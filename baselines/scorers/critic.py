"""Critic: the value of a state, or of a partial reply, from a copy of the policy's network.

The trunk of the policy's model (everything below the output head) gets one linear head with a single output, which
starts at 0 and has the unit of the first returns. The value before a token is read where the model would predict that
token, so V of a state is the value at the end of its prompt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentgym.checks import Positive, Size, fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.scorers.network import Fit
from baselines.scorers.value_model import HeadConfig, Inputs, ValueScorer


@fields_checked
@dataclass(frozen=True)
class CriticConfig(HeadConfig):
    """Settings of a critic, in addition to those of `baselines.scorers.value_model.HeadConfig`.

    Attributes:
        minibatch_rows: distinct inputs (prompts, or prompts with replies) per update.
        value_clip: clipping of values: moving further than this from the prediction before the update does not lower
            the loss. In units of the returns; None: off.
    """

    minibatch_rows: Size = 32
    value_clip: Positive | None = None

    def make(self, policy: Any) -> Critic:
        return Critic(policy, self)


class Critic(ValueScorer):
    """Values of a policy's states: a `baselines.scorers.value_model.ValueScorer`.

    An update fits the values to returns by the mean of half the squared error over steps, or over reply tokens. Its
    figures: "value_loss", mean over the updates; "explained_variance" of the returns by the values before the update:
    1 is perfect, 0 as good as their mean (also 0 if the returns do not vary).
    """

    config: CriticConfig

    def __init__(self, policy: Any, config: CriticConfig | None = None) -> None:
        super().__init__(policy, config or CriticConfig(), "the critic's")

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), V of each row's state, or (N, K), V before each of its reply tokens, 0 behind them.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        inputs = Inputs.of(table, self.config.level)
        by_row = self.numbers(inputs)[inputs.of_row]
        return by_row[:, 0] if self.level == "turn" else np.where(inputs.written, by_row, 0.0)

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        """Return the fit to returns at every position.

        Raises:
            ValueError: there are no targets.
        """
        if targets is None:
            raise ValueError("a critic is fitted to returns: its credit method must give targets")
        inputs, clip = Inputs.of(table, self.config.level), self.config.value_clip
        self.find_scale(targets.reshape(len(table), -1)[inputs.written])
        return self.fit_places(
            inputs, scores, targets, self.config.minibatch_rows,
            lambda predicted, target, old: value_error(predicted, target, old, clip), "value_loss",
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        settings = super().describe()
        del settings["level"]  # is in the method's options
        if self.config.head == "linear":  # as in older checkpoints, which had no other
            del settings["head"]
        return settings


def value_error(predicted: Tensor, target: Tensor, before: Tensor, clip: float | None) -> Tensor:
    """Return half the squared errors, with clipping the larger of the free and the clipped one; any shape.

    >>> value_error(torch.tensor([2.0, 0.5]), torch.tensor([3.0, 3.0]), torch.tensor([0.0, 0.0]), 1.0)
    tensor([2.0000, 3.1250])
    """
    errors = (predicted - target).square()
    if clip is not None:
        kept = before + (predicted - before).clamp(-clip, clip)
        errors = torch.maximum(errors, (kept - target).square())
    return 0.5 * errors
