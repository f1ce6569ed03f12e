"""Updates: gradients by hand and in bounded passes, rows without an advantage, two processes that train as one."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agentgym.trajectory import Reply, StepTable
from baselines.batch import Batch, make_batch
from baselines.config import Loss, Memory, Optimiser, TrainerConfig
from baselines.evaluation import at_temperature, validate
from baselines.imitation.cloning import imitate
from baselines.losses import normaliser
from baselines.recipes import RECIPES
from baselines.trainer import Trainer
from baselines.update import Limits, _backward, recomputes, score_batch, update
from policies.huggingface import HuggingFacePolicy
from policies.scoring.packed import rows_per_pass
from policies.tiny import tiny_policy
from tests.baselines.corridor_learning import (
    CONFIG,
    TASKS,
    babbling_policy,
    conversations,
    corridor,
    passes_of,
    same_weights,
    small_policy,
)
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


ONE_STEP = TrainerConfig(
    learning_rate=0.1, loss=Loss(kl=0.0), optimiser=Optimiser(max_grad_norm=1e9, minibatch_rows=1000)
)


def stepped(
    bandit: Bandit, rows: list[tuple[int, int, float]], rate: float = 1.0, reference: Any = None, **changes: Any
) -> dict[str, float]:
    """Update by plain gradient descent."""
    optimizer = torch.optim.SGD(bandit.model.parameters(), lr=rate)
    return update(bandit, optimizer, batch_of(rows), ONE_STEP.changed(**changes), np.random.default_rng(0), reference)


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
    bandit, config = Bandit(), ONE_STEP.changed(loss={"keep_zero": keep_zero}, **changes)
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
        config = ONE_STEP.changed(
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
    bandit, config, rng = Bandit(), ONE_STEP.changed(optimiser={"weight_decay": 0.1}), np.random.default_rng(0)
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
        bandit, config = Bandit(), ONE_STEP.changed(loss={"kl": kl})
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


PLAIN = TrainerConfig(learning_rate=0.1, loss=Loss(kl=0.1, entropy=0.01)).changed(
    optimiser={"max_grad_norm": 100.0, "minibatch_rows": 5, "epochs": 2}
)


def transcripts(policy: HuggingFacePolicy) -> Batch:
    """Three conversations of four turns, with made-up advantages."""
    rng = np.random.default_rng(4)
    replies = conversations(policy, rng, 3, 4)
    table = filled(replies=replies, trajectory=np.arange(12) // 4, t=np.arange(12) % 4)
    return make_batch(table, rng.normal(size=len(table)))


def trained(config: TrainerConfig) -> tuple[dict[str, float], HuggingFacePolicy, list[tuple[int, int]]]:
    policy, reference = small_policy(max_new_tokens=3), small_policy(seed=1, max_new_tokens=3)
    batch = transcripts(policy)
    policy.score([(1,)], [(1,)], 1.0, tokens_per_pass=1)  # the model is examined once, which is a pass of its own
    reference.score([(1,)], [(1,)], 1.0, tokens_per_pass=1)
    shapes = passes_of((policy if config.loss.kl == 0 else reference).model.model)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=config.learning_rate)
    return update(policy, optimizer, batch, config, np.random.default_rng(0), reference), policy, shapes


def test_auto_packs_large_models_and_shares_prefixes_where_that_saves_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PLAIN.changed(optimiser={"minibatch_rows": 100}, loss={"old_logprobs": "recompute"})
    assert config.memory.microbatch_tokens == config.changed(**{"memory.pass_tokens": "auto"}).memory.microbatch_tokens
    figures, policy, _ = trained(config)  # a small model reads rectangles
    batch = transcripts(policy)
    assert Limits.of(policy, config.memory, batch.prompts, batch.replies) == Limits()
    monkeypatch.setattr("baselines.update.LARGE", 1)
    assert Limits.of(policy, config.memory, batch.prompts, batch.replies) == Limits(tokens=2048, packed=True)
    one = [(5, 6, 7, 8)] * 3, [(1, 2), (3, 4), (5, 6)]
    assert Limits.of(policy, config.memory, *one).share_prefixes
    found, other, shapes = trained(config)
    assert found == pytest.approx(figures, rel=1e-4, abs=1e-6)
    assert all(rows == 1 for rows, _ in shapes)
    same_weights(policy.model, other.model, atol=1e-6)


def test_passes_of_every_kind_are_bounded() -> None:
    length = 5 + 3 * 3  # of a chain's prompt, with replies of 1 to 3 tokens between
    for kl in (0.0, 0.1):
        config = PLAIN.changed(
            loss={"kl": kl, "old_logprobs": "recompute"},
            memory={"microbatch_tokens": 30},
            optimiser={"minibatch_rows": 100},
        )
        _, _, shapes = trained(config)
        assert len(shapes) > 1
        assert all(rows == 1 and length <= tokens <= 30 for rows, tokens in shapes)
    policy = small_policy(max_new_tokens=3)
    batch = transcripts(policy)
    for share in (False, True):
        found = score_batch(policy, batch, 0.7, Memory(microbatch_tokens=30, share_prefixes=share))
        torch.testing.assert_close(found, score_batch(policy, batch, 0.7), atol=1e-5, rtol=0)
    prompts, replies = [(1,) * length for length in (9, 2, 3, 2, 30)], [(1,)] * 5
    limits = Limits(tokens=8)
    parts = [part.tolist() for part in limits.passes(prompts, replies, np.arange(5))]
    assert parts == [[1, 3], [2], [0], [4]]


def test_prefixes_are_bounded_in_a_pass_and_chains_stay_in_one_minibatch() -> None:
    config = PLAIN.changed(loss={"kl": 0.0}, optimiser={"minibatch_rows": 100, "epochs": 1})
    _, _, shapes = trained(config.changed(memory={"microbatch_tokens": 30, "share_prefixes": True}))
    assert len(shapes) > 2  # a look at the model is one more
    assert all(lines * tokens <= 30 for lines, tokens in shapes)
    with pytest.raises(ValueError, match=r"share_prefixes must be False unless microbatch_tokens"):
        config.changed(memory={"microbatch_tokens": None, "share_prefixes": True})
    # Three transcripts of four turns in mini-batches of four rows: each transcript is read once, in one piece.
    _, _, shapes = trained(config.changed(memory={"microbatch_tokens": 10_000}, optimiser={"minibatch_rows": 4}))
    batch = transcripts(small_policy(max_new_tokens=3))
    whole = [len(batch.prompts[row]) + len(batch.replies[row]) - 1 for row in (3, 7, 11)]
    assert sorted(tokens for _, tokens in shapes) == sorted(whole)


def full_above(policy: HuggingFacePolicy, tokens: int) -> None:
    """Raise what a full device raises, for passes of more than so many tokens."""

    def check(_: Any, __: Any, given: dict[str, Any]) -> None:
        if torch.is_grad_enabled() and given["input_ids"].numel() > tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    policy.model.model.register_forward_pre_hook(check, with_kwargs=True)


@cases(
    "tokens, room, words",
    (None, 15, r"microbatch_tokens.*None, all at once: set it, to \d+ for a start.*activation_checkpointing=True"),
    (100, 50, r"microbatch_tokens.*100: lower it to 50.*Tried to allocate 2.00 GiB"),
    (15, 5, r"microbatch_tokens.*15, and the longest row has \d+: shorten"),
)
def test_a_full_device_says_what_to_lower(tokens: int | None, room: int, words: str) -> None:
    policy = small_policy(max_new_tokens=3)
    batch, before = transcripts(policy), {name: value.clone() for name, value in policy.model.state_dict().items()}
    full_above(policy, room)
    config = PLAIN.changed(loss={"kl": 0.0}, memory={"microbatch_tokens": tokens}, optimiser={"minibatch_rows": 100})
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.1)
    refuses(torch.OutOfMemoryError, words, lambda: update(policy, optimizer, batch, config, np.random.default_rng(0)))
    assert all(torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert all(value.grad is None for value in policy.model.parameters())


def full(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_a_full_device_is_explained_by_whoever_fills_it() -> None:
    policy = small_policy(max_new_tokens=3)
    rows = policy.act(["cell 1"], {}, np.random.default_rng(0))
    queue = policy.reply_queue()
    policy.model.model.register_forward_pre_hook(full)
    with pytest.raises(torch.OutOfMemoryError, match=r"lower batch_size \(256.*expandable_segments.*CUDA out"):
        policy.act(["cell 2"], {}, np.random.default_rng(0))
    queue.put([0], ["cell 2"], {}, [np.random.default_rng(0)])
    refuses(torch.OutOfMemoryError, "lower batch_size", queue.get)
    with pytest.raises(torch.OutOfMemoryError, match=r"an update of 32 rows does not fit.*microbatch_tokens"):
        imitate(policy, rows, epochs=1, seed=0)

    for method, changes in (("ppo", {}), ("grpo", {"loss.kl": 0.1, "loss.kl_in": "reward"})):
        run = Trainer(babbling_policy(), corridor(), RECIPES[method], TASKS, CONFIG.changed(**changes))
        scorer: Any = run.learner.scorer
        (run.learner.reference.model if scorer is None else scorer.model.trunk).register_forward_pre_hook(full)
        refuses(torch.OutOfMemoryError, r"learning from \d+ steps does not fit.*microbatch_tokens", run.run)


def test_in_16_bits_old_log_probabilities_are_computed_again_and_the_difference_is_logged() -> None:
    policy = small_policy(max_new_tokens=3)
    batch, config = transcripts(policy), PLAIN.changed(loss={"kl": 0.0})
    half = HuggingFacePolicy(policy.model, policy.tokenizer, autocast=torch.bfloat16, **vars(policy.settings))
    assert [recomputes(each, config) for each in (policy, half)] == [False, True]
    assert not recomputes(half, config.changed(loss={"old_logprobs": "stored"}))
    found = update(half, torch.optim.SGD(policy.model.parameters(), lr=0.0), batch, config, np.random.default_rng(0))
    assert found["mismatch_max"] > 1e-4
    assert found["approx_kl"] == pytest.approx(0.0, abs=1e-3)  # of the update alone, which has not moved
    # Where they are not, the first mini-batch is compared, before a step: half a nat for every token.
    shifted = torch.where(batch.mask, batch.old_logprobs + 0.5, 0.0)
    moving, small = torch.optim.SGD(policy.model.parameters(), lr=0.1), config.changed(optimiser={"minibatch_rows": 2})
    found = update(policy, moving, dataclasses.replace(batch, old_logprobs=shifted), small, np.random.default_rng(0))
    assert found["updates"] > 1
    assert found["mismatch_mean"] == pytest.approx(0.5, abs=1e-5)
    assert found["mismatch_max"] == pytest.approx(0.5, abs=1e-5)
    assert all(weight.grad is None for weight in policy.model.parameters())


def run(folder: Any, policy: HuggingFacePolicy, iterations: int, **changes: Any) -> Trainer:
    config = CONFIG.changed(iterations=iterations, checkpoint={"every": 1}, **changes)
    return Trainer(policy, corridor(), RECIPES["grpo"], TASKS, config, folder=folder, resume=True)


def test_nothing_is_lost_when_the_device_is_full(tmp_path: Any) -> None:
    run(tmp_path, babbling_policy(), 2).run()
    kept = (tmp_path / "log.jsonl").read_text()
    policy = babbling_policy()
    stopped = run(tmp_path, policy, 4)
    full_above(policy, 6)
    refuses(torch.OutOfMemoryError, "resumed with another microbatch_tokens", stopped.run)
    assert (tmp_path / "log.jsonl").read_text() == kept
    policy = babbling_policy()
    again = run(tmp_path, policy, 4, memory={"microbatch_tokens": 6, "activation_checkpointing": True})
    assert again.iteration == 2
    full_above(policy, 6)
    assert [row["iteration"] for row in again.run()] == [0, 1, 2, 3, 4]


def test_sampling_inside_a_run_is_sampling_outside(tmp_path: Any) -> None:
    """Replies of a policy that is being trained with recomputed activations, and of a copy that never was."""
    policy = babbling_policy()
    run(None, policy, 2, memory={"activation_checkpointing": True, "microbatch_tokens": 40}).run()
    policy.save_pretrained(tmp_path)
    fresh = HuggingFacePolicy.from_pretrained(tmp_path, device="cpu")
    for player in (policy, fresh):
        player.forget()
    settings = {"max_new_tokens": 6, "prefix": "", "suffix": "", "stop": ()}
    inside, outside = (
        player.with_settings(**settings).act(["cell 1", "cell 2"], {}, np.random.default_rng(3))
        for player in (policy, fresh)
    )
    assert [reply.version for reply in inside] == [2, 2]  # updates that the weights have behind them
    assert [dataclasses.replace(reply, version=0) for reply in inside] == outside


def test_no_keys_stay_in_memory_after_a_validation_and_after_rollouts() -> None:
    policy = HuggingFacePolicy(babbling_policy().model, babbling_policy().tokenizer, reuse=True, max_new_tokens=2)
    run = Trainer(policy, corridor(), RECIPES["grpo"], TASKS, CONFIG, validation_tasks=TASKS)
    kept, most = policy.sampler._kept, []  # type: ignore[attr-defined]
    add = kept.add
    kept.add = lambda *given: (add(*given), most.append(kept.bytes))
    for play in (run._validate, lambda: run._gather(run._sampler, 0)):
        most.clear()
        play()
        assert (max(most) > 0, kept.bytes) == (True, 0)


def test_a_validation_reads_what_both_modes_see_once_and_has_the_figures_of_each_alone() -> None:
    policy = HuggingFacePolicy(babbling_policy().model, babbling_policy().tokenizer, reuse=True, max_new_tokens=2)
    modes = {"greedy": at_temperature(policy, 0.0), "sampled": policy}

    def reads(players: Mapping[str, HuggingFacePolicy]) -> tuple[dict[str, float], int]:
        counts = policy.sampler.counts  # type: ignore[attr-defined]
        before = counts.read
        return validate(corridor(), players, TASKS, seed=1), counts.read - before

    (greedy, first), (sampled, second) = [reads({name: player}) for name, player in modes.items()]
    figures, read = reads(modes)
    assert figures == greedy | sampled
    assert read < first + second


ROOT = Path(__file__).resolve().parents[2]
SHARED = TrainerConfig(
    learning_rate=1e-3,
    loss=Loss(kl=0.0, entropy=0.01),
    memory=Memory(microbatch_tokens=40),
    optimiser=Optimiser(max_grad_norm=0.5),
)
STEPS = 3
#: Rows of each process: the first has transcripts of several passes, the second a single short row.
SHARES = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (9,))


def policy() -> HuggingFacePolicy:
    return tiny_policy(["up down left right"], seed=0, layers=2, width=16, heads=2, kv_heads=1, mlp=32)


def batch() -> Batch:
    """Three conversations of three turns and one row alone; weights and advantages of merged rows."""
    rng, player = np.random.default_rng(0), policy()
    replies = conversations(player, rng, 3, 3) + conversations(player, rng, 1, 1)
    table = filled(replies=replies, trajectory=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3])
    made = make_batch(table, rng.normal(size=len(table)))
    return dataclasses.replace(made, old_logprobs=-4.5 * made.mask, weight=torch.arange(1.0, len(made) + 1))


def passes(whole: Batch, rows: tuple[int, ...], count: int = 0) -> list[Batch]:
    """The passes over some rows, filled up to a number with passes that weigh nothing."""
    chosen = rows_per_pass([whole.prompts[r] for r in rows], [whole.replies[r] for r in rows], 40)
    parts = [whole.take([rows[i] for i in each]) for each in chosen]
    columns = ("weight", "positive", "negative", "positive_weight", "negative_weight")
    empty = dataclasses.replace(whole.take([rows[0]]), **dict.fromkeys(columns, torch.zeros(1)))
    return parts + [empty] * (count - len(parts))


def train(player: HuggingFacePolicy, parts: list[Batch], divisor: float) -> list[float]:
    """AdamW steps over the same passes; returns the gradient norms."""
    optimizer, norms = torch.optim.AdamW(player.model.parameters(), lr=SHARED.learning_rate), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        for part in parts:
            _backward(player, part, None, None, divisor, SHARED, Limits.of(player, SHARED.memory), None)
        norm = nn.utils.clip_grad_norm_(player.model.parameters(), SHARED.optimiser.max_grad_norm)
        norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))
        optimizer.step()
    return norms


def worker(rank: int, folder: Path) -> None:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    world = len(SHARES)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    player, whole = policy(), batch()
    mesh = init_device_mesh("cpu", (world,))
    for layer in player.model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(player.model, mesh=mesh)
    count = max(len(passes(whole, rows)) for rows in SHARES)
    assert len(passes(whole, SHARES[1])) < count
    total = float(normaliser(whole.mask, whole.weight, SHARED.loss.aggregation))
    norms = train(player, passes(whole, SHARES[rank], count), total / world)
    weights = {name: value.full_tensor() for name, value in player.model.named_parameters()}
    if rank == 0:
        torch.save(weights, folder / "weights.pt")
        (folder / "norms.json").write_text(json.dumps(norms))
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_as_one(tmp_path: Path) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], env=environment, cwd=ROOT, check=False, timeout=900,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout

    alone, whole = policy(), batch()
    start = {name: value.detach().clone() for name, value in alone.model.named_parameters()}
    rows = tuple(range(len(whole)))
    norms = train(alone, passes(whole, rows), float(normaliser(whole.mask, whole.weight, SHARED.loss.aggregation)))
    assert json.loads((tmp_path / "norms.json").read_text()) == pytest.approx(norms, rel=1e-5)
    found = torch.load(tmp_path / "weights.pt")
    assert found.keys() == start.keys()
    moved = max(float((value.detach() - start[name]).abs().max()) for name, value in alone.model.named_parameters())
    assert moved > 2e-3  # three steps of the learning rate
    for name, value in alone.model.named_parameters():
        torch.testing.assert_close(found[name], value.detach(), atol=2e-6, rtol=0)


if __name__ == "__main__":
    # What is imported serves both processes; neither has computed anything yet.
    other = os.fork()
    worker(int(not other), Path(sys.argv[1]))
    if other:
        sys.exit(os.waitpid(other, 0)[1] != 0)
