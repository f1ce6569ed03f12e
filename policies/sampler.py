"""Sampling of replies: one prefill per distinct prompt, then a decode loop over the key-value cache.

Where a reply is one token, a `LogitsCache` answers repeated prompts without the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from policies.head import autocast, logits_at, pad, takes_positions
from policies.prompts import Prompt

#: Entries of a `LogitsCache` are float32 rows over the vocabulary; 2**24 numbers are 64 MiB.
_MOST_NUMBERS = 2**24


@dataclass
class Completion:
    """What the model wrote after one prompt.

    Attributes:
        token_ids: the sampled tokens, the end token included when it was drawn.
        logprobs: their log-probabilities at the sampling temperature (natural logarithm), one per token.
    """

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Decoding:
    """How to sample.

    Attributes:
        temperature: divides the logits; 0 takes the most probable token (log-probabilities are then those at 1).
        max_new_tokens: length limit.
        is_end: called with the tokens so far; True ends the reply.
        fill: token id for the padding.
        batch_size: prompts per forward pass.
        precision: autocast type, None for the weights' own.
    """

    temperature: float
    max_new_tokens: int
    is_end: Callable[[Sequence[int]], bool]
    fill: int
    batch_size: int
    precision: torch.dtype | None = None


def pick(logits: Tensor, uniforms: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
    """Choose one token per row by the inverse of the cumulative distribution.

    Args:
        logits: float32 (n, V).
        uniforms: float64 (n,) in [0, 1); None when the temperature is 0.
        temperature: 0 = greedy.

    Returns:
        `tokens` int64 (n,) and `logprobs` float32 (n,) at the temperature (at 1 when greedy).

    Raises:
        FloatingPointError: the logits hold nan or infinity.

    Example:
        Probabilities 1/4, 1/4, 1/2: the numbers below 0.25 give token 0, those from 0.5 on token 2.

        >>> logits = torch.tensor([[0.25, 0.25, 0.5]]).log().expand(3, 3)
        >>> pick(logits, torch.tensor([0.24, 0.26, 0.51], dtype=torch.float64), 1.0)[0].tolist()
        [0, 1, 2]
    """
    logprobs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    if bool(torch.isnan(logprobs[:, 0]).any()):  # one nan or +inf makes a whole row nan
        raise FloatingPointError("the model's logits are not numbers")
    if uniforms is None:
        tokens = logprobs.argmax(dim=-1)
    else:
        cumulative = logprobs.double().exp().cumsum(dim=-1)
        total = cumulative[:, -1]
        # Strictly below the total, so that rounding can never select a token past the last possible one.
        target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
        tokens = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


@torch.no_grad()
def first_logits(model: Any, prompts: Sequence[Prompt], decoding: Decoding) -> Tensor:
    """Return the logits of the first reply token, float32 (n, V) for n prompts; no cache is built."""
    device = next(model.parameters()).device
    # Neighbours in length share a pass, so little of a rectangle is padding.
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    parts = []
    for start in range(0, len(order), decoding.batch_size):
        chunk = [prompts[i] for i in order[start : start + decoding.batch_size]]
        ids, mask = pad(chunk, fill=decoding.fill, left=False, device=device)
        rows = torch.arange(len(chunk), device=device)
        with autocast(device, decoding.precision):
            parts.append(logits_at(model, ids, rows, mask.sum(1) - 1, use_cache=False))
    back = torch.empty(len(order), dtype=torch.int64, device=device)
    back[torch.tensor(order, device=device)] = torch.arange(len(order), device=device)
    return torch.cat(parts)[back]


@torch.no_grad()
def complete(
    model: Any, prompts: Sequence[Prompt], uniforms: NDArray[np.float64] | None, decoding: Decoding
) -> list[Completion]:
    """Write one completion per prompt; equal prompts share their prefill.

    The tokens of prompt i depend on it and on row i of `uniforms`, never on the other prompts (up to the
    rounding of differently shaped matrix products).

    Args:
        model: a Hugging Face causal language model.
        prompts: n tuples of token ids.
        uniforms: float64 (n, max_new_tokens) in [0, 1); None for greedy decoding.
        decoding: temperature, limits and end test.
    """
    completions = [Completion() for _ in prompts]
    # Sorting puts equal prompts into the same pass.
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), prompts[i]))
    for start in range(0, len(order), decoding.batch_size):
        indices = order[start : start + decoding.batch_size]
        _complete_chunk(model, prompts, indices, uniforms, decoding, completions)
    return completions


def _complete_chunk(
    model: Any,
    prompts: Sequence[Prompt],
    indices: list[int],
    uniforms: NDArray[np.float64] | None,
    decoding: Decoding,
    completions: list[Completion],
) -> None:
    from transformers import DynamicCache

    device = next(model.parameters()).device
    distinct = list(dict.fromkeys(prompts[i] for i in indices))
    index = {prompt: row for row, prompt in enumerate(distinct)}
    # Left padding: the newest tokens line up, and a sliding attention window covers the right tokens.
    ids, mask = pad(distinct, fill=decoding.fill, left=True, device=device)
    padded = not bool(mask.all())
    with_positions = padded and takes_positions(model)
    cache = DynamicCache(config=model.config)

    def arguments(mask: Tensor, positions: Tensor) -> dict[str, Any]:
        given: dict[str, Any] = {"past_key_values": cache, "use_cache": True}
        if padded:
            given["attention_mask"] = mask.long()
        if with_positions:
            given["position_ids"] = positions
        return given

    every = torch.arange(len(distinct), device=device)
    positions = (mask.long().cumsum(1) - 1).clamp(min=0)
    with autocast(device, decoding.precision):
        logits = logits_at(model, ids, every, torch.full_like(every, ids.shape[1] - 1), **arguments(mask, positions))
    owner = torch.tensor([index[prompts[i]] for i in indices], device=device)
    cache.batch_select_indices(owner)
    logits, mask, position = logits[owner], mask[owner], positions[owner, -1]

    live = indices
    for step in range(decoding.max_new_tokens):
        drawn = None if uniforms is None else torch.from_numpy(uniforms[live, step]).to(device)
        tokens, logprobs = pick(logits, drawn, decoding.temperature)
        keep = []
        for row, (i, token, logprob) in enumerate(zip(live, tokens.tolist(), logprobs.tolist(), strict=True)):
            completion = completions[i]
            completion.token_ids.append(token)
            completion.logprobs.append(logprob)
            if not decoding.is_end(completion.token_ids):
                keep.append(row)
        if not keep or step + 1 == decoding.max_new_tokens:
            return
        if len(keep) < len(live):
            chosen = torch.tensor(keep, device=device)
            cache.batch_select_indices(chosen)
            tokens, mask, position = tokens[chosen], mask[chosen], position[chosen]
            live = [live[row] for row in keep]
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        position = position + 1
        with autocast(device, decoding.precision):
            step_logits = model(input_ids=tokens[:, None], **arguments(mask, position[:, None])).logits
        logits = step_logits[:, -1].float()


@torch.no_grad()
def weights_version(model: nn.Module) -> tuple[float, ...]:
    """Return a value that changes when anything writes into the weights.

    Torch counts most writes, but not those of fused optimisers or through `parameter.data`: the sum of every
    tensor is compared as well. For the tiny model this costs a hundredth of a forward pass.
    """
    weights = list(model.parameters())
    counters = [number for weight in weights for number in (weight.data_ptr(), weight._version)]
    return (*counters, *torch.stack([weight.sum(dtype=torch.float32) for weight in weights]).tolist())


class LogitsCache:
    """Answers repeated prompts without the model.

    In a group of rollouts the same board is met again and again, in other sub-environments and at later steps; while
    the policy is fixed the answer is the same. Empties itself when the weights change, and when it is full.

    Args:
        model: whose logits are kept.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._rows: dict[Prompt, Tensor] = {}
        self._version: tuple[float, ...] = ()

    def __len__(self) -> int:
        """Return how many prompts it holds."""
        return len(self._rows)

    def clear(self) -> None:
        """Drop everything."""
        self._rows = {}

    def __call__(
        self,
        prompts: Sequence[Prompt],
        compute: Callable[[list[Prompt]], Tensor],
        version: tuple[float, ...] | None = None,
    ) -> Tensor:
        """Return the logits of every prompt.

        Args:
            prompts: n prompts, repeats allowed.
            compute: called once with the distinct prompts that it does not hold; returns float32 (k, V).
            version: what `weights_version` says now, where the caller has asked already.

        Returns:
            float32 (n, V).
        """
        version = version or weights_version(self._model)
        if version != self._version:
            self.clear()
            self._version = version
        distinct = list(dict.fromkeys(prompts))
        missing = [prompt for prompt in distinct if prompt not in self._rows]
        if missing:
            rows = compute(missing)
            if (len(self._rows) + len(missing)) * rows.shape[1] > _MOST_NUMBERS:
                known = [prompt for prompt in distinct if prompt in self._rows]
                # A row is a view that keeps its whole computation alive; the few that stay are copied.
                self._rows = {prompt: self._rows[prompt].clone() for prompt in known}
            self._rows.update(zip(missing, rows.unbind(0), strict=True))
        return torch.stack([self._rows[prompt] for prompt in prompts])
