"""Replies of a table for a model to score: equal ones once, in passes that fit memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trajectory import Bools, Floats, Ints, Reply, StepTable
from baselines.scorers.network import Network, shuffled_together
from policies.scoring.packed import can_pack, rows_per_pass
from wrappers.credit.scores import reply_lengths


@dataclass(frozen=True, eq=False)
class Replies:
    """n distinct (prompt, reply) rows of a table of N.

    Attributes:
        prompts: token ids of each prompt, ragged, length n.
        replies: token ids of each reply, ragged, length n.
        allowed: `Reply.allowed` of each, length n; empty where no reply was restricted.
        of_row: int64 (N,), each table row's number here.
        lengths: int64 (n,), tokens of prompt and reply.
        mask: bool (N, K), the tokens of each table row's reply.
    """

    prompts: Sequence[tuple[int, ...]]
    replies: Sequence[tuple[int, ...]]
    allowed: Sequence[tuple[tuple[int, ...], ...]]
    of_row: Ints
    lengths: Ints
    mask: Bools

    @classmethod
    def of(cls, table: StepTable, prompts: Sequence[tuple[int, ...]] | None = None) -> Replies:
        """Collect the replies of a table.

        Args:
            table: N rows.
            prompts: what each row's model reads instead of the prompt that was answered; None: that.

        Raises:
            ValueError: the table has no replies, or a reply no tokens.
        """
        tokens = reply_lengths(table)
        replies: Sequence[Reply] = table.replies  # type: ignore[assignment]  # reply_lengths has seen them
        index: dict[tuple[Any, ...], int] = {}
        of_row = np.empty(len(table), np.int64)
        for row, reply in enumerate(replies):
            prompt = reply.prompt_ids if prompts is None else prompts[row]
            of_row[row] = index.setdefault((prompt, reply.token_ids, reply.allowed), len(index))
        restricted = any(allowed for _, _, allowed in index)
        return cls(
            [prompt for prompt, _, _ in index],
            [reply for _, reply, _ in index],
            [allowed for _, _, allowed in index] if restricted else (),
            of_row,
            np.array([len(prompt) + len(reply) for prompt, reply, _ in index], np.int64),
            np.arange(tokens.max(initial=1)) < tokens[:, None],
        )

    def by_prompt(self, generator: np.random.Generator) -> Ints:
        """Return all row numbers, int64 (n,): prompts are shuffled, rows of equal prompts stay together."""
        index: dict[tuple[int, ...], int] = {}
        of_prompt = [index.setdefault(prompt, len(index)) for prompt in self.prompts]
        return shuffled_together(np.array(of_prompt, np.int64), generator)

    def passes(
        self, network: Network, chosen: NDArray[np.int64], *, learning: bool, packed: bool = True
    ) -> list[NDArray[np.int64]]:
        """Cut some of the rows into passes.

        Args:
            network: whose limits there are.
            chosen: int64 (m,), row numbers.
            learning: whether gradients are kept.
            packed: whether rows may share sequences, see `policies.scoring.packed.score_packed`.
        """
        tokens = network.config.microbatch_tokens
        if tokens is None or not self._packs(network, packed):
            return network.parts(
                self.lengths, chosen[np.argsort(self.lengths[chosen], kind="stable")], learning=learning
            )
        rows = (network.config.microbatch_rows if learning else None) or max(len(chosen), 1)
        parts = [chosen[low : low + rows] for low in range(0, len(chosen), rows)]
        return [
            part[divided]
            for part in parts
            for divided in rows_per_pass([self.prompts[i] for i in part], [self.replies[i] for i in part], tokens)
        ]

    def logprobs(self, policy: Any, network: Network, part: NDArray[np.int64], temperature: float | None) -> Tensor:
        """Return the log-probabilities of the tokens of one pass, float32 (len(part), L), 0 behind a reply's end.

        Args:
            policy: whose they are, with `score`.
            network: whose limits the pass was cut by.
            part: one of `passes`.
            temperature: see `policies.huggingface.HuggingFacePolicy.score`.
        """
        given: dict[str, Any] = self.restriction(part)
        if self._packs(network, True):
            given["tokens_per_pass"] = network.config.microbatch_tokens
        prompts, replies = [self.prompts[i] for i in part], [self.replies[i] for i in part]
        found: Tensor = policy.score(prompts, replies, temperature, entropy=False, **given).logprobs
        return found

    def restriction(self, part: NDArray[np.int64]) -> dict[str, Any]:
        """Return the argument `allowed` of a scoring function, where some reply was restricted."""
        return {"allowed": [self.allowed[i] for i in part]} if self.allowed else {}

    def _packs(self, network: Network, packed: bool) -> bool:
        limited = network.config.microbatch_tokens is not None
        return packed and limited and not self.allowed and can_pack(network.model, None)


@torch.no_grad()
def reply_logprobs(rows: Replies, policy: Any, network: Network, temperature: float | None) -> Floats:
    """Return the log-probabilities of every table row's reply tokens, float64 (N, K), 0 behind its end."""
    found = np.zeros((len(rows.replies), rows.mask.shape[1]))
    for part in rows.passes(network, np.arange(len(rows.replies)), learning=False):
        scored = rows.logprobs(policy, network, part, temperature)
        found[part, : scored.shape[1]] = scored.cpu().numpy()
    return found[rows.of_row]


def sampled_logprobs(table: StepTable, mask: Bools) -> Floats:
    """Return `Reply.logprobs` of every row, float64 (N, K), 0 behind a reply's end.

    Raises:
        ValueError: a reply has none.
    """
    found = np.zeros(mask.shape)
    for row, reply in enumerate(table.replies):  # type: ignore[arg-type]  # there are: the mask is of them
        if len(reply.logprobs) != len(reply.token_ids):
            raise ValueError(
                f"row {row} has {len(reply.token_ids)} reply tokens and {len(reply.logprobs)} log-probabilities: a "
                "log-ratio to the policy that played needs those that it sampled with, see Reply.logprobs"
            )
        found[row, : len(reply.logprobs)] = reply.logprobs
    return found
