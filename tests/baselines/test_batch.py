"""make_batch: what is left out, what is merged, and that merging changes nothing."""

import dataclasses
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
