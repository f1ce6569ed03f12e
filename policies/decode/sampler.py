"""Sampling of replies: the protocol of samplers (`Sampler`), and how a token is drawn."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from policies.decode.batch import READ_TOKENS, PaddedBatch
from policies.decode.kept import TokenCounts
from policies.prompts import Prompt
from policies.scoring.head import logits_at, pad, rectangles, restrict


@dataclass
class Completion:
    """The model's continuation of one prompt.

    Attributes:
        token_ids: the sampled tokens, the end token included when it was drawn.
        logprobs: their log-probabilities at the sampling temperature (natural logarithm), one per token.
        finish: "stop" when the end test ended it, "length" when the limit did.
        allowed: token ids from which each token was drawn; empty if it was drawn from all.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["", "stop", "length"] = ""
    allowed: list[tuple[int, ...]] = field(default_factory=list)


class Restriction(Protocol):
    """Restricts the tokens of a reply; see `policies.decode.reply.CommandTokens`."""

    def allowed(self, token_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the token ids that may follow these tokens of a reply, at least one."""


@dataclass(frozen=True)
class Decoding:
    """How to sample.

    Attributes:
        temperature: divides the logits; 0 takes the most probable token (log-probabilities are then those at 1).
        is_end: called with the tokens so far; True ends the reply.
        precision: type to compute in, None for the weights' own.
        ends: token ids that end a reply, for samplers that cannot call `is_end`.
        stop: texts that end a reply, for the same samplers.
    """

    temperature: float
    max_new_tokens: int
    is_end: Callable[[Sequence[int]], bool]
    fill: int
    batch_size: int
    precision: torch.dtype | None = None
    ends: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()


class Sampler(Protocol):
    """Generates replies: the loop over the model itself, or an engine with its own copy of the weights."""

    def write(
        self,
        prompts: Sequence[Prompt],
        draws: NDArray[np.float64] | None,
        decoding: Decoding,
        restrictions: Sequence[Restriction | None] | None = None,
    ) -> list[Completion]:
        """Write one completion per prompt, n tuples of token ids.

        `draws`, float64 (n, max_new_tokens) in [0, 1), determine the sampled tokens, or an engine's seeds; None: greedy
        decoding. `restrictions` limit each completion, None: no limit. A sampler that cannot restrict raises a
        ValueError.
        """

    def follow(self, model: nn.Module, version: int) -> None:
        """Take over the weights of `model`; does nothing if `version` has not changed.

        Raises:
            RuntimeError: the engine did not load them.
        """


def allowed_next(
    completions: Sequence[Completion], rows: Sequence[int], restrictions: Sequence[Restriction | None] | None
) -> list[tuple[int, ...]] | None:
    """Return the tokens allowed next in some completions, () for any token; None if none is restricted."""
    if restrictions is None:
        return None
    limits = ((completions[i], restrictions[i]) for i in rows)
    return [() if limit is None else limit.allowed(one.token_ids) for one, limit in limits]


def append_tokens(
    completions: Sequence[Completion],
    rows: Sequence[int],
    tokens: Tensor,
    logprobs: Tensor,
    allowed: Sequence[tuple[int, ...]] | None,
    decoding: Decoding,
) -> list[int]:
    """Add a token to some completions; return the positions in `rows` of the unfinished ones.

    Raises:
        FloatingPointError: the logits of a token held nan or infinity.
    """
    going = []
    # One transfer: token ids are exact in double precision.
    drawn, found = torch.stack([tokens.double(), logprobs.double()]).tolist()
    for place, (i, token, logprob) in enumerate(zip(rows, drawn, found, strict=True)):
        if math.isnan(logprob):
            raise FloatingPointError("the model's logits are not numbers")
        completion = completions[i]
        completion.token_ids.append(int(token))
        completion.logprobs.append(logprob)
        if allowed is not None and allowed[place]:
            completion.allowed.append(allowed[place])
        if decoding.is_end(completion.token_ids):
            completion.finish = "stop"
        elif len(completion.token_ids) == decoding.max_new_tokens:
            completion.finish = "length"
        else:
            going.append(place)
    return going


def pick(
    logits: Tensor, uniforms: Tensor | None, temperature: float, allowed: Sequence[tuple[int, ...]] | None = None
) -> tuple[Tensor, Tensor]:
    """Choose one token per row of logits, float32 (n, V), by the inverse of the cumulative distribution.

    Returns:
        `tokens` int64 (n,) and `logprobs` float32 (n,) at the temperature (at 1 when greedy), among what is `allowed`
        (`policies.scoring.head.restrict`); nan where the logits of a row hold nan or infinity.

    With `uniforms`, float64 (n,), and probabilities 1/4, 1/4, 1/2:

    >>> logits = torch.tensor([[0.25, 0.25, 0.5]]).log().expand(3, 3)
    >>> pick(logits, torch.tensor([0.24, 0.26, 0.51], dtype=torch.float64), 1.0)[0].tolist()
    [0, 1, 2]
    """
    if allowed is not None:
        logits = restrict(logits, allowed)
    logprobs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    if uniforms is None:
        tokens = logprobs.argmax(dim=-1)
    else:
        cumulative = logprobs.double().exp().cumsum(dim=-1)
        total = cumulative[:, -1]
        # Strictly below the total, so that rounding can never select a token past the last possible one.
        target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
        # The last token, where nan has no place among the sums.
        tokens = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0].clamp(max=logits.shape[1] - 1)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


@torch.no_grad()
def first_logits(
    model: Any, prompts: Sequence[Prompt], decoding: Decoding, counts: TokenCounts | None = None
) -> Tensor:
    """Return the logits of the first reply token, float32 (n, V) for n prompts, without a cache."""
    device = next(model.parameters()).device
    # Prompts of similar length share a pass, so there is little padding.
    passes = rectangles([len(prompt) for prompt in prompts], READ_TOKENS, decoding.batch_size)
    parts = []
    for rows_of_pass in passes:
        chunk = [prompts[i] for i in rows_of_pass]
        ids, mask = pad(chunk, fill=decoding.fill, left=False, device=device)
        rows = torch.arange(len(chunk), device=device)
        if counts is not None:
            counts.prompts, counts.read = counts.prompts + sum(map(len, chunk)), counts.read + ids.numel()
        parts.append(logits_at(model, ids, rows, mask.sum(1) - 1, use_cache=False))
    order = torch.tensor([i for rows_of_pass in passes for i in rows_of_pass]).to(device, non_blocking=True)
    return torch.cat(parts)[order.argsort()]


@torch.no_grad()
def complete(
    model: Any,
    prompts: Sequence[Prompt],
    uniforms: NDArray[np.float64] | None,
    decoding: Decoding,
    restrictions: Sequence[Restriction | None] | None = None,
    counts: TokenCounts | None = None,
) -> list[Completion]:
    """Write one completion per prompt, as `Sampler.write` does, without a cache; for any model.

    The tokens of prompt i depend only on it and on row i of `uniforms`, up to rounding. `counts` is updated.
    """
    completions = [Completion() for _ in prompts]
    # Sorting puts equal prompts into the same pass.
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), prompts[i]))
    for start in range(0, len(order), decoding.batch_size):
        indices = order[start : start + decoding.batch_size]
        _complete_chunk(model, prompts, indices, uniforms, decoding, completions, restrictions, counts)
    return completions


def _complete_chunk(
    model: Any, prompts: Sequence[Prompt], indices: list[int], uniforms: NDArray[np.float64] | None, decoding: Decoding,
    completions: list[Completion], restrictions: Sequence[Restriction | None] | None, counts: TokenCounts | None,
) -> None:  # fmt: skip
    batch = PaddedBatch(model, [prompts[i] for i in indices], decoding.fill, counts)
    live = indices
    draws = None if uniforms is None else torch.from_numpy(uniforms[live]).to(batch.logits.device, non_blocking=True)
    for step in range(decoding.max_new_tokens):
        allowed = allowed_next(completions, live, restrictions)
        tokens, logprobs = pick(batch.logits, None if draws is None else draws[:, step], decoding.temperature, allowed)
        keep = append_tokens(completions, live, tokens, logprobs, allowed, decoding)
        if not keep:
            return
        if len(keep) < len(live):
            keep, chosen = batch.keep(keep)
            tokens, live = tokens[chosen], [live[row] for row in keep]
            draws = None if draws is None else draws[chosen]
        batch.append(tokens)
