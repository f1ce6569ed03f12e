"""Losses against the recorded figures of published trainers, 60 batches of four replies.

Compared: `ppo_dual_clip|...` (loss in all four aggregations, both clip fractions, the k1 divergence `ppo_kl`), with the
advantages once per reply and once per token, and `kl|low_var_kl`. `mask` is the mask of both.

No counterpart here: `gspo|...` (ratios of whole replies), `kl|kl`, `kl|abs` and `kl|mse` (other estimates than k3),
`prime...` and `istar_eto_loss|...` (learned rewards). The advantages (`gae_...`, `bi_level_...`) are compared in
tests/wrappers/credit/test_token_gae.py.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from baselines.losses import aggregate, clipped_surrogate, clipped_weight, k3, normaliser
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
        loss = clipped_surrogate(logprobs, old, positive, negative, **clips, dual_clip=3.0)
        mine = aggregate(loss, mask, ours, width or normaliser(mask, ones, ours))
        assert mine.item() == pytest.approx(expected["loss"], rel=1e-6, abs=1e-6)

        tokens = normaliser(mask, ones, "token-mean")
        clipped = clipped_weight(logprobs, old, (positive > 0).double(), (negative < 0).double(), **clips)
        free = clipped_surrogate(logprobs, old, positive, negative, **clips)
        k1 = old - logprobs
        # Recorded fractions are in single precision over a handful of tokens: a wrong side would move them by 1/28.
        for name, figure in (("clipfrac", clipped), ("clipfrac_lower", (free > loss).double()), ("ppo_kl", k1)):
            assert aggregate(figure, mask, "token-mean", tokens).item() == pytest.approx(expected[name], abs=1e-6)
        bounded += expected["clipfrac_lower"]
    assert bounded > 0


def test_published_k3_divergences() -> None:
    cut = 0
    for case in load("token_level")["results"]:
        mask = tensor(case, "mask").bool()
        mine = k3(tensor(case, "log_prob"), tensor(case, "ref_log_prob"), limit=10.0)
        torch.testing.assert_close(mine[mask], tensor(case, "kl|low_var_kl")[mask], atol=1e-6, rtol=1e-6)
        cut += int((mine[mask] == 10.0).sum())
    assert cut > 0
