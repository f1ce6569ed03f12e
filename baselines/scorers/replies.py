"""Scorers that read replies with the policy itself (`OwnLikelihood`), or with a copy that learns (`TwinScorer`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from agentgym.checks import Positive, fields_checked
from agentgym.trajectory import Bools, Floats, Ints, Reply, StepTable
from baselines.off_policy import rescored
from baselines.scorers.network import NetworkScorer, shuffled_together
from baselines.scorers.scorer import ScorerConfig, StepScorer
from policies.pretrained import most_positions
from policies.scoring.packed import can_pack, rows_per_pass
from policies.training import trained_beside
from wrappers.credit.scores import reply_entropies, reply_lengths


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
            prompts: prompts that the model reads instead of the recorded ones; None: the recorded ones.

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
            [prompt for prompt, _, _ in index], [reply for _, reply, _ in index],
            [allowed for _, _, allowed in index] if restricted else (), of_row,
            np.array([len(prompt) + len(reply) for prompt, reply, _ in index], np.int64),
            np.arange(tokens.max(initial=1)) < tokens[:, None],
        )  # fmt: skip

    def by_prompt(self, generator: np.random.Generator) -> Ints:
        """Return all row numbers, int64 (n,): prompts are shuffled, rows of equal prompts stay together."""
        index: dict[tuple[int, ...], int] = {}
        of_prompt = [index.setdefault(prompt, len(index)) for prompt in self.prompts]
        return shuffled_together(np.array(of_prompt, np.int64), generator)

    def restriction(self, part: Ints) -> dict[str, Any]:
        """Return the argument `allowed` of a scoring function, if some reply was restricted."""
        return {"allowed": [self.allowed[i] for i in part]} if self.allowed else {}


class TwinScorer(NetworkScorer):
    """Log-likelihoods of replies under a copy of the policy that is trained together with it.

    Args:
        policy: its model is copied in its current state; with `model` and `score`, such as
            `policies.huggingface.HuggingFacePolicy`. With an adapter the copy is a second adapter on the same base.
        config: its settings; a `temperature` among them is that of the rollouts, None: the policy's own.
    """

    def __init__(self, policy: Any, config: ScorerConfig, name: str) -> None:
        self.twin = trained_beside(policy)
        weights = [value for value in self.twin.model.parameters() if value.requires_grad]
        super().__init__(config, self.twin.model, [(weights, config.rate)], name)

    def passes(self, rows: Replies, chosen: Ints, *, learning: bool, packed: bool = True) -> list[Ints]:
        """Cut some of the rows into passes.

        Args:
            chosen: int64 (m,), row numbers.
            packed: whether rows may share sequences, see `policies.scoring.packed.score_packed`.
        """
        tokens = self.config.microbatch_tokens
        if tokens is None or not (packed and self._packs(rows)):
            return self.parts(rows.lengths, chosen[np.argsort(rows.lengths[chosen], kind="stable")], learning=learning)
        size = (self.config.microbatch_rows if learning else None) or max(len(chosen), 1)
        parts = [chosen[low : low + size] for low in range(0, len(chosen), size)]
        return [
            part[divided]
            for part in parts
            for divided in rows_per_pass([rows.prompts[i] for i in part], [rows.replies[i] for i in part], tokens)
        ]

    def logprobs(self, rows: Replies, part: Ints, policy: Any = None) -> Tensor:
        """Return the log-probabilities of the tokens of one pass, float32 (len(part), L), 0 behind a reply's end.

        Args:
            policy: computes them, by its `score`; None: the copy.
        """
        given: dict[str, Any] = rows.restriction(part)
        if self._packs(rows):
            given["tokens_per_pass"] = self.config.microbatch_tokens
        prompts, replies = [rows.prompts[i] for i in part], [rows.replies[i] for i in part]
        temperature = getattr(self.config, "temperature", None)
        return (policy or self.twin).score(prompts, replies, temperature, entropy=False, **given).logprobs

    @torch.no_grad()
    def reply_logprobs(self, rows: Replies, policy: Any = None) -> Floats:
        """Return the log-probabilities of every table row's reply tokens, float64 (N, K), 0 behind its end."""
        found = np.zeros((len(rows.replies), rows.mask.shape[1]))
        for part in self.passes(rows, np.arange(len(rows.replies)), learning=False):
            scored = self.logprobs(rows, part, policy)
            found[part, : scored.shape[1]] = scored.cpu().numpy()
        return found[rows.of_row]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"learned": self._learned}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._learned = bool(state["learned"])

    def _packs(self, rows: Replies) -> bool:
        return self.config.microbatch_tokens is not None and not rows.allowed and can_pack(self.model, None)


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
                "log-ratio to the policy that played needs the log-probabilities of sampling, see Reply.logprobs"
            )
        found[row, : len(reply.logprobs)] = reply.logprobs
    return found


@fields_checked
@dataclass(frozen=True)
class OwnLikelihoodConfig(ScorerConfig):
    """Settings of a scorer that uses the policy; those of `ScorerConfig` about learning have no effect.

    Attributes:
        temperature: divisor of the logits; None: that of the rollouts, in a trainer's scorer the trainer's.
    """

    level: Literal["turn"] = "turn"
    temperature: Positive | None = None


class OwnLikelihood(StepScorer):
    """A scorer that uses the policy's own likelihoods and has no weights.

    Args:
        policy: the one that plays, with its weights at the time of the call; with `score` and `tokenizer`, such as
            `policies.huggingface.HuggingFacePolicy`.
    """

    def __init__(self, policy: Any, config: OwnLikelihoodConfig) -> None:
        self.config = config
        self._policy = policy
        self._tokenizer = policy.tokenizer

    def likelihoods(self, table: StepTable, texts: Iterable[Reply]) -> Floats:
        """Return the mean log-probability of the tokens of a text per row, natural logarithm: float64 (N,)."""
        replies = np.fromiter(texts, np.object_, len(table))
        found = rescored(
            self._policy,
            replace(table, replies=replies),
            temperature=self.temperature,
            tokens_per_pass=self.config.microbatch_tokens,
        )
        return -reply_entropies(found)

    @property
    def temperature(self) -> float:
        return self.config.temperature or self._policy.settings.temperature or 1.0

    @property
    def positions(self) -> int | None:
        """Most tokens that the policy's model reads; None for no limit."""
        return most_positions(self._policy.model)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text."""
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def describe(self) -> dict[str, Any]:
        unused = {field.name for field in fields(ScorerConfig)}
        settings = asdict(self.config)
        return {"scorer": type(self).__name__} | {name: value for name, value in settings.items() if name not in unused}
