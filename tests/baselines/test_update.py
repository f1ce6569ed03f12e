"""update: gradients of mini-batches by hand, and rows without an advantage."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agentgym.trajectory import Reply, StepTable
from baselines.batch import Batch, make_batch
from baselines.config import Loss, Memory, Optimiser, TrainerConfig
from baselines.update import score_batch, update
from tests.baselines.corridor_learning import conversations, passes_of, small_policy
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses


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


def bandit_table(rows: list[tuple[int, int]]) -> StepTable:
    """Rows (prompt, token) of `Bandit`."""
    return filled(replies=[Reply("", (p,), (a,), (float(-np.log(3)),)) for p, a in rows])


def batch_of(rows: list[tuple[int, int, float]]) -> Batch:
    """Rows (prompt, token, advantage)."""
    return make_batch(bandit_table([(p, a) for p, a, _ in rows]), np.array([x for *_, x in rows]))


CONFIG = TrainerConfig(
    learning_rate=0.1, loss=Loss(kl=0.0), optimiser=Optimiser(max_grad_norm=1e9, minibatch_rows=1000)
)


def stepped(
    bandit: Bandit, rows: list[tuple[int, int, float]], rate: float = 1.0, reference: Any = None, **changes: Any
) -> dict[str, float]:
    """Update by plain gradient descent."""
    optimizer = torch.optim.SGD(bandit.model.parameters(), lr=rate)
    return update(bandit, optimizer, batch_of(rows), CONFIG.changed(**changes), np.random.default_rng(0), reference)


def test_updates_by_hand() -> None:
    # Prompt 0: token 0 twice with A = 1, token 1 once with A = -1. Ratio 1, so d(-A rho)/d logits = -A (onehot - 1/3).
    # Mean over 3 rows: logits += [2 * (2/3) + 1/3, -2/3 - 2/3, -2/3 + 1/3] / 3 = [5/9, -4/9, -1/9].
    bandit = Bandit()
    found = stepped(bandit, [(0, 0, 1.0), (0, 1, -1.0), (0, 0, 1.0)])
    torch.testing.assert_close(bandit.model.logits.detach()[0], torch.tensor([5 / 9, -4 / 9, -1 / 9]))
    assert bandit.model.logits.detach()[1].tolist() == [0.0, 0.0, 0.0]
    assert found["policy_loss"] == pytest.approx(-1 / 3)  # -(1 + 1 - 1) / 3
    assert (found["entropy"], found["grad_norm"]) == (pytest.approx(np.log(3)), pytest.approx((25 + 16 + 1) ** 0.5 / 9))
    assert (found["updates"], found["clip_fraction"], found["kl"]) == (1.0, 0.0, 0.0)
    assert found["approx_kl"] == pytest.approx(0.0, abs=1e-7)
    bandit = Bandit(1)
    found = stepped(bandit, [(0, 0, 100.0)], optimiser={"max_grad_norm": 0.5})
    assert found["grad_norm"] == pytest.approx(100 * (4 + 1 + 1) ** 0.5 / 3)
    assert float(bandit.model.logits.detach().norm()) == pytest.approx(0.5, rel=1e-4)
    bandit = Bandit()
    found = stepped(bandit, [(0, 0, float("nan"))])
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


def test_terms_of_the_loss() -> None:
    # No advantage, only the divergence: the policy moves towards the reference.
    bandit, reference = Bandit(1), Bandit(1)
    with torch.no_grad():
        bandit.model.logits += torch.tensor([[1.0, 0.0, 0.0]])
    before = bandit.model.logits.detach().clone()
    rows = [(0, 0, 0.0)] * 3 + [(0, 1, 0.0)]
    found = stepped(bandit, rows, reference=reference, loss={"kl": 0.5})
    # k3 of token 0 (three rows) and token 1 (one row), policy e^1, 1, 1 over e + 2.
    policy = np.log(np.array([np.e, 1.0]) / (np.e + 2))
    x = -np.log(3) - policy
    assert found["kl"] == pytest.approx(np.dot([3, 1], np.exp(x) - x - 1) / 4, rel=1e-5)
    assert bandit.model.logits[0, 0] - bandit.model.logits[0, 1] < before[0, 0] - before[0, 1]
    assert (reference.model.logits == 0).all()
    refuses(ValueError, "needs the frozen start policy", stepped, bandit, rows, loss={"kl": 0.5})
    bandit = Bandit(1)
    with torch.no_grad():
        bandit.model.logits += torch.tensor([[2.0, 0.0, 0.0]])
    stepped(bandit, [(0, 0, 0.0)], loss={"entropy": 1.0})
    assert bandit.model.logits[0, 0] - bandit.model.logits[0, 1] < 2.0
    bandit = Bandit(1)
    found = stepped(bandit, [(0, 0, 1.0)], 0.2, optimiser={"epochs": 30})
    ratio = float(bandit.model.logits.detach().log_softmax(-1)[0, 0].exp()) * 3
    assert found["updates"] == 30
    assert 0 < found["clip_fraction"] < 1
    assert 1.2 < ratio < 1.4  # one step past the clip at most


class Recorder(torch.optim.SGD):
    """Keeps the gradient of every step."""

    def __init__(self, weights: Any, rate: float) -> None:
        super().__init__(weights, lr=rate)
        self.gradients: list[list[Tensor]] = []

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.gradients.append([w.grad.clone() for group in self.param_groups for w in group["params"]])
        super().step()


def bandit_update(keep_zero: bool, advantages: list[float], rows: list[tuple[int, int]], **changes: Any) -> Any:
    bandit, config = Bandit(), CONFIG.changed(loss={"keep_zero": keep_zero}, **changes)
    optimizer = Recorder(bandit.model.parameters(), 0.0)
    batch = make_batch(bandit_table(rows), np.array(advantages), keep_zero=keep_zero)
    return update(bandit, optimizer, batch, config, np.random.default_rng(0)), optimizer.gradients


@pytest.mark.parametrize("keep_zero", [True, False])
def test_one_penalised_reply_among_2432_weighs_one_2432nd(keep_zero: bool) -> None:
    # The gradient of -A rho / N at ratio 1 is -A (onehot - 1/3) / N, and (2/3, -1/3, -1/3) has the norm sqrt(6) / 3.
    found, (gradients,) = bandit_update(keep_zero, [-3.0] + [0.0] * 2431, [(0, 0)] + [(1, i % 3) for i in range(2431)])
    assert found["grad_norm"] == pytest.approx(6**0.5 / 2432)
    torch.testing.assert_close(gradients[0][0], 3 / 2432 * torch.tensor([2 / 3, -1 / 3, -1 / 3]))
    assert (gradients[0][1] == 0).all()


@cases(
    "divided",
    {},
    {"optimiser.minibatch_rows": 5},
    {"optimiser.minibatch_rows": 5, "memory.microbatch_rows": 2},
    {"optimiser.minibatch_rows": 7, "memory.microbatch_tokens": 30},
    {"optimiser.minibatch_rows": 7, "memory.microbatch_tokens": 30, "memory.share_prefixes": True},
    {"optimiser.minibatch_rows": 5, "loss.old_logprobs": "recompute", "loss.tis": 2.0},
)
@pytest.mark.parametrize(
    ("aggregation", "weighting"),
    [("token-mean", "step"), ("row-mean", "step"), ("row-sum", "trajectory"), ("constant", "step")],
)
def test_every_step_is_the_same_without_silent_rows(aggregation: Any, weighting: Any, divided: dict[str, Any]) -> None:
    rng, gradients, figures, read = np.random.default_rng(4), [], [], []
    # Four conversations of five turns and, at the end, four rows again: merged ones weigh two.
    replies = conversations(small_policy(max_new_tokens=3), rng, 4, 5)
    replies += replies[:4]
    n, numbers = len(replies), np.arange(20)
    table = filled(replies=replies, trajectory=[*numbers // 5, 4, 4, 4, 4], t=[*numbers % 5, 0, 1, 2, 3])
    advantages = np.where(np.isin(np.arange(n), (1, 2, 8, 9, 13, 21)), rng.normal(size=n), 0.0)
    advantages[17] = np.nan
    for keep_zero in (True, False):
        config = CONFIG.changed(
            loss={"keep_zero": keep_zero, "aggregation": aggregation, "weighting": weighting},
            optimiser={"epochs": 2},
            **divided,
            **({"loss.constant_length": 7} if aggregation == "constant" else {}),
        )
        policy = small_policy(max_new_tokens=3)
        policy.score([(1,)], [(1,)], 1.0, tokens_per_pass=1)  # the model is examined once, which is a pass of its own
        passes = passes_of(policy.model.model)
        optimizer = Recorder(policy.model.parameters(), 0.01)
        batch = make_batch(table, advantages, weighting=weighting, keep_zero=keep_zero)
        figures.append(update(policy, optimizer, batch, config, np.random.default_rng(1)))
        gradients.append(optimizer.gradients)
        read.append(sum(rows * columns for rows, columns in passes))
    assert len(gradients[0]) == len(gradients[1]) == figures[0]["updates"] == figures[1]["updates"]
    for one, other in zip(*gradients, strict=True):
        assert max(float(value.abs().max()) for value in one) > 1e-3
        for kept, left in zip(one, other, strict=True):
            torch.testing.assert_close(left, kept, atol=1e-6, rtol=1e-4)
    for name in ("policy_loss", "grad_norm", "silent_updates"):
        # Sums of float32 in another order: terms of size 1 are rounded to 1e-7, whatever is left of them.
        assert figures[0][name] == pytest.approx(figures[1][name], rel=1e-5, abs=3e-7)
    assert read[1] < read[0]


def test_the_mean_of_the_steps_is_the_gradient_of_the_batch() -> None:
    # Weights that stand still: 3 mini-batches of 2 rows, one of them silent, whose gradient is 0.
    rows = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    for advantages in ([1.0, 0.0, -2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0, 0.0, 0.0]):
        found, parts = bandit_update(False, advantages, rows, optimiser={"minibatch_rows": 2})
        whole, (together,) = bandit_update(True, advantages, rows)
        assert found["updates"] == 3 - round(3 * found["silent_updates"]) == len(parts) < 3
        torch.testing.assert_close(sum(step[0] for step in parts) / 3, together[0])
        assert found["policy_loss"] == pytest.approx(whole["policy_loss"])


@pytest.mark.parametrize("keep_zero", [True, False])
def test_momentum_does_not_go_on_without_a_signal(keep_zero: bool) -> None:
    bandit, config, rng = Bandit(), CONFIG.changed(optimiser={"weight_decay": 0.1}), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(bandit.model.parameters(), lr=0.1, weight_decay=0.1)
    rows = bandit_table([(0, 0), (1, 1)])
    update(bandit, optimizer, make_batch(rows, np.array([1.0, -1.0]), keep_zero=keep_zero), config, rng)
    weights = bandit.model.logits.detach().clone()
    state = {name: value.clone() for name, value in optimizer.state[bandit.model.logits].items()}
    silent = make_batch(rows, np.zeros(2), keep_zero=keep_zero)
    found = update(bandit, optimizer, silent, config, rng)
    assert torch.equal(bandit.model.logits, weights)
    assert all(torch.equal(optimizer.state[bandit.model.logits][name], value) for name, value in state.items())
    assert (found["updates"], found["silent_updates"], found["grad_norm"]) == (0.0, 1.0, 0.0)
    # What nobody read has no entropy; of rows that were kept it is measured all the same.
    assert ("entropy" in found, "kl" in found) == (keep_zero, keep_zero)
    if keep_zero:
        assert 0.5 < found["entropy"] < np.log(3)
        assert update(bandit, optimizer, silent, config.changed(loss={"entropy": 0.1}), rng)["updates"] == 1.0
        kl = config.changed(loss={"kl": 0.1})
        assert update(bandit, optimizer, silent, kl, rng, Bandit())["updates"] == 1.0
        assert update(bandit, optimizer, silent, kl.changed(loss={"kl_in": "reward"}), rng)["updates"] == 0.0


def test_the_divergence_of_rows_left_out_is_not_asked_for() -> None:
    # Three equally likely tokens, the reference e : 1 : 1; one row of four is kept, and the mean goes over four.
    rows, advantages = bandit_table([(0, 0), (0, 1), (0, 1), (0, 2)]), np.array([1.0, 0.0, 0.0, 0.0])
    start = Bandit()
    with torch.no_grad():
        start.model.logits += torch.tensor([[1.0, 0.0, 0.0]])
    losses = []
    for kl in (0.0, 1.0):
        bandit, config = Bandit(), CONFIG.changed(loss={"kl": kl})
        optimizer = Recorder(bandit.model.parameters(), 0.0)
        batch = make_batch(rows, advantages, keep_zero=False)
        found = update(bandit, optimizer, batch, config, np.random.default_rng(0), start)
        losses.append(optimizer.gradients[0][0][0])
    # d/d logits of k3 = exp(x) - x - 1, x = log(e / (e + 2)) - log(1/3), is (1 - exp(x)) (onehot - 1/3).
    ratio = 3 * np.e / (np.e + 2)
    torch.testing.assert_close(
        losses[1] - losses[0], (1 - ratio) / 4 * torch.tensor([2 / 3, -1 / 3, -1 / 3], dtype=torch.float32)
    )
    assert found["kl"] == pytest.approx(ratio - np.log(ratio) - 1)  # per token of the row that was read
