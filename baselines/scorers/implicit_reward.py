"""Implicit reward: a copy of the policy is fitted to outcomes of episodes; its log-ratio is the step's score.

score of a step = beta * sum over the reply's tokens of log( pi_phi / pi_ref )

`pi_ref` is the policy that played (iStar), whose log-probabilities the replies carry, or the policy's start (PRIME).
The scores of a trajectory are summed, or averaged over its steps, and phi learns from pairs of a won and a lost
trajectory of one task, or from every trajectory's outcome (`baselines.scorers.losses`).

A reply's score is negative on average, by beta * KL(ref || phi). So the sum over a trajectory falls with its number of
steps whenever phi differs at all, and lost episodes are often the long ones. `centre` subtracts that expectation.

Source: the iStar paper (Eqs. 1 and 2, Algorithm 1) and PRIME. Centring is not in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from agentgym.checks import Positive, Size, Weight, fields_checked
from agentgym.trajectory import Floats, Ints, StepTable
from baselines.config import refuse
from baselines.scorers.losses import (
    Pairs,
    PairWeight,
    Reduce,
    cross_entropy,
    outcome_pairs,
    pair_loss,
    trajectory_scores,
)
from baselines.scorers.network import Fit, Losses, joint_losses
from baselines.scorers.replies import Replies, TwinScorer, sampled_logprobs
from baselines.scorers.scorer import ScoreLevel, ScorerConfig
from policies.scoring.tokens import score_with_divergence
from policies.training import frozen, load_trained_state, trained_beside, trained_state


@fields_checked
@dataclass(frozen=True)
class ImplicitRewardConfig(ScorerConfig):
    """Settings of an implicit reward model, in addition to those of `baselines.scorers.scorer.ScorerConfig`.

    Attributes:
        rate: learning rate as a multiple of the policy's; 2 in both papers.
        loss: "pair", preferences between trajectories of one task (iStar), or "ce", cross-entropy of every trajectory's
            outcome (PRIME).
        reduce: a trajectory's score is the "sum" of its steps' (both papers) or their "mean" (iStar's code).
        reference: the log-probabilities that phi's are compared with: those the "sampler" recorded, which need no
            pass, or those of the "start": the policy when the scorer was made, or an adapter's base.
        centre: True subtracts every token's exact expected score under the sampler: one more forward pass, by a copy of
            the policy from when the batch was scored. "group" subtracts the mean over the steps (at level "token": the
            tokens) of the task's trajectories, without another pass.
        order: whether phi learns from a batch "before" it scores it (PRIME) or "after" (iStar).
        minibatch_groups: tasks per update; pairs stay together.
        margin: None: pairs of won and lost. A number: pairs whose returns differ by more than this.
        pair_weight: equal weight for every "task", or for every pair ("flat").
        temperature: that of the rollouts; None: the policy's own.
    """

    rate: float = 2.0
    beta: Positive = 0.05
    loss: Literal["pair", "ce"] = "pair"
    reduce: Reduce = "mean"
    reference: Literal["sampler", "start"] = "sampler"
    centre: Literal[False, True, "group"] = False
    order: Literal["after", "before"] = "after"
    minibatch_groups: Size = 8
    margin: Weight | None = None
    pair_weight: PairWeight = "task"
    temperature: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "False or 'group' with reference='start': only the sampler's own ratio has a known mean"
        refuse(self, "centre", self.centre is not True or self.reference == "sampler", expected)

    def make(self, policy: Any) -> ImplicitReward:
        return ImplicitReward(policy, self)


class ImplicitReward(TwinScorer):
    """A reward model of trajectories that scores every step or token: a `baselines.scorers.replies.TwinScorer`.

    Tasks that were always won, or never, have no pairs. Figures of an update: "prm_loss" and "prm_grad_norm" (before
    clipping), means over the updates, 0 if there was nothing to learn from.
    """

    config: ImplicitRewardConfig

    def __init__(self, policy: Any, config: ImplicitRewardConfig | None = None) -> None:
        super().__init__(policy, config or ImplicitRewardConfig(), "the reward model's")
        self.order = self.config.order
        self._policy = policy
        self._start = frozen(policy) if self.config.reference == "start" else None
        self._played = trained_beside(policy).model if self.config.centre is True else None
        self._references: tuple[StepTable, Floats] | None = None

    @torch.no_grad()
    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), or (N, K), 0 behind a reply's end; exactly 0 until the first update has been made.

        With `centre=True` the policy must be the one that played, because it is copied here for the update.

        Raises:
            ValueError: the table has no replies, a reply no tokens, or no log-probabilities when they are the
                reference.
        """
        config, rows = self.config, Replies.of(table)
        if self._played is not None:
            load_trained_state(self._played, trained_state(self._policy.model))
        if not self._learned:
            # phi equals the reference up to rounding, which a division by a standard deviation would amplify.
            return np.zeros(len(table) if self.level == "turn" else rows.mask.shape)
        found = np.zeros((len(rows.replies), rows.mask.shape[1]))
        for part in self._passes(rows, np.arange(len(rows.replies)), learning=False):
            tokens = self._tokens(rows, part)
            found[part, : tokens.shape[1]] = tokens.cpu().numpy()
        ratios = config.beta * (found[rows.of_row] - self._reference(table, rows))
        if self.level == "token":
            return np.where(rows.mask, ratios - self._means(table, ratios.sum(1), rows)[:, None], 0.0)
        steps: Floats = ratios.sum(1)
        return steps - self._means(table, steps, rows)

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        config, group = self.config, table.trajectory_group
        pairs = outcome_pairs(
            group, table.trajectory_won, table.trajectory_return, margin=config.margin, pair_weight=config.pair_weight
        )
        batch = _Batch.of(table, pairs, self.level, self.device)
        reference = torch.from_numpy(self._reference(table, batch.rows).sum(1)).to(self.device)
        self._references = None
        paired = config.loss == "pair"
        groups = np.unique(group[pairs.better]) if paired else np.arange(table.n_groups)
        whole = float(pairs.weight.sum()) if paired else float(table.n_trajectories)
        return Fit(
            lambda generator: generator.permutation(groups),
            config.minibatch_groups,
            lambda chosen, count: self._losses(batch, reference, chosen, whole / count),
            ("prm_loss", "prm_grad_norm"),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return weights, optimiser state, and the start's weights if they are the reference.

        The copy of the policy for `centre=True` is made again for every batch and is not part of the state.
        """
        state = super().state_dict()
        if self._start_weights:
            state["start"] = {name: value.clone() for name, value in self._start_weights.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self._start is not None and self._start_weights:
            self._start.model.load_state_dict(state["start"], strict=False)

    @property
    def _start_weights(self) -> dict[str, Tensor]:
        if self._start is None or self._start.model is self._policy.model:
            return {}
        own = trained_state(self.model).keys()
        return {name: value for name, value in self._start.model.state_dict().items() if name in own}

    def _passes(self, rows: Replies, chosen: Ints, *, learning: bool) -> list[Ints]:
        return self.passes(rows, chosen, learning=learning, packed=self._played is None)

    def _tokens(self, rows: Replies, part: Ints) -> Tensor:
        if self._played is None:
            return self.logprobs(rows, part)
        logprobs, divergence = score_with_divergence(
            self.model, self._played, [rows.prompts[i] for i in part], [rows.replies[i] for i in part],
            temperature=self.config.temperature or self._policy.settings.temperature or 1.0,
            precision=getattr(self._policy, "precision", None), **rows.restriction(part),
        )  # fmt: skip
        return logprobs + divergence

    def _reference(self, table: StepTable, rows: Replies) -> Floats:
        """The reference log-probabilities, float64 (N, K)."""
        if self._start is None:
            return sampled_logprobs(table, rows.mask)
        if self._references is None or self._references[0] is not table:
            self._references = table, self.reply_logprobs(rows, self._start)
        return self._references[1]

    def _means(self, table: StepTable, steps: Floats, rows: Replies) -> Floats:
        """What `centre="group"` subtracts from every step, or token: float64 (N,)."""
        if self.config.centre != "group":
            return np.zeros(len(table))
        units = np.ones(len(table)) if self.level == "turn" else rows.mask.sum(1)
        return group_means(*map(torch.from_numpy, (steps, units, table.group))).numpy()

    def _losses(self, batch: _Batch, reference: Tensor, chosen: Ints, share: float) -> Losses:
        config, rows = self.config, np.flatnonzero(np.isin(batch.group, chosen))
        input_of = batch.rows.of_row[rows]
        parts = self._passes(batch.rows, np.unique(input_of), learning=True)
        place = np.empty(len(batch.rows.replies), np.int64)
        place[np.concatenate(parts)] = np.arange(sum(map(len, parts)))
        at, row = (torch.from_numpy(array).to(reference.device) for array in (place[input_of], rows))
        member = np.isin(batch.trajectory_group, chosen)

        def loss(numbers: Tensor) -> Tensor:
            steps = config.beta * (numbers[at] - reference[row])
            if config.centre == "group":
                units = batch.units[row]
                steps = steps - units * group_means(steps, units, batch.groups[row])
            totals = trajectory_scores(steps, batch.trajectory[row], len(member), config.reduce)
            if config.loss == "pair":
                return pair_loss(totals, batch.pairs.take(member[batch.pairs.better]), share)
            members = torch.from_numpy(member).to(totals.device)
            return cross_entropy(totals[members], batch.won[members], share)

        return joint_losses(lambda part: self._tokens(batch.rows, part).double().sum(1), parts, loss)


def group_means(values: Tensor, units: Tensor, groups: Tensor) -> Tensor:
    """Return the mean per unit of the values in each row's group, (n,).

    >>> group_means(torch.tensor([1.0, 5.0, 7.0]), torch.tensor([1, 2, 1]), torch.tensor([0, 0, 1]))
    tensor([2., 2., 7.])
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    sums = values.new_zeros(count).index_add(0, groups, values)
    whole = values.new_zeros(count).index_add(0, groups, units.to(values))
    return (sums / whole)[groups]


@dataclass(frozen=True, eq=False)
class _Batch:
    """A table's data for a loss: the distinct replies, and the steps and trajectories they belong to.

    `units` is the number of terms of a row in its group's mean: one step, or the tokens of its reply.
    """

    rows: Replies
    pairs: Pairs
    group: Ints
    trajectory_group: Ints
    groups: Tensor
    trajectory: Tensor
    won: Tensor
    units: Tensor

    @classmethod
    def of(cls, table: StepTable, pairs: Pairs, level: ScoreLevel, device: torch.device) -> _Batch:
        rows = Replies.of(table)
        units = np.ones(len(table)) if level == "turn" else rows.mask.sum(1).astype(np.float64)
        columns = (table.group, table.trajectory, table.trajectory_won, units)
        groups, trajectory, won, unit = (torch.from_numpy(column).to(device) for column in columns)
        return cls(rows, pairs, table.group, table.trajectory_group, groups, trajectory, won, unit)
