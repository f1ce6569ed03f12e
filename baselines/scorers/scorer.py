"""StepScorer: a number for every step or reply token, from a model that may be trained together with the policy.

    table -> scores -> credit.estimate(table, scores) -> advantages, targets
                                                                       |
                                  update(table, scores, targets) <-----+    after the policy's update

With `order` "before" it learns from the table first, without targets, and scores it then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from agentgym.checks import fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.config import Positive, Size, Weight, check_fields

#: What a score is of: every step (N,), or every reply token (N, K).
ScoreLevel = Literal["turn", "token"]
#: Limits of a pass that a scorer without its own limits takes from its trainer, as it takes the temperature.
SHARED_LIMITS = ("microbatch_rows", "microbatch_tokens", "activation_checkpointing")


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a credit method makes of scores, in the order of the table's rows.

    Attributes:
        advantages: float64 (N,), or (N, K): per reply token, 0 behind a reply's end; nan: not scored.
        targets: what the scores should have been, in their shape, as a critic's returns; None: the scorer knows by
            itself what it learns.
        figures: entries of the iteration's row about the scores.
    """

    advantages: Floats
    targets: Floats | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


class StepScorer:
    """Scores the steps of finished groups; the base of all scorers, which learns nothing and keeps nothing.

    Attributes:
        order: whether it learns from a batch "before" it scores it, or "after".
        takes_forks: whether it reads only rows or state graphs, and no whole trajectories; others get no table with
            forks.
    """

    level: ScoreLevel = "turn"
    order: Literal["before", "after"] = "after"
    takes_forks = False

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), a number per row, or (N, K), one per reply token, 0 behind a reply's end.

        nan: not scored. Nothing learns here, and the table is not changed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Learn from a table of finished groups; return figures for the iteration's row.

        Args:
            targets: what the credit method wants the scores to be, in their shape, as a critic's returns; None: the
                scorer makes its own.
            learning_rate: the policy's; the scorer's is a multiple of it.

        Raises:
            FloatingPointError: a gradient is not finite, the message names it; the weights are those of the last good
                step. Or the step itself has made a weight that is not finite.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return nested tensors and plain values, all that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""

    def describe(self) -> dict[str, Any]:
        """Return the settings, plain and nested, as a checkpoint keeps them."""
        return {}


@fields_checked
@dataclass(frozen=True)
class ScorerConfig:
    """Numbers of a scorer that has a network; a subclass adds its own and makes the scorer.

    Attributes:
        level: what the scores are of, a step ("turn") or each reply token ("token"). A recipe sets what it needs.
        rate: learning rate as a multiple of the policy's, whose schedule it follows.
        epochs: passes over the batch per iteration.
        microbatch_rows: distinct inputs per forward and backward pass; None: a mini-batch at once. A scorer that a
            trainer makes takes the trainer's instead of None.
        microbatch_tokens: tokens per pass, padding included, with and without gradients; an input that is longer has a
            pass to itself. None: no such limit. A scorer that a trainer makes takes the trainer's instead of None.
        activation_checkpointing: see `baselines.config.Memory`; likewise.
        max_grad_norm: gradients are scaled down to this Euclidean norm.
    """

    level: ScoreLevel = "turn"
    rate: Positive = 1.0
    epochs: Size = 1
    microbatch_rows: Size | None = None
    microbatch_tokens: Size | None = None
    activation_checkpointing: bool | None = None
    max_grad_norm: Positive = 1.0
    weight_decay: Weight = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    def filled(self, **shared: Any) -> Self:
        """Return the settings with what is shared, by a trainer or a scorer of several, where they hold None."""
        missing = {name: value for name, value in shared.items() if getattr(self, name, False) is None}
        return dataclasses.replace(self, **missing)

    def make(self, policy: Any) -> StepScorer:
        """Make the scorer of a policy, from the policy's current weights."""
        raise NotImplementedError(f"{type(self).__name__} makes no scorer")

    def check_envs(self, make: Callable[[], Any]) -> None:
        """Raise ValueError where environments, made by `make`, lack what the scorer asks of them; most ask nothing."""

    def around(self, envs: Any) -> Any:
        """Return the vector environments with what the scorer must note while they are played; most note nothing."""
        return envs

    def make_in(self, policy: Any, envs: Any) -> StepScorer:
        """Make the scorer of a policy that plays in these environments; most scorers ignore the environments."""
        return self.make(policy)
