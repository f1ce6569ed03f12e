"""Hindsight model: a copy of the policy reads the episode's outcome and estimates the importance of each reply.

    policy           prompt | reply
    "outcome"        how it ended, prompt | reply
    "cloze"          how it ended, what came after, prompt | reply

The copy is trained on the likelihood of the recorded replies. The added tokens stand in front of the prompt (behind a
first special token, if there is one). So the prompt's end does not change, the reply follows it, and rows that continue
each other still share their beginning. If all of it exceeds the model's positions, the latest steps are cut first, then
the beginning of the prompt.

Source: the HISR paper (Eqs. 4 to 6), whose model is "cloze", without code. There the next observation often names the
action: it is certain in hindsight, and its importance then measures how surprising it was. "outcome" has no such leak.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from agentgym.checks import Positive, Size, fields_checked
from agentgym.trajectory import Floats, Ints, Reply, StepTable
from baselines.scorers.network import Fit, Losses
from baselines.scorers.replies import Replies, TwinScorer, sampled_logprobs
from baselines.scorers.scorer import ScorerConfig
from policies.pretrained import most_positions
from policies.prompts import first_tokens, last_tokens
from wrappers.credit.hisr import importance
from wrappers.credit.scores import reply_lengths


@fields_checked
@dataclass(frozen=True)
class HindsightConfig(ScorerConfig):
    """Settings of a hindsight model, in addition to those of `baselines.scorers.scorer.ScorerConfig`.

    Attributes:
        beta: of `wrappers.credit.hisr.importance`.
        clip: bound of its exponent, None for none.
        hindsight: input of the model: only the "outcome", or also the later steps ("cloze").
        minibatch_rows: distinct rows per update; rows with the same prompt stay together and share its computation.
        temperature: that of the rollouts; None: the policy's own.
        won_text: text of a won episode; its tokens must differ from those of `lost_text`.
    """

    level: Literal["turn"] = "turn"
    beta: Positive = 0.3
    clip: Positive | None = 5.0
    hindsight: Literal["outcome", "cloze"] = "outcome"
    minibatch_rows: Size = 64
    temperature: Positive | None = None
    won_text: str = "Won.\n"
    lost_text: str = "Lost.\n"
    after_text: str = "After: "

    def make(self, policy: Any) -> Hindsight:
        return Hindsight(policy, self)


class Hindsight(TwinScorer):
    """Likelihood ratio of each reply with and without hindsight: a `baselines.scorers.replies.TwinScorer`.

    An update fits the replies of finished episodes, won and lost, by the mean negative log-likelihood per token. Its
    figures: "prm_loss" and "prm_grad_norm" (before clipping), means over the updates; "prm_clipped", the share of
    scores at the bound.

    Args:
        policy: see `TwinScorer`; with a `tokenizer`.

    Raises:
        ValueError: the tokenizer encodes both outcomes to the same tokens.
    """

    config: HindsightConfig

    def __init__(self, policy: Any, config: HindsightConfig | None = None) -> None:
        super().__init__(policy, config or HindsightConfig(), "the hindsight model's")
        self._tokenizer = policy.tokenizer
        self._outcome = [self._encode(text) for text in (self.config.lost_text, self.config.won_text)]
        if self._outcome[0] == self._outcome[1]:
            raise ValueError(
                f"the tokenizer makes the same tokens of {self.config.lost_text!r} and {self.config.won_text!r}: give "
                "lost_text and won_text that it can tell apart"
            )

    def scores(self, table: StepTable) -> Floats:
        """Return the importance of every reply, float64 (N,), above 0; exactly 1 until the first update has been made.

        Raises:
            ValueError: the table has no replies, or a reply no tokens or log-probabilities.
        """
        rows = Replies.of(table, self.prompts(table))
        played = sampled_logprobs(table, rows.mask)
        if not self._learned:
            return np.ones(len(table))
        return importance(played, self.reply_logprobs(rows), rows.mask, beta=self.config.beta, clip=self.config.clip)

    def fit(self, table: StepTable, scores: Floats, targets: Floats | None) -> Fit:
        rows = Replies.of(table, self.prompts(table))
        copies = np.bincount(rows.of_row, minlength=len(rows.replies))

        def losses(chosen: Ints, count: int) -> Losses:
            for part in self.passes(rows, chosen, learning=True):
                logprobs = self.logprobs(rows, part).double().sum(1)
                loss = -(logprobs * torch.from_numpy(copies[part]).to(logprobs)).sum() / (rows.mask.sum() / count)
                yield loss, float(loss.detach())

        bound = np.inf if self.config.clip is None else self.config.clip
        clipped = float((np.abs(np.log(scores)) > bound - 1e-9).mean())
        reports = ("prm_loss", "prm_grad_norm")
        return Fit(rows.by_prompt, self.config.minibatch_rows, losses, reports, {"prm_clipped": clipped})

    def prompts(self, table: StepTable) -> list[tuple[int, ...]]:
        """Return the model's input before each row's reply, N sequences of token ids.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        reply_lengths(table)
        replies: Sequence[Reply] = table.replies  # type: ignore[assignment]  # reply_lengths has seen them
        after = self._after(table, replies) if self.config.hindsight == "cloze" else [()] * len(table)
        positions = most_positions(self.model)
        first = getattr(self._tokenizer, "bos_token_id", None)
        return [
            hindsight_prompt(reply, self._outcome[int(table.won[row])], after[row], positions, first)
            for row, reply in enumerate(replies)
        ]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _after(self, table: StepTable, replies: Sequence[Reply]) -> list[tuple[int, ...]]:
        begin, end = self._encode(self.config.after_text), self._encode("\n")
        found: list[tuple[int, ...]] = [()] * len(table)
        for low, high in zip(table.offsets[:-1], table.offsets[1:], strict=True):
            steps = table.order[low:high].tolist()
            seen = [new_tokens(replies[a], replies[b].prompt_ids) for a, b in itertools.pairwise(steps)]
            for place, row in enumerate(steps[:-1]):
                own, later = replies[row].token_ids, zip(seen[place:], steps[place + 1 :], strict=True)
                after = [token for new, step in later for token in (*without(new, own), *replies[step].token_ids)]
                found[row] = (*begin, *after, *end)
        return found


