"""Sequences by hand: what is joined, what is masked, and that nothing is lost on the way to an engine."""

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.batch import make_batch
from baselines.engines.sequences import TokenSequence, token_sequences
from policies.prompts import FIRST_PICTURE
from tests.refusals import refuses


def _table(replies: list[Reply], trajectory: list[int], t: list[int]) -> StepTable:
    n = len(replies)
    return StepTable.from_arrays(
        group=["g"] * n, trajectory=trajectory, t=t, state=["s"] * n, action=["a"] * n, next_state=["s"] * n,
        reward=[0.0] * n, won=[False] * n, replies=replies,
    )  # fmt: skip


FIRST = Reply("", (1, 2), (3, 4), (-0.1, -0.2))
CONTINUES = Reply("", (1, 2, 3, 4, 9, 9), (5,), (-0.3,))
ANEW = Reply("", (1, 2, 3, 8), (6,), (-0.4,))


def test_sequences_by_hand() -> None:
    table = _table([FIRST, CONTINUES], [0, 0], [0, 1])
    assert token_sequences(table, np.array([2.0, -1.0])) == [
        TokenSequence(
            prompt_ids=(1, 2),
            completion_ids=(3, 4, 9, 9, 5),
            mask=(True, True, False, False, True),
            logprobs=(-0.1, -0.2, 0.0, 0.0, -0.3),
            advantages=(2.0, 2.0, 0.0, 0.0, -1.0),
            rows=(0, 1),
            group=0,
            trajectory=0,
        )
    ]
    table = _table([FIRST, ANEW], [0, 0], [0, 1])
    sequences = token_sequences(table, np.array([2.0, -1.0]))
    assert [(one.prompt_ids, one.completion_ids) for one in sequences] == [((1, 2), (3, 4)), ((1, 2, 3, 8), (6,))]
    further = Reply("", (1, 2, 3, 8, 6, 7), (5,), (-0.3,))
    sequences = token_sequences(_table([FIRST, ANEW, further], [0, 0, 0], [0, 1, 2]), np.ones(3))
    assert [one.rows for one in sequences] == [(0,), (1, 2)]
    sequences = token_sequences(_table([FIRST, CONTINUES], [0, 1], [0, 0]), np.ones(2))
    assert [(one.rows, one.trajectory) for one in sequences] == [((0,), 0), ((1,), 1)]
    table = _table([CONTINUES, FIRST], [0, 0], [1, 0])
    (one,) = token_sequences(table, np.array([-1.0, 2.0]))
    assert one.rows == (1, 0)
    assert one.advantages == (2.0, 2.0, 0.0, 0.0, -1.0)


def test_steps_that_are_context_silent_or_per_token() -> None:
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), np.array([np.nan, -1.0]))
    assert one.completion_ids == (3, 4, 9, 9, 5)
    assert one.mask == (False, False, False, False, True)
    assert one.logprobs == (0.0, 0.0, 0.0, 0.0, -0.3)
    assert one.advantages == (0.0, 0.0, 0.0, 0.0, -1.0)
    assert token_sequences(_table([FIRST], [0], [0]), np.array([np.nan])) == []
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), np.array([0.0, -1.0]))
    assert (one.mask, one.logprobs) == ((True, True, False, False, True), (-0.1, -0.2, 0.0, 0.0, -0.3))
    assert len(token_sequences(_table([FIRST], [0], [0]), np.zeros(1))) == 1
    advantages = np.array([[1.0, 2.0], [3.0, np.nan]])  # what stands behind a reply's end is not looked at
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), advantages)
    assert one.advantages == (1.0, 2.0, 0.0, 0.0, 3.0)
    # The third row was cut from the first: its prompt holds that one's reply, which is trained where it was written.
    other = Reply("", (1, 2, 3, 4, 8), (6, 7), (-0.4, -0.5))
    table = StepTable.from_arrays(
        group=["g"] * 3, trajectory=[0, 0, 1], t=[0, 1, 1], state=["s", "u", "u"], action=["a"] * 3,
        next_state=["u", "v", "w"], reward=[0.0] * 3, won=[False] * 3, replies=[FIRST, CONTINUES, other],
        parent={1: (0, 0)},
    )  # fmt: skip
    whole, cut = token_sequences(table, np.array([2.0, -1.0, 3.0]))
    assert (whole.prompt_ids, whole.completion_ids) == ((1, 2), (3, 4, 9, 9, 5))
    assert (cut.prompt_ids, cut.completion_ids, cut.mask) == ((1, 2, 3, 4, 8), (6, 7), (True, True))
    assert cut.advantages == (3.0, 3.0)
    assert sum(whole.mask) + sum(cut.mask) == 5  # every token that was written, once


def test_the_sum_over_tokens_is_that_of_the_houses_batch() -> None:
    rng = np.random.default_rng(3)
    replies, trajectory, t = [], [], []
    for episode in range(20):
        seen: tuple[int, ...] = ()
        for step in range(int(rng.integers(1, 5))):
            prompt = (*seen, *rng.integers(0, 9, 3).tolist()) if rng.random() < 0.7 else (1, 2, 3)
            tokens = tuple(rng.integers(0, 9, int(rng.integers(1, 4))).tolist())
            replies.append(Reply("", prompt, tokens, tuple(rng.normal(size=len(tokens)).tolist())))
            trajectory.append(episode)
            t.append(step)
            seen = prompt + tokens
    table = _table(replies, trajectory, t)
    advantages = rng.normal(size=len(table))
    advantages[::7] = np.nan
    sequences = token_sequences(table, advantages)
    batch = make_batch(table, advantages, merge=False)
    tokens = batch.mask.sum(1).numpy()
    assert sum(map(sum, (one.mask for one in sequences))) == tokens.sum()
    expected = ((batch.positive + batch.negative).numpy() * tokens).sum()
    assert sum(sum(one.advantages) for one in sequences) == pytest.approx(expected, abs=1e-4)
    assert sum(sum(one.logprobs) for one in sequences) == pytest.approx(batch.old_logprobs.sum().item(), abs=1e-4)
    for one in sequences:
        assert len(one.completion_ids) == len(one.mask) == len(one.logprobs) == len(one.advantages)
        last = replies[one.rows[-1]]
        assert one.prompt_ids + one.completion_ids == last.prompt_ids + last.token_ids


def test_what_is_refused_by_row() -> None:
    table = _table([FIRST, Reply("left")], [0, 0], [0, 1])
    refuses(ValueError, "row 1 has no reply tokens", lambda: token_sequences(table, np.ones(2)))
    refuses(ValueError, "shape", lambda: token_sequences(_table([FIRST], [0], [0]), np.ones(2)))
    picture = Reply("up", (1, FIRST_PICTURE + 5, 2), (3,), (-0.5,))
    with pytest.raises(ValueError, match="row 1: its prompt shows a picture"):
        token_sequences(_table([FIRST, picture], [0, 0], [0, 1]), np.ones(2))
