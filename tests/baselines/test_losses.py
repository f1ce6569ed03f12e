"""Losses by hand, and against the recorded figures of published trainers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.losses import aggregate, clipped_surrogate, clipped_weight, k3, normaliser
from tests.wrappers.oracles import load

HOW = {"token-mean": "token-mean", "seq-mean-token-mean": "row-mean", "seq-mean-token-sum": "row-sum"}


def split(advantages: Tensor) -> tuple[Tensor, Tensor]:
    return advantages.clamp(min=0), advantages.clamp(max=0)


def test_surrogate_by_hand() -> None:
    # Ratios 1.5, 0.5, 1.1 with A = 2: -2 * min(ratio, 1.2); with A = -2: 2 * max(ratio, 0.8).
    ratio = torch.tensor([[1.5, 0.5, 1.1], [1.5, 0.5, 1.1]])
    loss = clipped_surrogate(ratio.log(), torch.zeros(2, 3), *split(torch.tensor([2.0, -2.0])))
    torch.testing.assert_close(loss, torch.tensor([[-2.4, -1.0, -2.2], [3.0, 1.6, 2.2]]))


def test_dual_clip_bounds_negative_advantages_only() -> None:
    # Ratio 9: A = -1 costs 9, with the limit 3 it costs 3 and has no gradient; A = 1 stays at -1.2.
    logprobs = torch.tensor([[9.0], [9.0]]).log().requires_grad_()
    loss = clipped_surrogate(logprobs, torch.zeros(2, 1), *split(torch.tensor([-1.0, 1.0])), dual_clip=3.0)
    torch.testing.assert_close(loss.detach(), torch.tensor([[3.0], [-1.2]]))
    loss.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[0.0], [0.0]]


def test_extreme_ratios_have_finite_gradients() -> None:
    logprobs = torch.tensor([[300.0, -300.0]]).requires_grad_()
    loss = clipped_surrogate(logprobs, torch.zeros(1, 2), torch.tensor([1.0]), torch.tensor([-1.0]))
    (loss + k3(logprobs, torch.zeros(1, 2))).sum().backward()
    assert logprobs.grad is not None
    assert torch.isfinite(logprobs.grad).all()


def test_k3_limit_cuts_value_and_gradient() -> None:
    # x = reference - logprobs = 3: e^3 - 4 = 16.0855, above the limit 10.
    logprobs = torch.tensor([[-3.0, -1.0]]).requires_grad_()
    free = k3(logprobs, torch.zeros(1, 2), limit=None)
    torch.testing.assert_close(free.detach(), torch.tensor([[16.0855, 0.7183]]), atol=1e-4, rtol=0)
    cut = k3(logprobs, torch.zeros(1, 2))
    cut.sum().backward()
    assert cut[0, 0] == 10.0
    assert logprobs.grad is not None
    assert logprobs.grad[0, 0] == 0.0
    torch.testing.assert_close(logprobs.grad[0, 1], torch.tensor(1 - torch.e))  # d/dl (exp(-l) + l - 1) at -1


def test_clipped_weight_looks_at_the_side_that_binds() -> None:
    # Ratio 1.5 clips the 3 raw rows with a positive advantage, ratio 0.5 the 2 with a negative one.
    found = clipped_weight(
        torch.tensor([[1.5, 0.5, 1.0]]).log(), torch.zeros(1, 3), torch.tensor([3.0]), torch.tensor([2.0])
    )
    assert found.tolist() == [[3.0, 2.0, 0.0]]


def test_masked_values_may_be_anything() -> None:
    values = torch.tensor([[1.0, float("nan")], [2.0, 4.0]])
    mask = torch.tensor([[True, False], [True, True]])
    assert aggregate(values, mask, "token-mean", 2.0).item() == 3.5


def test_unknown_aggregation_is_named() -> None:
    with pytest.raises(ValueError, match="got 'mean'"):
        aggregate(torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), "mean", 1.0)  # type: ignore[arg-type]


def tensor(case: dict[str, Any], key: str) -> Tensor:
    return torch.tensor(case[key], dtype=torch.float64)


@pytest.mark.parametrize("clip_high", [0.2, 0.28])
@pytest.mark.parametrize("how", HOW)
def test_published_ppo_losses(how: str, clip_high: float) -> None:
    # The published code bounds the ratio at 3 where the advantage is negative (its dual clip).
    ones = torch.ones(4)
    for case in load("token_level")["results"]:
        expected = case[f"ppo_dual_clip|0.2|{clip_high}|{how}"]
        logprobs, old = tensor(case, "log_prob"), tensor(case, "old_log_prob")
        mask, advantages = tensor(case, "mask").bool(), tensor(case, "advantages")
        assert (advantages == advantages[:, :1]).all()
        positive, negative = split(advantages[:, 0])
        loss = clipped_surrogate(logprobs, old, positive, negative, clip_low=0.2, clip_high=clip_high, dual_clip=3.0)
        mine = aggregate(loss, mask, HOW[how], normaliser(mask, ones, HOW[how]))  # type: ignore[arg-type]
        assert mine.item() == pytest.approx(expected["loss"], rel=1e-6, abs=1e-6)
        clipped = clipped_weight(
            logprobs, old, (positive > 0).double(), (negative < 0).double(), clip_low=0.2, clip_high=clip_high
        )
        tokens = normaliser(mask, ones, "token-mean")
        # Recorded fractions are in single precision over a handful of tokens: a wrong side would move them by 1/28.
        assert aggregate(clipped, mask, "token-mean", tokens).item() == pytest.approx(expected["clipfrac"], abs=1e-6)
        k1 = aggregate(old - logprobs, mask, "token-mean", tokens)
        assert k1.item() == pytest.approx(expected["ppo_kl"], abs=1e-6)


def test_published_k3_divergences() -> None:
    for case in load("token_level")["results"]:
        mask = tensor(case, "mask").bool()
        mine = k3(tensor(case, "log_prob"), tensor(case, "ref_log_prob"), limit=10.0)
        torch.testing.assert_close(mine[mask], tensor(case, "kl|low_var_kl")[mask], atol=1e-6, rtol=1e-6)
