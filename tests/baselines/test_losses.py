"""Batches of replies and losses over them: by hand, in expectation, against recorded figures of published trainers."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agentgym.trajectory import Reply, StepTable, forks
from baselines.batch import Batch, TokenColumns, make_batch, reply_lengths
from baselines.losses import (
    WeightLevel,
    aggregate,
    cispo,
    clipped_surrogate,
    clipped_weight,
    correction,
    divergence,
    importance_ratio,
    normaliser,
)
from tests.cases import cases
from tests.playing import filled
from tests.refusals import refuses
from tests.wrappers.credit.oracles import load

A = Reply("a", (1, 2), (7,), (-0.5,))
B = Reply("b", (1, 2), (8, 9), (-1.0, -0.25))
C = Reply("c", (3,), (7,), (-2.0,))


def table_of(replies: list[Reply | None], trajectory: list[int] | None = None) -> StepTable:
    return filled(replies=replies, trajectory=trajectory or [0] * len(replies))


def test_rows_are_merged_weighted_and_left_out() -> None:
    table = table_of([A, B, A, A, C, A])
    batch = make_batch(table, np.array([1.0, 2.0, -3.0, 0.5, np.nan, 0.0]))
    # A occurs with 1, -3, 0.5 and 0; C was not scored.
    assert (batch.prompts, batch.replies) == (((1, 2), (1, 2)), ((7,), (8, 9)))
    assert (batch.weight.tolist(), batch.positive.tolist()) == ([4.0, 1.0], [1.5, 2.0])
    assert (batch.negative.tolist(), batch.positive_weight.tolist()) == ([-3.0, 0.0], [2.0, 1.0])
    assert (batch.negative_weight.tolist(), batch.mask.tolist()) == ([1.0, 0.0], [[True, False], [True, True]])
    assert (batch.old_logprobs.tolist(), batch.raw_rows) == ([[-0.5, 0.0], [-1.0, -0.25]], 5)
    # Trajectory 0 has scored rows A and B (1/2 each), trajectory 1 only A (1): A weighs 3/2, its advantage 1/2*2 + 1*4.
    table = table_of([A, B, C, A], trajectory=[0, 0, 0, 1])
    batch = make_batch(table, np.array([2.0, -1.0, np.nan, 4.0]), weighting="trajectory")
    assert (batch.weight.tolist(), batch.positive.tolist()) == ([1.5, 0.5], [5.0, 0.0])
    assert batch.negative.tolist() == [0.0, -0.5]
    # A's advantages cancel in sum, not in the clipped objective.
    table = table_of([A, A, B, C])
    advantages = np.array([1.0, -1.0, 0.0, 0.0])
    whole, batch = make_batch(table, advantages), make_batch(table, advantages, keep_zero=False)
    assert (whole.trained.tolist(), whole.signal.tolist()) == ([True] * 3, [True, False, False])
    assert whole.kept() is whole
    # They are not trained, and count in the mean and in the division into mini-batches.
    assert (len(batch), batch.trained.tolist(), batch.weight.sum()) == (3, [True, False, False], 4.0)
    kept = batch.kept()
    assert (kept.replies, kept.trained.tolist(), kept.raw_rows) == (((7,),), [True], 4)
    # B occurs twice, with (1, -2) and (-3, -4); A's second place is behind its end, C was not scored.
    nan = float("nan")
    table = table_of([B, A, B, C])
    batch = make_batch(table, np.array([[1.0, -2.0], [5.0, nan], [-3.0, -4.0], [nan, nan]]))
    assert (batch.replies, batch.weight.tolist()) == (((8, 9), (7,)), [2.0, 1.0])
    assert (batch.positive.tolist(), batch.negative.tolist()) == ([[1.0, 0.0], [5.0, 0.0]], [[-3.0, -6.0], [0.0, 0.0]])
    assert batch.positive_weight.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert batch.negative_weight.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    part = batch.take([1])
    assert (part.positive.tolist(), part.negative_weight.tolist()) == ([[5.0]], [[0.0]])
    one = make_batch(table, np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [nan, nan]]), keep_zero=False)
    assert (one.kept().replies, one.kept().positive.tolist()) == (((8, 9),), [[0.0, 2.0]])
    assert len(make_batch(table, np.full((4, 2), nan))) == 0


def test_empty_batches_cuts_and_minibatches() -> None:
    batch = make_batch(table_of([A, B]), np.full(2, np.nan))
    assert (len(batch), batch.mask.shape, batch.minibatches(4, np.random.default_rng(0))) == (0, (0, 0), [])
    batch = make_batch(table_of([A, B, C]), np.ones(3))
    part = batch.take([2, 0])
    assert (part.replies, part.mask.shape) == (((7,), (7,)), (2, 1))
    assert part.old_logprobs.tolist() == [[-2.0], [-0.5]]
    replies = [Reply("", (prompt,), (token,), (-1.0,)) for token in range(4) for prompt in range(25)]
    batch = make_batch(table_of(replies), np.ones(100))
    parts = batch.minibatches(32, np.random.default_rng(3))
    assert sorted(np.concatenate(parts).tolist()) == list(range(100))
    assert [len(part) for part in parts] == [25] * 4  # 100 rows in at most 32: four equal parts
    order = [batch.prompts[row] for row in np.concatenate(parts)]
    assert all(order[4 * i : 4 * i + 4] == [order[4 * i]] * 4 for i in range(25))
    again = batch.minibatches(32, np.random.default_rng(3))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    other = batch.minibatches(32, np.random.default_rng(4))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))
    with pytest.raises(ValueError, match="holds no replies"):
        make_batch(dataclasses.replace(table_of([A]), replies=None), np.ones(1))


@cases(
    "replies, advantages, options, words",
    ([A, B], np.ones(3), {}, r"shape \(2,\), got shape \(3,\)"),
    ([A, B], np.array([0.0, np.inf]), {}, "row 1 is infinite"),
    ([A, B], np.ones((2, 1)), {}, "1 advantages per row, but a reply has 2 tokens"),
    ([A, B], np.array([[1.0, 0.0], [np.nan, 1.0]]), {}, "row 1: some of its tokens are not scored"),
    ([A, B], np.array([[1.0, 0.0], [np.inf, 1.0]]), {}, "row 1 is infinite"),
    ([A, Reply("by hand")], np.ones(2), {}, "row 1 has no reply tokens"),
    ([A, None], np.ones(2), {}, "row 1 has no reply tokens"),
    ([Reply("", (1,), (2, 3), (-1.0,))], np.ones(1), {}, "2 reply tokens but 1 log-prob"),
    ([A], np.ones(1), {"weighting": "steps"}, "'step' or 'trajectory', got 'steps'"),
)
def test_wrong_input_is_named(replies: Any, advantages: Any, options: Any, words: str) -> None:
    refuses(ValueError, words, lambda: make_batch(table_of(replies), advantages, **options))


def _loss(batch: Batch, logits: dict[tuple[tuple[int, ...], int, int], Tensor], aggregation: Any, how: Any) -> Tensor:
    """The whole objective on a batch, in float64, from one number per (prompt, reply position, token)."""
    rows, none = [], torch.zeros((), dtype=torch.float64)
    for prompt, reply in zip(batch.prompts, batch.replies, strict=True):
        said = [logits[prompt, i, token] for i, token in enumerate(reply)]
        rows.append(torch.stack(said + [none] * (batch.mask.shape[1] - len(reply))))
    logprobs = torch.stack(rows)
    divisor = normaliser(batch.mask, batch.weight, aggregation, 7).double()
    old, positive, negative = batch.old_logprobs.double(), batch.positive.double(), batch.negative.double()
    ratio = importance_ratio(logprobs, old, batch.mask, how["level"])
    policy = (
        cispo(ratio, logprobs, positive, negative, clip_low=0.2, clip_high=0.3)
        if how["cispo"]
        else clipped_surrogate(ratio, positive, negative, clip_low=0.2, clip_high=0.3, dual_clip=1.5)
    )
    if how["tis"]:
        policy = policy * correction(old, 1.5 * old + 0.3, batch.mask, how["tis"], 1.2)
    weight = batch.weight.double()[:, None]
    total = policy + 0.1 * weight * divergence(logprobs, old - 0.4, how["form"]) + 0.01 * weight * logprobs.exp()
    clipped = clipped_weight(ratio, batch.positive_weight, batch.negative_weight, clip_high=0.3)
    return aggregate(total, batch.mask, aggregation, divisor) + 10 * aggregate(
        clipped.double().detach(), batch.mask, aggregation, divisor
    )


@given(st.data())
def test_merged_and_raw_batches_have_the_same_loss_and_gradient(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    aggregation = data.draw(st.sampled_from(["token-mean", "row-mean", "row-sum", "constant"]))
    ways = {"level": ["token", "step", "step-token"], "cispo": [False, True], "tis": [None, "token", "step"],
            "form": ["k1", "k2", "k3"]}  # fmt: skip
    how = {name: data.draw(st.sampled_from(ways[name])) for name in ways}
    weighting = data.draw(st.sampled_from(["step", "trajectory"]))
    kinds = [
        Reply("", (prompt,), reply, tuple(rng.normal(-1, 0.7, len(reply)).tolist()))
        for prompt in range(3)
        for reply in ((0,), (1,), (0, 1), (2, 2, 2))
    ]
    n = 60
    replies: list[Reply | None] = [kinds[i] for i in rng.integers(0, len(kinds), n)]
    # Multiples of 1/8 are exact in float32, so that the columns of the two batches hold the same numbers.
    per_token = data.draw(st.booleans())
    advantages = np.round(rng.normal(size=(n, 3) if per_token else n) * 8) / 8
    advantages[rng.random(n) < 0.1] = np.nan
    table = table_of(replies, trajectory=sorted(rng.integers(0, 2, n).tolist()))
    found = []
    for merge in (True, False):
        batch = make_batch(table, advantages, weighting=weighting, merge=merge)
        generator = np.random.default_rng(1)
        places = [(kind.prompt_ids, i, token) for kind in kinds for i, token in enumerate(kind.token_ids)]
        drawn = torch.tensor(generator.normal(-1, 0.7, len(places)), requires_grad=True)
        logits = dict(zip(places, drawn, strict=True))
        loss = _loss(batch, logits, aggregation, how)
        (gradient,) = torch.autograd.grad(loss, drawn)
        found.append((loss.item(), gradient.tolist(), len(batch)))
    (loss, gradient, merged_rows), (raw_loss, raw_gradient, raw_rows) = found
    assert merged_rows <= 12 < raw_rows
    # Weights of 1/steps are rounded to float32; everything else is exact up to the order of float64 sums.
    tolerance = 1e-12 if weighting == "step" else 1e-6
    assert loss == pytest.approx(raw_loss, rel=tolerance, abs=tolerance)
    assert gradient == pytest.approx(raw_gradient, rel=tolerance, abs=tolerance)


def table_of_lengths(lengths: list[int], trajectory: list[int], t: list[int]) -> StepTable:
    return filled(replies=[Reply("", (1,), (2,) * k, (-1.0,) * k) for k in lengths], trajectory=trajectory, t=t)


def test_tokens_stand_in_order_of_time() -> None:
    # Rows out of order: trajectory 0 is row 2 (3 tokens), then row 0 (1 token); trajectory 1 is row 1 (2 tokens).
    columns = TokenColumns.from_table(table_of_lengths([1, 2, 3], [0, 1, 0], [5, 0, 2]))
    per_reply = np.array([[1.0, 9.0, 9.0], [21.0, 22.0, 9.0], [31.0, 32.0, 33.0]])
    found = columns.by_trajectory(per_reply)
    assert found.tolist() == [[31.0, 32.0, 33.0, 1.0], [21.0, 22.0, 0.0, 0.0]]
    assert columns.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert columns.turn_ends.tolist() == [[False, False, True, True], [False, True, False, False]]
    assert columns.by_reply(found).tolist() == [[1.0, 0.0, 0.0], [21.0, 22.0, 0.0], [31.0, 32.0, 33.0]]
    assert columns.at_turn_ends(np.array([0.1, 0.2, 0.3])).tolist() == [[0.0, 0.0, 0.3, 0.1], [0.0, 0.2, 0.0, 0.0]]
    table = table_of_lengths([1, 0], [0, 0], [0, 1])
    refuses(ValueError, "row 1 has no reply tokens", reply_lengths, table)
    refuses(ValueError, "holds no replies", lambda: TokenColumns.from_table(dataclasses.replace(table, replies=None)))


@pytest.mark.parametrize("most", [5, 4])  # unfolded it has 5 rows: it is read so, and as it is
def test_a_row_that_several_episodes_share_is_trained_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "MOST_UNFOLDED", most)
    # Trajectory 1 was cut from 0 after its first step: the episodes have three steps and two, and share the first.
    other = Reply("d", (1, 2, 7, 5), (8,), (-0.5,))
    steps = {"t": [0, 1, 2, 1], "state": [0, 1, 2, 1], "next_state": [1, 2, 3, 3]}
    table = filled(replies=[A, B, C, other], trajectory=[0, 0, 0, 1], parent={1: (0, 0)}, **steps)
    for merge in (True, False):
        batch = make_batch(table, np.arange(1.0, 5.0), merge=merge)
        assert list(zip(batch.prompts, batch.replies, strict=True)) == [
            (reply.prompt_ids, reply.token_ids) for reply in (A, B, C, other)
        ]
        assert batch.positive.tolist() == [1.0, 2.0, 3.0, 4.0]
    # A third of the first episode, half of the second; the shared step the mean of both.
    weights = make_batch(table, np.ones(4), weighting="trajectory").weight
    np.testing.assert_allclose(weights, [5 / 12, 1 / 3, 1 / 3, 1 / 2], rtol=1e-6)
    weights = make_batch(table, np.array([1.0, np.nan, 1.0, 1.0]), weighting="trajectory").weight
    np.testing.assert_allclose(weights, [1 / 2, 1 / 2, 1 / 2], rtol=1e-6)


def split(advantages: Tensor) -> tuple[Tensor, Tensor]:
    return advantages.clamp(min=0), advantages.clamp(max=0)


def test_losses_by_hand_at_extreme_and_masked_values_too() -> None:
    # Ratio 9: A = -1 costs 9, with the limit 3 it costs 3 and has no gradient; A = 1 stays at -1.2.
    logprobs = torch.tensor([[9.0], [9.0]]).log().requires_grad_()
    loss = clipped_surrogate(logprobs.exp(), *split(torch.tensor([-1.0, 1.0])), dual_clip=3.0)
    torch.testing.assert_close(loss.detach(), torch.tensor([[3.0], [-1.2]]))
    loss.sum().backward()
    assert logprobs.grad.tolist() == [[0.0], [0.0]]
    # x = reference - logprobs = 3: e^3 - 4 is above the limit 10.
    logprobs = torch.tensor([[-3.0, -1.0]]).requires_grad_()
    cut = divergence(logprobs, torch.zeros(1, 2))
    cut.sum().backward()
    assert cut[0, 0] == 10.0
    assert logprobs.grad[0, 0] == 0.0
    torch.testing.assert_close(logprobs.grad[0, 1], torch.tensor(1 - torch.e))  # d/dl (exp(-l) + l - 1) at -1
    # Ratio 1.5 clips the 3 raw rows with a positive advantage, ratio 0.5 the 2 with a negative one.
    found = clipped_weight(torch.tensor([[1.5, 0.5, 1.0]]), torch.tensor([3.0]), torch.tensor([2.0]))
    assert found.tolist() == [[3.0, 2.0, 0.0]]
    # Ratio 1.5 with A = 2 and ratio 0.5 with A = -2 in one row: -2 * 1.2 and 2 * 0.8.
    ratio = torch.tensor([[1.5, 0.5]])
    loss = clipped_surrogate(ratio, *split(torch.tensor([[2.0, -2.0]])))
    torch.testing.assert_close(loss, torch.tensor([[-2.4, 1.6]]))
    assert clipped_weight(ratio, torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 2.0]])).tolist() == [[3.0, 2.0]]
    logprobs = torch.tensor([[300.0, -300.0]]).requires_grad_()
    ratio = importance_ratio(logprobs, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    loss = clipped_surrogate(ratio, torch.tensor([1.0]), torch.tensor([-1.0]))
    (loss + divergence(logprobs, torch.zeros(1, 2))).sum().backward()
    assert torch.isfinite(logprobs.grad).all()
    values = torch.tensor([[1.0, float("nan")], [2.0, 4.0]])
    assert aggregate(values, torch.tensor([[True, False], [True, True]]), "token-mean", 2.0).item() == 3.5
    with pytest.raises(ValueError, match="got 'mean'"):
        aggregate(torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), "mean", 1.0)  # type: ignore[arg-type]


DOUBLE = torch.float64


def test_levels_by_hand() -> None:
    # s = 1 and only the second token has an advantage: its own gradient, or half of it on each token.
    zero, mask = torch.zeros(1, 2, dtype=DOUBLE), torch.ones(1, 2, dtype=torch.bool)
    positive = torch.tensor([[0.0, 1.0]], dtype=DOUBLE)
    found = []
    for level in ("step-token", "step"):
        d = zero.clone().requires_grad_()
        ratio = importance_ratio(d, zero, mask, level)  # type: ignore[arg-type]
        clipped_surrogate(ratio, positive, torch.zeros_like(positive)).sum().backward()
        found.append(d.grad[0].tolist())
    assert found == [[0.0, -1.0], [-0.5, -0.5]]
    trainer = torch.tensor([[0.9, 0.2, 0.0]]).log()
    sampler = torch.tensor([[0.3, 0.4, 0.5]]).log()
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(correction(trainer, sampler, mask, "token", 2.0), torch.tensor([[2.0, 0.5, 1.0]]))
    torch.testing.assert_close(correction(trainer, sampler, mask, "step", 2.0), torch.tensor([[1.5, 1.5, 1.0]]))
    torch.testing.assert_close(correction(trainer, sampler, mask, "step", 1.0), torch.ones(1, 3))
    assert divergence(torch.tensor([3.0, -3.0, 1.0]), torch.zeros(3), "k1", limit=2.0).tolist() == [2.0, -2.0, 1.0]


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
    torch.testing.assert_close(gradient, {"k1": torch.zeros(3, dtype=DOUBLE), "k2": forward, "k3": backward}[form])


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
