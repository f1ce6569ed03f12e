"""Scorers that ask the policy itself how likely it finds a text, and learn nothing: what they have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agentgym.checks import fields_checked
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.config import Positive
from baselines.off_policy import rescored
from baselines.scorers.scorer import ScorerConfig, StepScorer
from policies.pretrained import most_positions
from wrappers.credit.scores import reply_entropies


@fields_checked
@dataclass(frozen=True)
class OwnLikelihoodConfig(ScorerConfig):
    """Numbers of a scorer that asks the policy; those of `ScorerConfig` about learning play no part.

    Attributes:
        temperature: what logits are divided by; None: that of the rollouts. A scorer that a trainer makes takes the
            trainer's instead of None.
    """

    level: Literal["turn"] = "turn"
    temperature: Positive | None = None


class OwnLikelihood(StepScorer):
    """A scorer without weights of its own.

    Args:
        policy: the one that plays, asked as it is at the time; with `score` and `tokenizer`, such as
            `policies.huggingface.HuggingFacePolicy`.
    """

    def __init__(self, policy: Any, config: OwnLikelihoodConfig) -> None:
        self.config = config
        self._policy = policy
        self._tokenizer = policy.tokenizer

    def likelihoods(self, table: StepTable, asked: Iterable[Reply]) -> Floats:
        """Return the mean log-probability of the tokens of a text per row, natural logarithm: float64 (N,)."""
        replies = np.fromiter(asked, np.object_, len(table))
        found = rescored(
            self._policy,
            dataclasses.replace(table, replies=replies),
            temperature=self.config.temperature or self._policy.settings.temperature or 1.0,
            tokens_per_pass=self.config.microbatch_tokens,
        )
        return -reply_entropies(found)

    @property
    def positions(self) -> int | None:
        """Most tokens that the policy's model reads; None for no limit."""
        return most_positions(self._policy.model)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text."""
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def describe(self) -> dict[str, Any]:
        unused = {field.name for field in dataclasses.fields(ScorerConfig)}
        settings = dataclasses.asdict(self.config)
        return {"scorer": type(self).__name__} | {name: value for name, value in settings.items() if name not in unused}