def hindsight_prompt(
    reply: Reply, known: tuple[int, ...], further: tuple[int, ...], positions: int | None, first: int | None
) -> tuple[int, ...]:
    """Return a reply's prompt with the hindsight tokens in front of it.

    >>> hindsight_prompt(Reply("", (1, 5, 6), (7,)), (8,), (9, 9), positions=6, first=1)
    (1, 8, 9, 5, 6)
    """
    special = int(first is not None and reply.prompt_ids[:1] == (first,))
    prompt = reply.prompt_ids[special:]
    if positions is not None:
        room = max(positions - special - len(known) - len(reply.token_ids), 1)
        prompt = last_tokens(prompt, room)
        further = first_tokens(further, room - len(prompt))
    return reply.prompt_ids[:special] + known + further + prompt


def new_tokens(before: Reply, prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Return the new tokens of a prompt after the previous prompt and reply: without their common beginning and end.

    >>> new_tokens(Reply("", (1, 2, 9), (7,)), (1, 2, 9, 7, 3, 9)), new_tokens(Reply("", (1, 2, 9), (7,)), (1, 3, 9))
    ((3,), (3,))
    """
    known = before.prompt_ids + before.token_ids
    if prompt[: len(known)] != known:
        known = before.prompt_ids
    start = next(
        (i for i, (a, b) in enumerate(zip(known, prompt, strict=False)) if a != b), min(len(known), len(prompt))
    )
    rest, tail = prompt[start:], before.prompt_ids[start:] or before.prompt_ids
    same = next(
        (i for i, (a, b) in enumerate(zip(rest[::-1], tail[::-1], strict=False)) if a != b), min(len(rest), len(tail))
    )
    return rest[: len(rest) - same]


def without(tokens: tuple[int, ...], cut: tuple[int, ...]) -> tuple[int, ...]:
    """Return tokens without any occurrence of the sequence `cut`.

    >>> without((1, 2, 3, 1, 2), (1, 2))
    (3,)
    """
    kept: list[int] = []
    place = 0
    while place < len(tokens):
        if tokens[place : place + len(cut)] == cut:
            place += len(cut)
        else:
            kept.append(tokens[place])
            place += 1
    return tuple(kept)
