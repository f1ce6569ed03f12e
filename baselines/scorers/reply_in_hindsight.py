"""The policy's likelihood of each of its replies when its prompt contains the episode's end (HCAPO's hindsight).

policy           prompt | reply
in hindsight     how it ended, prompt | reply

It is the same policy with another prompt: nothing is trained, and it needs one pass over the replies. The added tokens
stand in front of the prompt (behind a first special token, if there is one), so the prompt's end does not change, and
the reply follows it. `baselines.scorers.hindsight` belongs to another method: a copy that learns from outcomes.

Source: second hand, see docs/credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentgym.checks import fields_checked
from agentgym.trajectory import Floats, Reply, StepTable
from baselines.scorers.hindsight import hindsight_prompt
from baselines.scorers.replies import OwnLikelihood, OwnLikelihoodConfig
from wrappers.credit.scores import reply_lengths


@fields_checked
@dataclass(frozen=True)
class ReplyInHindsightConfig(OwnLikelihoodConfig):
    """Settings of the scorer, in addition to those of `baselines.scorers.replies.OwnLikelihoodConfig`.

    Attributes:
        final: what the prompt is extended by: the final "state", by its key in the table, or the "outcome", in
            words.
        won_text: text of a won episode, with `final="outcome"`.
    """

    final: Literal["state", "outcome"] = "state"
    before: str = "It ended here: "
    after: str = "\n"
    won_text: str = "It ended well.\n"
    lost_text: str = "It ended badly.\n"

    def make(self, policy: Any) -> ReplyInHindsight:
        return ReplyInHindsight(policy, self)


class ReplyInHindsight(OwnLikelihood):
    """Mean log-probability of every reply's tokens, with the end of its episode in the prompt.

    Args:
        policy: see `baselines.scorers.replies.OwnLikelihood`.
    """

    config: ReplyInHindsightConfig

    def __init__(self, policy: Any, config: ReplyInHindsightConfig | None = None) -> None:
        super().__init__(policy, config or ReplyInHindsightConfig())

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), natural logarithms, at most 0.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        return self.likelihoods(table, self.behind_ending(table))

    def behind_ending(self, table: StepTable) -> list[Reply]:
        """Return every reply behind the prompt that it is scored with; if it does not fit, the final state is cut."""
        reply_lengths(table)
        replies: Sequence[Reply] = table.replies  # type: ignore[assignment]  # reply_lengths has seen them
        endings = [self._ending(table, int(row)) for row in table.last]
        first = getattr(self._tokenizer, "bos_token_id", None)
        return [
            replace(reply, prompt_ids=hindsight_prompt(reply, (), endings[trajectory], self.positions, first))
            for reply, trajectory in zip(replies, table.trajectory.tolist(), strict=True)
        ]

    def _ending(self, table: StepTable, last: int) -> tuple[int, ...]:
        config = self.config
        if config.final == "outcome":
            return self.encode(config.won_text if table.won[last] else config.lost_text)
        return self.encode(f"{config.before}{table.states[table.next_state[last]]}{config.after}")
