"""Losses by hand."""

import pytest
import torch
from torch import Tensor

from baselines.losses import aggregate, clipped_surrogate, clipped_weight, divergence, importance_ratio


def split(advantages: Tensor) -> tuple[Tensor, Tensor]:
    return advantages.clamp(min=0), advantages.clamp(max=0)


def test_losses_by_hand() -> None:
    # Ratios 1.5, 0.5, 1.1 with A = 2: -2 * min(ratio, 1.2); with A = -2: 2 * max(ratio, 0.8).
    ratio = torch.tensor([[1.5, 0.5, 1.1], [1.5, 0.5, 1.1]])
    loss = clipped_surrogate(ratio, *split(torch.tensor([2.0, -2.0])))
    torch.testing.assert_close(loss, torch.tensor([[-2.4, -1.0, -2.2], [3.0, 1.6, 2.2]]))
    # Ratio 9: A = -1 costs 9, with the limit 3 it costs 3 and has no gradient; A = 1 stays at -1.2.
    logprobs = torch.tensor([[9.0], [9.0]]).log().requires_grad_()
    loss = clipped_surrogate(logprobs.exp(), *split(torch.tensor([-1.0, 1.0])), dual_clip=3.0)
    torch.testing.assert_close(loss.detach(), torch.tensor([[3.0], [-1.2]]))
    loss.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[0.0], [0.0]]
    # x = reference - logprobs = 3: e^3 - 4 = 16.0855, above the limit 10.
    logprobs = torch.tensor([[-3.0, -1.0]]).requires_grad_()
    free = divergence(logprobs, torch.zeros(1, 2), limit=None)
    torch.testing.assert_close(free.detach(), torch.tensor([[16.0855, 0.7183]]), atol=1e-4, rtol=0)
    cut = divergence(logprobs, torch.zeros(1, 2))
    cut.sum().backward()
    assert cut[0, 0] == 10.0
    assert logprobs.grad is not None
    assert logprobs.grad[0, 0] == 0.0
    torch.testing.assert_close(logprobs.grad[0, 1], torch.tensor(1 - torch.e))  # d/dl (exp(-l) + l - 1) at -1
    # Ratio 1.5 clips the 3 raw rows with a positive advantage, ratio 0.5 the 2 with a negative one.
    found = clipped_weight(torch.tensor([[1.5, 0.5, 1.0]]), torch.tensor([3.0]), torch.tensor([2.0]))
    assert found.tolist() == [[3.0, 2.0, 0.0]]
    # Ratio 1.5 with A = 2 and ratio 0.5 with A = -2 in one row: -2 * 1.2 and 2 * 0.8.
    ratio = torch.tensor([[1.5, 0.5]])
    loss = clipped_surrogate(ratio, *split(torch.tensor([[2.0, -2.0]])))
    torch.testing.assert_close(loss, torch.tensor([[-2.4, 1.6]]))
    clipped = clipped_weight(ratio, torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
    assert clipped.tolist() == [[3.0, 2.0]]


def test_extreme_and_masked_values() -> None:
    logprobs = torch.tensor([[300.0, -300.0]]).requires_grad_()
    ratio = importance_ratio(logprobs, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    loss = clipped_surrogate(ratio, torch.tensor([1.0]), torch.tensor([-1.0]))
    (loss + divergence(logprobs, torch.zeros(1, 2))).sum().backward()
    assert logprobs.grad is not None
    assert torch.isfinite(logprobs.grad).all()
    values = torch.tensor([[1.0, float("nan")], [2.0, 4.0]])
    mask = torch.tensor([[True, False], [True, True]])
    assert aggregate(values, mask, "token-mean", 2.0).item() == 3.5
    with pytest.raises(ValueError, match="got 'mean'"):
        aggregate(torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), "mean", 1.0)  # type: ignore[arg-type]
