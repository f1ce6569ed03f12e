"""update: the gradient of a mini-batch, against the loss written out on one token per row."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agentgym.trajectory import Reply, StepTable
from baselines.batch import Batch, make_batch
from baselines.config import Loss, Memory, Optimiser, TrainerConfig
from baselines.update import score_batch, update


@dataclasses.dataclass
class Scores:
    logprobs: Tensor
    entropy: Tensor


class Bandit:
    """Prompt (p,) is row p of a table of logits; a reply is one token. Small enough to differentiate by hand."""

    def __init__(self, prompts: int = 2, tokens: int = 3) -> None:
        self.model = nn.Module()
        self.model.logits = nn.Parameter(torch.zeros(prompts, tokens))

    def score(self, prompts, replies, temperature=None, *, tokens_per_pass=None, entropy=True):  # type: ignore[no-untyped-def]
        logits = self.model.logits[torch.tensor([prompt[0] for prompt in prompts])] / (temperature or 1.0)
        distribution = logits.log_softmax(-1)
        chosen = distribution.gather(1, torch.tensor([[reply[0]] for reply in replies]))
        entropy = -(distribution.exp() * distribution).sum(-1, keepdim=True)
        return Scores(chosen, entropy)


def batch_of(rows: list[tuple[int, int, float]], logprob: float = float(-np.log(3))) -> Batch:
    """Rows (prompt, token, advantage)."""
    n = len(rows)
    table = StepTable.from_arrays(
        group=[0] * n, trajectory=[0] * n, t=range(n), state=[0] * n, action=[0] * n, next_state=[0] * n,
        reward=[0.0] * n, won=[False] * n, replies=[Reply("", (p,), (a,), (logprob,)) for p, a, _ in rows],
    )  # fmt: skip
    return make_batch(table, np.array([a for _, _, a in rows]))


CONFIG = TrainerConfig(
    learning_rate=0.1, loss=Loss(kl=0.0), optimiser=Optimiser(max_grad_norm=100.0, minibatch_rows=10)
)


def sgd(bandit: Bandit, rate: float = 1.0) -> torch.optim.SGD:
    return torch.optim.SGD(bandit.model.parameters(), lr=rate)


def test_updates_by_hand() -> None:
    # Prompt 0: token 0 twice with A = 1, token 1 once with A = -1. Ratio 1, so d(-A rho)/d logits = -A (onehot - 1/3).
    # Mean over 3 rows: logits += [2 * (2/3) + 1/3, -2/3 - 2/3, -2/3 + 1/3] / 3 = [5/9, -4/9, -1/9].
    bandit = Bandit()
    found = update(
        bandit, sgd(bandit), batch_of([(0, 0, 1.0), (0, 1, -1.0), (0, 0, 1.0)]), CONFIG, np.random.default_rng(0)
    )
    torch.testing.assert_close(bandit.model.logits.detach()[0], torch.tensor([5 / 9, -4 / 9, -1 / 9]))
    assert bandit.model.logits.detach()[1].tolist() == [0.0, 0.0, 0.0]
    assert found["policy_loss"] == pytest.approx(-1 / 3)  # -(1 + 1 - 1) / 3
    assert found["entropy"] == pytest.approx(np.log(3))
    assert found["grad_norm"] == pytest.approx((25 + 16 + 1) ** 0.5 / 9)
    assert (found["updates"], found["clip_fraction"], found["kl"]) == (1.0, 0.0, 0.0)
    assert found["approx_kl"] == pytest.approx(0.0, abs=1e-7)
    bandit = Bandit(1)
    found = update(
        bandit,
        sgd(bandit),
        batch_of([(0, 0, 100.0)]),
        CONFIG.changed(optimiser={"max_grad_norm": 0.5}),
        np.random.default_rng(0),
    )
    assert found["grad_norm"] == pytest.approx(100 * (4 + 1 + 1) ** 0.5 / 3)
    assert float(bandit.model.logits.detach().norm()) == pytest.approx(0.5, rel=1e-4)
    bandit = Bandit()
    found = update(bandit, sgd(bandit), batch_of([(0, 0, float("nan"))]), CONFIG, np.random.default_rng(0))
    assert (bandit.model.logits == 0).all()
    # Nothing was measured: an entropy of 0 would read like collapse.
    assert found == {"policy_loss": 0.0, "grad_norm": 0.0, "updates": 0.0, "silent_updates": 1.0}
    bandit = Bandit(9)
    with torch.no_grad():
        bandit.model.logits += torch.arange(27.0).reshape(9, 3).sin()
    batch = batch_of([(p, a, 1.0) for a in range(3) for p in (4, 8, 1, 0)])
    expected = bandit.score(batch.prompts, batch.replies).logprobs.detach()
    for rows in (1, 5, 100):
        torch.testing.assert_close(score_batch(bandit, batch, 1.0, Memory(microbatch_rows=rows)), expected)


def test_minibatch_gradients_average_to_the_batch_gradient() -> None:
    # Steps so small that the weights stand still: five mini-batches of rate r move like one of rate 5 r.
    rng = np.random.default_rng(2)
    rows = [
        (int(p), int(a), float(x))
        for p, a, x in zip(rng.integers(0, 9, 40), rng.integers(0, 3, 40), rng.normal(size=40), strict=True)
    ]
    whole, parts = Bandit(9), Bandit(9)
    update(whole, sgd(whole, 1e-3), batch_of(rows), CONFIG.changed(optimiser={"minibatch_rows": 100}), rng)
    found = update(
        parts,
        sgd(parts, 1e-3 / 5),
        batch_of(rows),
        CONFIG.changed(optimiser={"minibatch_rows": 1 + len(batch_of(rows)) // 5}),
        rng,
    )
    assert found["updates"] == 5
    torch.testing.assert_close(parts.model.logits, 5 / 5 * whole.model.logits, atol=1e-6, rtol=1e-3)


def test_terms_of_the_loss() -> None:
    # No advantage, only the divergence: the policy moves towards the reference.
    bandit, reference = Bandit(1), Bandit(1)
    with torch.no_grad():
        bandit.model.logits += torch.tensor([[1.0, 0.0, 0.0]])
    before = bandit.model.logits.detach().clone()
    rows = [(0, 0, 0.0)] * 3 + [(0, 1, 0.0)]
    config = CONFIG.changed(loss={"kl": 0.5})
    found = update(bandit, sgd(bandit), batch_of(rows), config, np.random.default_rng(0), reference)
    # k3 of token 0 (three rows) and token 1 (one row), policy e^1, 1, 1 over e + 2.
    policy = np.log(np.array([np.e, 1.0]) / (np.e + 2))
    x = -np.log(3) - policy
    assert found["kl"] == pytest.approx(np.dot([3, 1], np.exp(x) - x - 1) / 4, rel=1e-5)
    assert bandit.model.logits[0, 0] - bandit.model.logits[0, 1] < before[0, 0] - before[0, 1]
    assert (reference.model.logits == 0).all()
    with pytest.raises(ValueError, match="needs the frozen start policy"):
        update(bandit, sgd(bandit), batch_of(rows), config, np.random.default_rng(0))
    bandit = Bandit(1)
    with torch.no_grad():
        bandit.model.logits += torch.tensor([[2.0, 0.0, 0.0]])
    update(
        bandit, sgd(bandit), batch_of([(0, 0, 0.0)]), CONFIG.changed(loss={"entropy": 1.0}), np.random.default_rng(0)
    )
    assert bandit.model.logits[0, 0] - bandit.model.logits[0, 1] < 2.0
    bandit = Bandit(1)
    config = CONFIG.changed(optimiser={"epochs": 30})
    found = update(bandit, sgd(bandit, 0.2), batch_of([(0, 0, 1.0)]), config, np.random.default_rng(0))
    ratio = float(bandit.model.logits.detach().log_softmax(-1)[0, 0].exp()) * 3
    assert found["updates"] == 30
    assert 0 < found["clip_fraction"] < 1
    assert 1.2 < ratio < 1.4  # one step past the clip at most
