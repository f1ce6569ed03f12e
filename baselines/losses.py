"""Losses of a PPO-style update on tensors of shape (n, L): n replies of at most L tokens.

`logprobs` are log pi(token), differentiable; masks are True = keep. A row is a prompt and its reply. With rho of
`importance_ratio` and an advantage A per row or token, the objective to maximise is

    min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)           (Schulman et al. 2017, equation 7)

It is linear in A on either side of 0, so a merged row (`baselines.batch`) needs only the two sums of its advantages.

Choices of the papers: Schulman et al. 2017 and DeepSeekMath (2402.03300) use the ratio "token", the latter "row-mean"
and k3; GSPO "step" (Zheng et al. 2025, equations 5 and 7); GSPO-token "step-token" (equations 13 and 14); Yu et al.
2025 clip_high above clip_low and "token-mean"; Liu et al. 2025 "constant"; MiniMax-M1 the objective "cispo".
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from baselines.config import Aggregation, Divergence, RatioLevel, WeightLevel

# exp of a larger log-ratio would overflow, and 0 * inf in the backward pass is nan. Clipping begins far below.
LOG_RATIO_LIMIT = 20.0


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, level: RatioLevel = "token") -> Tensor:
    """Return rho, differentiable: float (n, L), not masked.

    With d = logprobs - old_logprobs it is

        token         exp(d)                                    per token
        step          s = exp(mean of d over the reply)         once per reply: GSPO
        step-token    s, with the gradient of s d               GSPO-token: equals "step" for advantages per row

    Args:
        logprobs, old_logprobs: float (n, L).
        mask: bool (n, L).

    >>> d, mask = torch.tensor([[1.2, 0.8, 0.0]]).log(), torch.tensor([[True, True, False]])
    >>> importance_ratio(d, torch.zeros(1, 3), mask, "step")  # the square root of 0.96
    tensor([[0.9798, 0.9798, 0.9798]])
    """
    difference = logprobs - old_logprobs
    if level != "token":
        lengths = mask.sum(1, keepdim=True).clamp(min=1)
        mean = torch.where(mask, difference, torch.zeros_like(difference)).sum(1, keepdim=True) / lengths
        # The value is that of the mean; the gradient is that of the mean or of each token separately.
        difference = mean.expand_as(mask) if level == "step" else mean.detach() + difference - difference.detach()
    return difference.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def clipped_surrogate(
    ratio: Tensor, positive: Tensor, negative: Tensor, *, clip_low: float = 0.2, clip_high: float = 0.2,
    dual_clip: float | None = None,
) -> Tensor:  # fmt: skip
    """Return the negated clipped objective of every token, to be minimised.

    Args:
        ratio: float (n, L), differentiable.
        positive, negative: float (n,) or (n, L), (sums of) positive and negative advantages, 0 without any.
        clip_low, clip_high: the ratio's limits, 1 - clip_low for negative, 1 + clip_high for positive advantages.
        dual_clip: upper limit above 1 of the ratio for negative advantages (Ye et al. 2020, equation 5); None: none.

    Returns:
        float (n, L), not masked.

    >>> loss = clipped_surrogate(torch.tensor([[1.5, 0.5]]), torch.tensor([2.0]), torch.zeros(1))
    >>> [round(x, 4) for x in loss[0].tolist()]  # 2 * min(1.5, 1.2) and 2 * min(0.5, 1.2), negated
    [-2.4, -1.0]
    """
    raised = ratio.clamp(max=1.0 + clip_high)
    lowered = ratio.clamp(min=1.0 - clip_low)
    if dual_clip is not None:
        lowered = lowered.clamp(max=dual_clip)
    return -(_over_tokens(positive) * raised + _over_tokens(negative) * lowered)


def cispo(
    ratio: Tensor, logprobs: Tensor, positive: Tensor, negative: Tensor, *, clip_low: float, clip_high: float
) -> Tensor:
    """Return the negated objective clip(rho, 1 - clip_low, 1 + clip_high) A log pi with no gradient through the clip.

    Only the weight of a token is clipped, and in the paper only from above: clip_low = 1 (MiniMax-M1, 2025, equations 4
    and 5).

    Args:
        ratio: float (n, L).
        logprobs: float (n, L), differentiable.

    Returns:
        float (n, L), not masked.
    """
    weight = ratio.detach().clamp(1.0 - clip_low, 1.0 + clip_high)
    return -weight * (_over_tokens(positive) + _over_tokens(negative)) * logprobs


@torch.no_grad()
def correction(
    trainer: Tensor, sampler: Tensor, mask: Tensor, level: WeightLevel = "token", limit: float = 2.0
) -> Tensor:
    """Return the weights of truncated importance sampling, without gradient: float (n, L), 1 where masked.

    A sampler with other kernels draws from mu, not from pi_old. The loss is multiplied by min(pi_old / mu, limit) of
    the token, or of the reply, the product over its tokens (Yao et al. 2025, "Your efficient RL framework ...").

    Args:
        trainer, sampler: float (n, L), log pi_old and log mu.
        mask: bool (n, L).
        level: "token" or "step".
        limit: above 0; the correction is exact in expectation if no ratio is above it.

    >>> pi, mu, mask = torch.tensor([[0.6, 0.3]]), torch.tensor([[0.2, 0.6]]), torch.tensor([[True, True]])
    >>> correction(pi.log(), mu.log(), mask), correction(pi.log(), mu.log(), mask, "step")  # 3 and 1/2, 3/2
    (tensor([[2.0000, 0.5000]]), tensor([[1.5000, 1.5000]]))
    """
    difference = torch.where(mask, trainer - sampler, torch.zeros_like(trainer))
    if level == "step":
        difference = difference.sum(1, keepdim=True).expand_as(difference)
    return torch.where(mask, difference.clamp(max=LOG_RATIO_LIMIT).exp().clamp(max=limit), torch.ones_like(difference))


def divergence(logprobs: Tensor, reference: Tensor, form: Divergence = "k3", *, limit: float | None = 10.0) -> Tensor:
    """Return an estimate of KL(pi || reference) per token, from tokens sampled by pi (Schulman 2020).

    With x = reference - logprobs:

        k1    -x                  unbiased; as a loss its expected gradient is 0: it belongs in the reward
        k2    x^2 / 2             biased; as a loss its expected gradient is the divergence's
        k3    exp(x) - x - 1      unbiased, never negative, of low variance; as a loss, that of KL(reference || pi)

    Args:
        logprobs, reference: float (n, L), the first differentiable.
        limit: larger values are clipped and have no gradient, as in published trainers; None: no limit.

    Returns:
        float (n, L), not masked.

    >>> [divergence(torch.tensor([-1.0]), torch.zeros(1), form).item() for form in ("k1", "k2")]
    [-1.0, 0.5]
    >>> divergence(torch.tensor([[0.0, -1.0]]), torch.tensor([[0.0, 0.0]]))  # e - 1 - 1
    tensor([[0.0000, 0.7183]])
    """
    difference = (reference - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if form == "k1":
        return -difference if limit is None else -difference.clamp(-limit, limit)
    value = 0.5 * difference.square() if form == "k2" else difference.exp() - difference - 1.0
    return value if limit is None else value.clamp(max=limit)


def normaliser(mask: Tensor, weight: Tensor, aggregation: Aggregation, length: int = 1) -> Tensor:
    """Return the divisor of `aggregate`: the weight of all tokens for "token-mean", of all rows otherwise.

    Args:
        mask: bool (n, L).
        weight: float (n,), of the rows.
        length: number of tokens by which "constant" divides every row.
    """
    if aggregation == "token-mean":
        return (mask * weight[:, None]).sum()
    return weight.sum() * length if aggregation == "constant" else weight.sum()


def aggregate(values: Tensor, mask: Tensor, aggregation: Aggregation, divisor: Tensor | float) -> Tensor:
    """Reduce per-token values to one number.

    Args:
        values: float (n, L), rows' weights included.
        mask: bool (n, L), True = keep; masked values may be anything, nan included.
        aggregation: "token-mean" sums all tokens, so that long replies count more (2503.14476, equation 8); "row-mean"
            takes each reply's mean over its tokens first (2402.03300, equation 3); "row-sum" each reply's sum;
            "constant" each reply's sum divided by the maximum length (Liu et al. 2025).
        divisor: see `normaliser`; for a mini-batch, its share of the whole batch's divisor.

    Raises:
        ValueError: on an unknown aggregation.

    >>> values, mask = torch.tensor([[1.0, 3.0], [8.0, 0.0]]), torch.tensor([[True, True], [True, False]])
    >>> [round(float(aggregate(values, mask, how, normaliser(mask, torch.ones(2), how, 2))), 4)
    ...  for how in ("token-mean", "row-mean", "row-sum", "constant")]  # 12/3, (2 + 8)/2, (4 + 8)/2, (4 + 8)/2/2
    [4.0, 5.0, 6.0, 3.0]
    """
    kept = torch.where(mask, values, torch.zeros_like(values))
    if aggregation == "row-mean":
        kept = kept / mask.sum(1, keepdim=True).clamp(min=1)
    elif aggregation not in ("token-mean", "row-sum", "constant"):
        raise ValueError(f"aggregation is 'token-mean', 'row-mean', 'row-sum' or 'constant', got {aggregation!r}")
    return kept.sum() / divisor


def clipped_weight(
    ratio: Tensor, positive_weight: Tensor, negative_weight: Tensor, *, clip_low: float = 0.2, clip_high: float = 0.2
) -> Tensor:
    """Return, per token, the weight of the raw rows whose objective is clipped, float (n, L).

    The weights are per row, float (n,), or per token, float (n, L), like the advantages. The result divided by the
    weight of all tokens is the clip fraction. Rows with advantage 0 are never clipped.
    """
    too_high = (ratio > 1.0 + clip_high) * _over_tokens(positive_weight)
    too_low = (ratio < 1.0 - clip_low) * _over_tokens(negative_weight)
    return too_high + too_low


def preference(better: Tensor, worse: Tensor, better_start: Tensor, worse_start: Tensor, beta: float) -> Tensor:
    """Return the loss of DPO for each pair, float (P,): -log sigma(beta (log-ratio of better - log-ratio of worse)).

    A log-ratio is log pi - log pi_ref, summed over the reply tokens of a side. Rafailov et al. 2023, equation 7; for
    whole episodes: Song et al. 2024 (ETO); for the steps after a given one: Xiong et al. 2024 (IPR).

    Args:
        better, worse: float (P,), log-likelihoods of the preferred sides and of the others, differentiable.
        better_start, worse_start: float (P,), those under the frozen policy.
        beta: above 0.

    >>> start = torch.tensor([-3.0, -2.0])
    >>> preference(torch.tensor([-3.0, -1.0]), torch.tensor([-3.0, -3.0]), start, start, 0.5)  # log 2, log(1 + 1/e)
    tensor([0.6931, 0.3133])
    """
    return softplus(-beta * ((better - better_start) - (worse - worse_start)))


def _over_tokens(numbers: Tensor) -> Tensor:
    """Return numbers per row as a column that broadcasts to (n, L); numbers per token unchanged."""
    return numbers[:, None] if numbers.dim() == 1 else numbers
