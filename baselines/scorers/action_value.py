"""Action values: the mean outcome, 0 to 1, of rollouts that took this action in this state (AgentPRM).

A copy of the policy's trunk gets a head that is read at the last token of a reply and goes through a sigmoid. It is
fitted to the mean discounted outcome of the rollouts that took the action, by cross-entropy with soft labels:

    loss = mean over steps of -(y log Q + (1 - y) log(1 - Q))        y: wrappers.credit.agentprm.action_targets

Compare values of actions only within one state, see docs/credit/agentprm.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import expit
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from agentgym.checks import Share, Size, fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.scorers.network import Fit
from baselines.scorers.value_model import HeadConfig, Inputs, ValueScorer
from wrappers.credit.agentprm import action_targets

#: "cross-entropy" of a probability, or the "squared" error of any number.
ActionLoss = Literal["cross-entropy", "squared"]


@fields_checked
@dataclass(frozen=True)
class ActionValueConfig(HeadConfig):
    """Settings of an action-value model, in addition to those of `baselines.scorers.value_model.HeadConfig`.

    Attributes:
        loss: "cross-entropy" with targets in 0..1, whose scores are probabilities; or the "squared" error, for targets
            in any range, whose scores are the head's numbers.
        gamma, unit, outcome: of the targets, see `wrappers.credit.agentprm.action_targets`.
        minibatch_rows: distinct inputs (prompts with replies) per update.
    """

    level: Literal["turn"] = "turn"
    loss: ActionLoss = "cross-entropy"
    gamma: Share = 0.95
    unit: Literal["history", "state"] = "history"
    outcome: Literal["won", "return"] = "won"
    minibatch_rows: Size = 128

    def make(self, policy: Any) -> ActionValue:
        return ActionValue(policy, self)


class ActionValue(ValueScorer):
    """Values of actions, learned from finished groups: a `baselines.scorers.value_model.ValueScorer`.

    Figures of an update: "prm_loss", mean over the updates; "explained_variance" of the targets by the earlier values.
    """

    config: ActionValueConfig

    def __init__(self, policy: Any, config: ActionValueConfig | None = None) -> None:
        super().__init__(policy, config or ActionValueConfig(), "the action-value model's")

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), Q of each row's reply in its state.

        Exactly 0 before the first update, because the sigmoid's .5 would be unfounded.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        inputs = Inputs.of(table, "reply")
        found = self.numbers(inputs)[inputs.of_row, 0]
        if self.config.loss == "squared" or self.model.silent:
            return found
        return expit(found)

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        """Return the fit to targets, by default those of the settings.

        Raises:
            ValueError: the loss is the cross-entropy, and a target is outside 0..1.
        """
        config = self.config
        if targets is None:
            targets = action_targets(table, gamma=config.gamma, unit=config.unit, outcome=config.outcome)
        if config.loss == "squared":
            self.find_scale(targets)
        elif not ((targets >= 0) & (targets <= 1)).all():
            row = int(np.argmin((targets >= 0) & (targets <= 1)))
            raise ValueError(
                f"the cross-entropy needs targets between 0 and 1; row {row} has {targets[row]}: use outcome='won' or "
                "loss='squared'"
            )
        inputs = Inputs.of(table, "reply")
        return self.fit_places(
            inputs, scores, targets, config.minibatch_rows,
            lambda predicted, target, _: action_loss(predicted, target, config.loss), "prm_loss",
        )  # fmt: skip


def action_loss(predicted: Tensor, target: Tensor, kind: ActionLoss) -> Tensor:
    """Return the error of each value: the cross-entropy of a soft label by a logit, or the squared error; any shape.

    >>> import torch
    >>> action_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.5]), "cross-entropy")
    tensor([0.6931, 0.6931])
    >>> action_loss(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 2.0]), "squared")
    tensor([0.2500, 0.0000])
    """
    target = target.to(predicted.dtype)
    if kind == "squared":
        return (predicted - target).square()
    return binary_cross_entropy_with_logits(predicted, target, reduction="none")
