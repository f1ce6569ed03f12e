"""Action values: how rollouts end that took this action here, 0 to 1 (AgentPRM).

A copy of the policy's trunk gets a head that is read at the last token of a reply and goes through a sigmoid. It is
fitted to the mean discounted outcome of the rollouts that took the action, by cross-entropy with soft labels:

    loss = mean over steps of -(y log Q + (1 - y) log(1 - Q))        y: wrappers.credit.agentprm.action_targets

A value is a level: values of actions are to be compared inside one state, see docs/credit/agentprm.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from agentgym.checks import fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.config import Positive, Share, Size
from baselines.scorers.critic import explained_variance
from baselines.scorers.scorer import ScoreLevel, ScorerConfig
from baselines.scorers.value_model import Head, Inputs, head_network, value_model
from wrappers.credit.agentprm import action_targets

#: "cross-entropy" of a probability, or the "squared" error of any number.
ActionLoss = Literal["cross-entropy", "squared"]


@fields_checked
@dataclass(frozen=True)
class ActionValueConfig(ScorerConfig):
    """Numbers of an action-value model, beside those of `baselines.scorers.scorer.ScorerConfig`.

    Attributes:
        head: what stands on the trunk, "linear" or "mlp", W2 SiLU(W1 h).
        head_rate: learning rate of the head as a multiple of the policy's; `rate` is the trunk's.
        loss: "cross-entropy" with targets in 0..1, whose scores are probabilities; or the "squared" error, for targets
            in any range, whose scores are what the head says.
        gamma, unit, outcome: of the targets, see `wrappers.credit.agentprm.action_targets`.
        minibatch_rows: distinct inputs (prompts with replies) per update.
    """

    level: Literal["turn"] = "turn"
    head: Head = "linear"
    head_rate: Positive = 10.0
    loss: ActionLoss = "cross-entropy"
    gamma: Share = 0.95
    unit: Literal["history", "state"] = "history"
    outcome: Literal["won", "return"] = "won"
    minibatch_rows: Size = 128

    def make(self, policy: Any) -> ActionValue:
        """Make the action-value model of a policy, from its weights as they are now."""
        return ActionValue(policy, self)


class ActionValue:
    """Values of actions, learned from finished groups: a `baselines.scorers.scorer.StepScorer`.

    Args:
        policy: whose trunk is copied, as it is now; see `baselines.scorers.critic.Critic`.
        config: see `ActionValueConfig`.

    Raises:
        TypeError: the model has no base model, or no output head to take the width from.
    """

    level: ScoreLevel = "turn"
    order: Literal["after"] = "after"
    takes_forks = True

    def __init__(self, policy: Any, config: ActionValueConfig | None = None) -> None:
        self.config = config or ActionValueConfig()
        self._precision: torch.dtype | None = getattr(policy, "precision", None)
        self.model = value_model(policy, self.config.head)
        self._network = head_network(self.model, self.config, self.config.head_rate, "the action-value model's")

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), Q of each row's reply in its state.

        Exactly 0 before the first update: the sigmoid's .5 would be a claim that nothing supports.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        inputs = Inputs.of(table, "reply")
        every = np.arange(len(inputs.sequences))
        found = inputs.numbers(self.model, self._network, self._precision, every)[inputs.of_row, 0]
        if self.config.loss == "squared" or self.model.silent:
            return found
        values: Floats = expit(found)
        return values

    def update(
        self,
        table: StepTable,
        scores: Floats,
        targets: Floats | None,
        generator: np.random.Generator,
        learning_rate: float,
    ) -> dict[str, float]:
        """Fit the values to targets.

        Args:
            table: what `scores` was asked for: finished groups.
            scores: what it answered, (N,).
            targets: float64 (N,), instead of the settings' own.
            generator: shuffles mini-batches.
            learning_rate: the policy's, see `ActionValueConfig`.

        Returns:
            "prm_loss", mean over the updates; "explained_variance" of the targets by the values before the update.

        Raises:
            ValueError: a target outside 0..1 where the loss is the cross-entropy.
            FloatingPointError: a gradient is not finite, the message names it; the weights are those of the last good
                step. Or the step itself has made a weight that is not finite.
        """
        config, network = self.config, self._network
        if targets is None:
            targets = action_targets(table, gamma=config.gamma, unit=config.unit, outcome=config.outcome)
        if config.loss == "squared":
            self._find_scale(targets)
        elif not ((targets >= 0) & (targets <= 1)).all():
            row = int(np.argmin((targets >= 0) & (targets <= 1)))
            raise ValueError(
                f"the cross-entropy needs targets between 0 and 1; row {row} has {targets[row]}: use outcome='won' or "
                "loss='squared'"
            )
        inputs = Inputs.of(table, "reply")
        network.begin(learning_rate)
        losses: list[Tensor] = []
        for _ in range(config.epochs):
            order = generator.permutation(len(inputs.sequences))
            minibatches = np.array_split(order, -(-len(order) // config.minibatch_rows))
            share = len(table) / len(minibatches)
            for chosen in minibatches:
                network.step(self._losses(inputs, targets, chosen, share, losses))
        network.end()
        # In double precision: the passes of a mini-batch are parts of one sum.
        prm_loss = float(torch.stack(losses).double().sum()) / (config.epochs * len(minibatches))
        return {"prm_loss": prm_loss, "explained_variance": explained_variance(scores, targets)}

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimiser state, as a checkpoint keeps them."""
        return self._network.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._network.load_state_dict(state)

    def describe(self) -> dict[str, Any]:
        """Return the settings, as a checkpoint keeps them."""
        return self._network.describe()

    def _find_scale(self, targets: Floats) -> None:
        """Take the unit from the first targets that are not all 0; until then every value is 0 as well."""
        size = float(np.sqrt(np.mean(targets**2)))
        if size > 0 and self.model.silent:
            self.model.scale.fill_(size)

    def _losses(
        self, inputs: Inputs, targets: Floats, chosen: NDArray[np.int64], share: float, losses: list[Tensor]
    ) -> Iterator[Tensor]:
        """What some inputs add to the gradient, pass by pass; their loss is added to `losses`."""
        for part in self._network.parts(inputs.lengths, chosen, learning=True):
            rows, at = inputs.rows_of(part)
            target = torch.from_numpy(targets[rows]).to(self._network.device)
            said = inputs.predict(self.model, part, self._precision)[torch.from_numpy(at).to(self._network.device), 0]
            loss = action_loss(said, target, self.config.loss).sum() / share
            losses.append(loss.detach())
            # In units of the scale: gradients, and their limit, do not depend on the unit of the rewards.
            yield loss / self.model.scale.square()


def action_loss(said: Tensor, target: Tensor, kind: ActionLoss) -> Tensor:
    """Return what each value is off by: the cross-entropy of a soft label by a logit, or the squared error; any shape.

    >>> action_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.5]), "cross-entropy")
    tensor([0.6931, 0.6931])
    >>> action_loss(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 2.0]), "squared")
    tensor([0.2500, 0.0000])
    """
    target = target.to(said.dtype)
    if kind == "squared":
        return (said - target).square()
    return binary_cross_entropy_with_logits(said, target, reduction="none")
