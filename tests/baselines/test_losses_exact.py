"""Ratio levels, corrections and divergences: finite differences, and exact expectations over a categorical."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.losses import (
    RatioLevel,
    WeightLevel,
    aggregate,
    cispo,
    clipped_surrogate,
    correction,
    divergence,
    importance_ratio,
    normaliser,
)

DOUBLE = torch.float64
MASK = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])


def differences(function: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-6) -> Tensor:
    """Gradient of a scalar function by central differences."""
    found = torch.zeros_like(at)
    for index in itertools.product(*map(range, at.shape)):
        moved = torch.zeros_like(at)
        moved[index] = step
        found[index] = (function(at + moved) - function(at - moved)) / (2 * step)
    return found


@pytest.mark.parametrize("aggregation", ["token-mean", "row-mean", "row-sum", "constant"])
@pytest.mark.parametrize("level", ["token", "step"])
def test_gradients_are_those_of_finite_differences(level: RatioLevel, aggregation: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    old, logprobs = (torch.randn(3, 3, generator=generator, dtype=DOUBLE) for _ in range(2))
    advantages = torch.tensor([1.5, -0.5, 2.0], dtype=DOUBLE)

    def loss(logprobs: Tensor) -> Tensor:
        ratio = importance_ratio(old + 0.3 * logprobs, old, MASK, level)
        surrogate = clipped_surrogate(ratio, advantages.clamp(min=0), advantages.clamp(max=0), dual_clip=1.4)
        divisor = normaliser(MASK, torch.ones(3, dtype=DOUBLE), aggregation, 5)
        return aggregate(surrogate, MASK, aggregation, divisor)

    logprobs.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logprobs), logprobs)
    torch.testing.assert_close(gradient, differences(loss, logprobs.detach()), atol=1e-9, rtol=0)
    assert gradient[MASK].abs().max() > 0
    assert (gradient[~MASK] == 0).all()


def test_levels_by_hand() -> None:
    # d = log 2, log 1/8 in a reply of two tokens, and rubbish behind it: the mean is log 1/2.
    d = torch.tensor([[2.0, 0.125, 7.0]], dtype=DOUBLE).log().requires_grad_()
    mask = torch.tensor([[True, True, False]])
    found = {}
    for level in ("token", "step", "step-token"):
        ratio = importance_ratio(d, torch.zeros(1, 3, dtype=DOUBLE), mask, level)  # type: ignore[arg-type]
        (gradient,) = torch.autograd.grad(torch.where(mask, ratio, 0.0).sum(), d)
        found[level] = (ratio[mask].tolist(), gradient[0].tolist())
    assert found["token"] == (pytest.approx([2.0, 0.125]), pytest.approx([2.0, 0.125, 0.0]))
    # s = 1/2 at both tokens; each of the two depends on both tokens by s / 2, which sums to s.
    assert found["step"] == (pytest.approx([0.5, 0.5]), pytest.approx([0.5, 0.5, 0.0]))
    assert found["step-token"] == (pytest.approx([0.5, 0.5]), pytest.approx([0.5, 0.5, 0.0]))
    # s = 1 and only the second token has an advantage: its own gradient, or half of it on each token.
    zero, mask = torch.zeros(1, 2, dtype=DOUBLE), torch.ones(1, 2, dtype=torch.bool)
    positive = torch.tensor([[0.0, 1.0]], dtype=DOUBLE)
    found = []
    for level in ("step-token", "step"):
        d = zero.clone().requires_grad_()
        ratio = importance_ratio(d, zero, mask, level)  # type: ignore[arg-type]
        clipped_surrogate(ratio, positive, torch.zeros_like(positive)).sum().backward()
        assert d.grad is not None
        found.append(d.grad[0].tolist())
    assert found == [[0.0, -1.0], [-0.5, -0.5]]
    trainer = torch.tensor([[0.9, 0.2, 0.0]]).log()
    sampler = torch.tensor([[0.3, 0.4, 0.5]]).log()
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(correction(trainer, sampler, mask, "token", 2.0), torch.tensor([[2.0, 0.5, 1.0]]))
    torch.testing.assert_close(correction(trainer, sampler, mask, "step", 2.0), torch.tensor([[1.5, 1.5, 1.0]]))
    torch.testing.assert_close(correction(trainer, sampler, mask, "step", 1.0), torch.ones(1, 3))
    logprobs = torch.tensor([3.0, -3.0, 1.0])
    assert divergence(logprobs, torch.zeros(3), "k1", limit=2.0).tolist() == [2.0, -2.0, 1.0]


def test_the_correction_makes_the_expected_gradient_the_trainers() -> None:
    # One token out of three: drawn by mu, wanted is the gradient of E_pi[A] = sum pi A, d/d logits = pi (A - E_pi A).
    pi = torch.tensor([0.5, 0.3, 0.2], dtype=DOUBLE)
    mu = torch.tensor([0.3, 0.3, 0.4], dtype=DOUBLE)  # ratios 5/3, 1, 1/2
    advantages = torch.tensor([1.0, 0.5, -1.0], dtype=DOUBLE)
    truth = pi * (advantages - pi @ advantages)
    assert truth.tolist() == pytest.approx([0.275, 0.015, -0.29])  # E_pi A = 0.45

    def expected(limit: float | None, level: WeightLevel = "token") -> Tensor:
        logits = pi.log().requires_grad_()
        logprobs = logits.log_softmax(0)[:, None]
        old, mask = pi.log()[:, None], torch.ones(3, 1, dtype=torch.bool)
        ratio = importance_ratio(logprobs, old, mask)
        loss = clipped_surrogate(ratio, advantages.clamp(min=0), advantages.clamp(max=0))
        if limit is not None:
            loss = correction(old, mu.log()[:, None], mask, level, limit) * loss
        (-(mu[:, None] * loss).sum()).backward()
        assert logits.grad is not None
        return logits.grad

    torch.testing.assert_close(expected(2.0, "token"), truth)
    torch.testing.assert_close(expected(2.0, "step"), truth)
    # At the limit 1 the first token weighs 0.3 instead of 0.5: sum_x w(x) A(x) (onehot - pi), w = 0.3, 0.3, 0.2.
    weighed = torch.tensor([0.3, 0.15, -0.2], dtype=DOUBLE)
    torch.testing.assert_close(expected(1.0), weighed - weighed.sum() * pi)
    uncorrected = mu * advantages
    torch.testing.assert_close(expected(None), uncorrected - uncorrected.sum() * pi)
    assert not torch.allclose(expected(None), truth, atol=0.05)


def test_cispo_keeps_the_gradient_where_ppo_has_lost_it() -> None:
    # Ratio 3 with A = 2 and ratio 1/2 with A = -1: weights 1.3 and 0.8 on A grad log pi, negated.
    logprobs = torch.tensor([[3.0], [0.5]]).log().requires_grad_()
    ratio = importance_ratio(logprobs, torch.zeros(2, 1), torch.ones(2, 1, dtype=torch.bool))
    positive, negative = torch.tensor([2.0, 0.0]), torch.tensor([0.0, -1.0])
    loss = cispo(ratio, logprobs, positive, negative, clip_low=0.2, clip_high=0.3)
    torch.testing.assert_close(loss.detach(), torch.tensor([[-2.6 * math.log(3.0)], [0.8 * math.log(0.5)]]))
    loss.sum().backward()
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-2.6], [0.8]]))
    fresh = logprobs.detach().requires_grad_()
    ratio = importance_ratio(fresh, torch.zeros(2, 1), torch.ones(2, 1, dtype=torch.bool))
    clipped_surrogate(ratio, positive, negative, clip_low=0.2, clip_high=0.3).sum().backward()
    torch.testing.assert_close(fresh.grad, torch.zeros(2, 1))


@pytest.mark.parametrize("form", ["k1", "k2", "k3"])
def test_divergences_in_expectation(form: Any) -> None:
    # Over all tokens drawn by pi: k1 and k3 are the divergence itself; gradients as the docstring says.
    logits = torch.tensor([0.2, -0.4, 1.0], dtype=DOUBLE).requires_grad_()
    reference = torch.tensor([0.5, 0.1, -0.3], dtype=DOUBLE).log_softmax(0)
    logprobs = logits.log_softmax(0)
    pi = logprobs.detach().exp()
    exact = (logprobs.exp() * (logprobs - reference)).sum()
    mean = (pi * divergence(logprobs, reference, form)).sum()
    if form != "k2":
        assert mean.item() == pytest.approx(exact.item())
    (gradient,) = torch.autograd.grad(mean, logits, retain_graph=True)
    forward = torch.autograd.grad(exact, logits, retain_graph=True)[0]
    backward = torch.autograd.grad(-(reference.exp() * logprobs).sum(), logits)[0]
    expected = {"k1": torch.zeros(3, dtype=DOUBLE), "k2": forward, "k3": backward}[form]
    torch.testing.assert_close(gradient, expected)
