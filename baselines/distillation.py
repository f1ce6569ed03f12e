"""Self-distillation: the divergence of the policy from itself with a context in its prompt, as an additional loss.

s and t are log-probabilities of student and teacher, of whole distributions (..., V) or of sampled tokens. Nothing here
has a gradient through t. 2601.20802 is `per_token` with alpha .5 or 1, the student's top 100 and a tail; 2601.18734 is
alpha 0 with `entry_cap`. See docs/credit/privileged.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from baselines.losses import LOG_RATIO_LIMIT

if TYPE_CHECKING:
    from baselines.config import Distillation

#: Largest log of the support's probability: the tail keeps more than 0.
_FULL = -1e-7


def divergence(student: Tensor, teacher: Tensor, alpha: float, entry_cap: float | None = None) -> Tensor:
    """Return the divergence of two distributions, float (...), a sum over the vocabulary.

    alpha 0 is KL(T || S), alpha 1 is KL(S || T); between, with M = (1 - alpha) S + alpha T, it is
    (1 - alpha) KL(S || M) + alpha KL(T || M), whose limits at 0 and 1 are 0: as a function of alpha it has jumps there.

    Args:
        student: float (..., V), differentiable.
        teacher: float (..., V).
        alpha: 0 to 1.
        entry_cap: upper limit of each entry's term. Negative terms have no limit, so that a capped divergence can be
            negative. None: no cap.

    >>> s, t = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.8, 0.2]).log()
    >>> [round(divergence(s, t, alpha).item(), 4) for alpha in (0.0, 0.5, 1.0)]
    [0.1927, 0.0507, 0.2231]
    """
    if alpha == 0:
        terms = teacher.exp() * (teacher - student)
    elif alpha == 1:
        terms = student.exp() * (student - teacher)
    else:
        mixed = torch.logaddexp(student + _log(1 - alpha), teacher + _log(alpha))
        terms = (1 - alpha) * student.exp() * (student - mixed) + alpha * teacher.exp() * (teacher - mixed)
    return (terms if entry_cap is None else terms.clamp(max=entry_cap)).sum(-1)


def supported(
    student: Tensor, teacher: Tensor, k: int, *, of: Literal["student", "teacher"] = "student", tail: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Return both distributions on the k likeliest entries of one of them, float (..., k + 1), and these entries.

    Args:
        student: float (..., V).
        teacher: float (..., V).
        k: number of entries; a vocabulary with no more than k entries is used whole, without a tail.
        tail: whether one more entry holds all other probability; else both are normalised over the k, and probability
            that the student moves to other entries costs nothing.
    """
    k = min(k, student.shape[-1])
    chosen = (student if of == "student" else teacher).detach().topk(k, dim=-1).indices
    if k == student.shape[-1]:
        return student.gather(-1, chosen), teacher.gather(-1, chosen), chosen
    return on(student, chosen, tail), on(teacher, chosen, tail), chosen


def on(logprobs: Tensor, chosen: Tensor, tail: bool) -> Tensor:
    """Return a distribution on some of its entries, see `supported`."""
    kept = logprobs.gather(-1, chosen)
    if not tail:
        return kept.log_softmax(-1)
    inside = kept.logsumexp(-1, keepdim=True).clamp(max=_FULL)
    return torch.cat((kept, torch.log(-torch.expm1(inside))), -1)


def sampled_token(student: Tensor, teacher: Tensor) -> Tensor:
    """Return `stopgrad(s - t) s`, float (...): in the mean over sampled tokens its gradient is that of KL(S || T).

    Its value is no divergence. The identity needs tokens that were sampled from the student, without top-k or top-p.
    """
    return (student - teacher).detach() * student


def importance(logprobs: Tensor, old: Tensor, cap: float) -> Tensor:
    """Return `min(exp(s - o), cap)` of the sampled tokens, without gradient: float (n, L)."""
    ratio = (logprobs - old).detach().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    return ratio.clamp(max=cap)


def contrast_target(right: Tensor, wrong: Tensor, strength: float, floor: float = -30.0) -> tuple[Tensor, Tensor]:
    """Return a teacher that moves away from a wrong one, and each position's weight (`opsd_ectr` of the release).

    Args:
        right: float (..., V), log-probabilities with the right context.
        wrong: float (..., V), with the wrong one.
        floor: lower limit of the wrong one's log-probabilities.

    Returns:
        softmax((1 + a) right - a max(wrong, floor)) as logarithms, float (..., V); K / (K + 1) with
        K = KL(right || wrong), float (...).
    """
    target = ((1 + strength) * right - strength * wrong.clamp(min=floor)).log_softmax(-1)
    apart = divergence(wrong, right, 0.0).clamp(min=0.0)
    return target, apart / (apart + 1.0)


def per_token(
    student: Tensor | None, teacher: Tensor | None, sampled: Tensor, informed: Tensor, old: Tensor, terms: Distillation
) -> Tensor:
    """Return the loss of each token, float (tokens,).

    Args:
        student: float (tokens, V), differentiable; None with `terms.sampled`.
        teacher: float (tokens, V); None with `terms.sampled`.
        sampled: float (tokens,), log-probabilities of the sampled tokens, differentiable.
        informed: float (tokens,), those of the teacher.
        old: float (tokens,), those at rollout time.
    """
    if terms.sampled or student is None or teacher is None:
        loss = sampled_token(sampled, informed)
    else:
        if terms.top is not None:
            student, teacher, _ = supported(student, teacher, terms.top, tail=terms.tail)
        loss = divergence(student, teacher, terms.alpha, terms.entry_cap)
    return loss if terms.ratio_cap is None else loss * importance(sampled, old, terms.ratio_cap)


def _log(share: float) -> float:
    return float(torch.tensor(share, dtype=torch.float64).log())
