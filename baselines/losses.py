"""Losses of a PPO-style update on tensors of shape (n, L): n replies of at most L tokens.

`logprobs` are log pi(token), differentiable; `old_logprobs` those of the sampler; masks are True = keep. The ratio
is rho = exp(logprobs - old_logprobs). With an advantage A per reply or per token, the objective to maximise is

    min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)           (Schulman et al. 2017, equation 7)

For A > 0 it is A min(rho, 1 + clip_high), for A < 0 it is A max(rho, 1 - clip_low): linear in A on either side, which
is why a merged row (see `baselines.batch`) needs only the two sums of its advantages.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Aggregation = Literal["token-mean", "row-mean", "row-sum"]

# exp of a larger log-ratio would overflow, and 0 * inf in the backward pass is nan; the clip is long active there.
LOG_RATIO_LIMIT = 20.0


def clipped_surrogate(
    logprobs: Tensor,
    old_logprobs: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:
    """Return the negated clipped objective of every token, to be minimised.

    Args:
        logprobs: float (n, L), differentiable.
        old_logprobs: float (n, L).
        positive: float (n,) or (n, L), each row's or token's positive advantage (a sum, in merged rows), 0 where it
            is negative.
        negative: likewise, the negative advantage, 0 where it is positive.
        clip_low: the ratio is clipped below at 1 - clip_low where the advantage is negative.
        clip_high: the ratio is clipped above at 1 + clip_high where the advantage is positive.
        dual_clip: upper limit c > 1 of the ratio where the advantage is negative (Ye et al. 2020, equation 5), which
            bounds the loss of a token that became far more likely; None: no limit.

    Returns:
        float (n, L), not masked.

    >>> ratio, advantage = torch.tensor([[1.5, 0.5]]), torch.tensor([2.0])
    >>> loss = clipped_surrogate(ratio.log(), torch.zeros(1, 2), advantage, torch.zeros(1))
    >>> [round(x, 4) for x in loss[0].tolist()]  # 2 * min(1.5, 1.2) and 2 * min(0.5, 1.2), negated
    [-2.4, -1.0]
    """
    ratio = (logprobs - old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    raised = ratio.clamp(max=1.0 + clip_high)
    lowered = ratio.clamp(min=1.0 - clip_low)
    if dual_clip is not None:
        lowered = lowered.clamp(max=dual_clip)
    return -(_over_tokens(positive) * raised + _over_tokens(negative) * lowered)


def k3(logprobs: Tensor, reference: Tensor, *, limit: float | None = 10.0) -> Tensor:
    """Return the k3 estimate of KL(pi || reference) per token, from tokens sampled by pi (Schulman 2020).

    With x = reference - logprobs it is exp(x) - x - 1: never negative, unbiased, of low variance.

    Args:
        logprobs: float (n, L), differentiable.
        reference: float (n, L), log-probabilities under the frozen policy.
        limit: values above are cut off and have no gradient, as in published trainers; None: no limit.

    Returns:
        float (n, L), not masked.

    >>> k3(torch.tensor([[0.0, -1.0]]), torch.tensor([[0.0, 0.0]]))  # e - 1 - 1
    tensor([[0.0000, 0.7183]])
    """
    difference = (reference - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    value = difference.exp() - difference - 1.0
    return value if limit is None else value.clamp(max=limit)


def normaliser(mask: Tensor, weight: Tensor, aggregation: Aggregation) -> Tensor:
    """Return what `aggregate` divides by: the weight of all tokens for "token-mean", of all rows otherwise."""
    return (mask * weight[:, None]).sum() if aggregation == "token-mean" else weight.sum()


def aggregate(values: Tensor, mask: Tensor, aggregation: Aggregation, divisor: Tensor | float) -> Tensor:
    """Reduce per-token values to one number.

    The values carry their rows' weights already (a merged row counts as often as it occurred).

    Args:
        values: float (n, L).
        mask: bool (n, L), True = keep; what is masked may be anything, nan included.
        aggregation: "token-mean" sums all tokens, so that long replies count more; "row-mean" takes each reply's
            mean over its tokens first; "row-sum" each reply's sum.
        divisor: see `normaliser`. A mini-batch may be given its fair share of the whole batch's, which makes the
            mean gradient of the mini-batches the gradient of the batch.

    Raises:
        ValueError: on an unknown aggregation.

    >>> values, mask = torch.tensor([[1.0, 3.0], [8.0, 0.0]]), torch.tensor([[True, True], [True, False]])
    >>> [round(float(aggregate(values, mask, how, normaliser(mask, torch.ones(2), how))), 4)
    ...  for how in ("token-mean", "row-mean", "row-sum")]  # 12/3, (2 + 8)/2, (4 + 8)/2
    [4.0, 5.0, 6.0]
    """
    kept = torch.where(mask, values, torch.zeros_like(values))
    if aggregation == "row-mean":
        kept = kept / mask.sum(1, keepdim=True).clamp(min=1)
    elif aggregation not in ("token-mean", "row-sum"):
        raise ValueError(f"aggregation is 'token-mean', 'row-mean' or 'row-sum', got {aggregation!r}")
    return kept.sum() / divisor


def clipped_weight(
    logprobs: Tensor,
    old_logprobs: Tensor,
    positive_weight: Tensor,
    negative_weight: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Tensor:
    """Return per token the weight of the raw rows whose objective is clipped there, float (n, L).

    The weights are per row, float (n,), or per token, float (n, L), as the advantages are.
    Divided by the weight of all tokens it is the clip fraction. Rows with advantage 0 are never clipped.
    """
    ratio = (logprobs - old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    too_high = (ratio > 1.0 + clip_high) * _over_tokens(positive_weight)
    too_low = (ratio < 1.0 - clip_low) * _over_tokens(negative_weight)
    return too_high + too_low


def _over_tokens(numbers: Tensor) -> Tensor:
    """Numbers per row as a column beside (n, L); numbers per token as they are."""
    return numbers[:, None] if numbers.dim() == 1 else numbers
