"""Losses against the recorded figures of published trainers, 60 batches of four replies.

Compared: `ppo_dual_clip|...` (loss in all four aggregations, both clip fractions, the k1 divergence `ppo_kl`), with the
advantages once per reply and once per token, `gspo|...` with its gradients, and `kl|kl`, `kl|mse` and `kl|low_var_kl`
(k1, k2, k3), `istar_eto_loss|...` with `preference`. `mask` is the mask of all.

No counterpart here: `kl|abs` and `prime...` (learned rewards). The advantages (`gae_...`,
`bi_level_...`) are compared in tests/wrappers/credit/test_gae.py.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.losses import (
    aggregate,
    clipped_surrogate,
    clipped_weight,
    divergence,
    importance_ratio,
    normaliser,
    preference,
)
from tests.wrappers.credit.oracles import load

#: The published aggregation, ours, and what the sum is divided by: its last form divides by the width of the batch.
HOW: dict[str, Any] = {
    "token-mean": ("token-mean", None),
    "seq-mean-token-mean": ("row-mean", None),
    "seq-mean-token-sum": ("row-sum", None),
    "seq-mean-token-sum-norm": ("row-sum", 12.0),
}


def tensor(case: dict[str, Any], key: str) -> Tensor:
    return torch.tensor(case[key], dtype=torch.float64)


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("clip_high", [0.2, 0.28])
@pytest.mark.parametrize("how", HOW)
def test_published_ppo_losses(how: str, clip_high: float, per_token: bool) -> None:
    ones, (ours, width) = torch.ones(4), HOW[how]
    bounded = 0.0
    for case in load("token_level")["results"]:
        expected = case[f"ppo_dual_clip|0.2|{clip_high}|{how}"]
        logprobs, old = tensor(case, "log_prob"), tensor(case, "old_log_prob")
        mask, advantages = tensor(case, "mask").bool(), tensor(case, "advantages")
        assert mask.shape == (4, 12)
        assert (advantages == advantages[:, :1]).all()
        advantages = advantages if per_token else advantages[:, 0]
        positive, negative = advantages.clamp(min=0), advantages.clamp(max=0)
        clips: dict[str, float] = {"clip_low": 0.2, "clip_high": clip_high}
        # The published code bounds the ratio at 3 where the advantage is negative.
        ratio = importance_ratio(logprobs, old, mask)
        loss = clipped_surrogate(ratio, positive, negative, **clips, dual_clip=3.0)
        mine = aggregate(loss, mask, ours, width or normaliser(mask, ones, ours))
        assert mine.item() == pytest.approx(expected["loss"], rel=1e-6, abs=1e-6)

        tokens = normaliser(mask, ones, "token-mean")
        clipped = clipped_weight(ratio, (positive > 0).double(), (negative < 0).double(), **clips)
        free = clipped_surrogate(ratio, positive, negative, **clips)
        k1 = old - logprobs
        # Recorded fractions are in single precision over a handful of tokens: a wrong side would move them by 1/28.
        for name, figure in (("clipfrac", clipped), ("clipfrac_lower", (free > loss).double()), ("ppo_kl", k1)):
            assert aggregate(figure, mask, "token-mean", tokens).item() == pytest.approx(expected[name], abs=1e-6)
        bounded += expected["clipfrac_lower"]
    assert bounded > 0


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.0003, 0.0004)])
def test_published_gspo_losses_and_gradients(low: float, high: float) -> None:
    # The published ratio has the value of a step's and the gradient of its tokens; a step's own gradient is the same.
    fractions = 0.0
    for case in load("token_level")["results"]:
        expected = case[f"gspo|{low}|{high}"]
        mask, advantages = tensor(case, "mask").bool(), tensor(case, "advantages")[:, 0]
        for level in ("step-token", "step"):
            logprobs = tensor(case, "log_prob").requires_grad_()
            ratio = importance_ratio(logprobs, tensor(case, "old_log_prob"), mask, level)  # type: ignore[arg-type]
            loss = clipped_surrogate(
                ratio, advantages.clamp(min=0), advantages.clamp(max=0), clip_low=low, clip_high=high
            )
            mine = aggregate(loss, mask, "row-mean", 4.0)
            mine.backward()
            assert mine.item() == pytest.approx(expected["loss"], rel=1e-6, abs=1e-6)
            assert logprobs.grad is not None
            torch.testing.assert_close(
                logprobs.grad.masked_fill(~mask, 0.0), tensor(expected, "grad_log_prob"), atol=1e-6, rtol=1e-5
            )
        clipped = clipped_weight(
            ratio, (advantages > 0).double(), (advantages < 0).double(), clip_low=low, clip_high=high
        )
        tokens = normaliser(mask, torch.ones(4), "token-mean")
        assert aggregate(clipped, mask, "token-mean", tokens).item() == pytest.approx(expected["clipfrac"], abs=1e-6)
        fractions += expected["clipfrac"]
    assert fractions > 0


@pytest.mark.parametrize(
    ("name", "form", "limit"), [("kl", "k1", None), ("mse", "k2", None), ("low_var_kl", "k3", 10.0)]
)
def test_published_divergences(name: str, form: Any, limit: float | None) -> None:
    for case in load("token_level")["results"]:
        mask = tensor(case, "mask").bool()
        mine = divergence(tensor(case, "log_prob"), tensor(case, "ref_log_prob"), form, limit=limit)
        torch.testing.assert_close(mine[mask], tensor(case, f"kl|{name}")[mask], atol=1e-6, rtol=1e-6)
        assert limit is None or mine.max() <= limit


def test_published_loss_of_pairs_of_episodes() -> None:
    # Two tasks, each with a won and a lost episode of two steps: rows 0-1 against 2-3, and 4-5 against 6-7. That loss
    # takes the mean over the steps of an episode where DPO takes their sum; `q` are log-ratios of tokens.
    for case in load("token_level")["results"]:
        expected = case["istar_eto_loss|beta=0.05"]
        won, lost = tensor(expected, "q").sum(1).reshape(2, 2, 2).mean(2).T
        none = torch.zeros_like(won)
        assert float(preference(won, lost, none, none, 0.05).mean()) == pytest.approx(expected["loss"], abs=1e-6)
