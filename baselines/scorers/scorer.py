"""StepScorer: a score for every step or reply token, from a model that may be trained together with the policy.

    table -> scores -> credit.estimate(table, scores) -> advantages, targets
                                                                       |
                                  update(table, scores, targets) <-----+    after the policy's update

With `order` "before" it first learns from the table, without targets, and then scores it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from agentgym.checks import Checked, Positive, Size, Weight, fields_checked
from agentgym.trajectory import Floats, StepTable

#: Whether scores are of steps (N,), or of reply tokens (N, K).
ScoreLevel = Literal["turn", "token"]
#: Limits of a pass that a scorer without its own limits takes from its trainer, as it takes the temperature.
SHARED_LIMITS = ("microbatch_rows", "microbatch_tokens", "activation_checkpointing")


@dataclass(frozen=True, eq=False)
class Estimate:
    """Result of a credit method with scores, in the order of the table's rows.

    Attributes:
        advantages: float64 (N,), or (N, K): per reply token, 0 behind a reply's end; nan: not scored.
        targets: desired values of the scores, in their shape, such as a critic's returns; None: the scorer makes its
            own.
        figures: entries of the iteration's row about the scores.
    """

    advantages: Floats
    targets: Floats | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


class StepScorer:
    """Scores the steps of finished groups; the base of all scorers, which neither learns nor has a state.

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

        nan: not scored. This changes neither the scorer's weights nor the table.
        """
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Learn from a table of finished groups; return figures for the iteration's row.

        Args:
            targets: the credit method's desired values of the scores, in their shape, such as a critic's returns; None:
                the scorer makes its own.
            learning_rate: the policy's; the scorer's is a multiple of it.

        Raises:
            FloatingPointError: a gradient is not finite; the message names it, and the weights are those of the last
                valid step. Or the step itself has produced a weight that is not finite.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs: nested tensors and plain values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the result of `state_dict`."""

    def describe(self) -> dict[str, Any]:
        """Return the settings as nested plain values, for checkpoints."""
        return {}


@fields_checked
@dataclass(frozen=True)
class ScorerConfig(Checked):
    """Settings of a scorer that has a network; a subclass adds its own and makes the scorer.

    Attributes:
        level: what the scores are of, a step ("turn") or each reply token ("token"). A recipe sets what it needs.
        rate: learning rate as a multiple of the policy's, whose schedule it follows.
        epochs: passes over the batch per iteration.
        microbatch_rows: distinct inputs per forward and backward pass; None: a mini-batch at once. In a trainer's
            scorer None means the trainer's number.
        microbatch_tokens: tokens per pass, padding included, with and without gradients; an input that is longer has a
            pass to itself. None: no such limit. In a trainer's scorer None means the trainer's number.
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

    def filled(self, **shared: Any) -> Self:
        """Return the settings with shared values, of a trainer or a scorer of several models, in place of None."""
        missing = {name: value for name, value in shared.items() if getattr(self, name, False) is None}
        return dataclasses.replace(self, **missing)

    def make(self, policy: Any) -> StepScorer:
        """Make the scorer of a policy, from the policy's current weights."""
        raise NotImplementedError(f"{type(self).__name__} makes no scorer")

    def check_envs(self, make: Callable[[], Any]) -> None:
        """Raise ValueError if the environments that `make` returns lack what the scorer needs; most need nothing."""

    def around(self, envs: Any) -> Any:
        """Return the vector environments with the wrappers that record data for the scorer; most need none."""
        return envs

    def make_in(self, policy: Any, envs: Any) -> StepScorer:
        """Make the scorer of a policy that plays in these environments; most scorers ignore the environments."""
        return self.make(policy)
