"""Finished sequences, and rows of engines."""

import dataclasses

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.batch import make_batch
from baselines.engines.engine_rows import EngineRow, credited, steps_of
from baselines.engines.sequences import TokenSequence, token_sequences
from policies.prompts import FIRST_PICTURE
from tests.playing import filled
from tests.refusals import refuses
from wrappers.credit import reinforce_plus_plus


def _table(replies: list[Reply], trajectory: list[int], t: list[int]) -> StepTable:
    return filled(replies=replies, trajectory=trajectory, t=t)


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
    assert (one.rows, one.advantages) == ((1, 0), (2.0, 2.0, 0.0, 0.0, -1.0))


def test_steps_that_are_context_silent_per_token_or_refused() -> None:
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), np.array([np.nan, -1.0]))
    assert (one.completion_ids, one.mask) == ((3, 4, 9, 9, 5), (False, False, False, False, True))
    assert (one.logprobs, one.advantages) == ((0.0, 0.0, 0.0, 0.0, -0.3), (0.0, 0.0, 0.0, 0.0, -1.0))
    assert token_sequences(_table([FIRST], [0], [0]), np.array([np.nan])) == []
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), np.array([0.0, -1.0]))
    assert (one.mask, one.logprobs) == ((True, True, False, False, True), (-0.1, -0.2, 0.0, 0.0, -0.3))
    assert len(token_sequences(_table([FIRST], [0], [0]), np.zeros(1))) == 1
    advantages = np.array([[1.0, 2.0], [3.0, np.nan]])  # what stands behind a reply's end is not looked at
    (one,) = token_sequences(_table([FIRST, CONTINUES], [0, 0], [0, 1]), advantages)
    assert one.advantages == (1.0, 2.0, 0.0, 0.0, 3.0)
    # The third row was cut from the first: its prompt holds that one's reply, which is trained where it was written.
    other = Reply("", (1, 2, 3, 4, 8), (6, 7), (-0.4, -0.5))
    steps = {"trajectory": [0, 0, 1], "t": [0, 1, 1], "state": ["s", "u", "u"], "next_state": ["u", "v", "w"]}
    table = filled(replies=[FIRST, CONTINUES, other], parent={1: (0, 0)}, **steps)
    whole, cut = token_sequences(table, np.array([2.0, -1.0, 3.0]))
    assert (whole.prompt_ids, whole.completion_ids) == ((1, 2), (3, 4, 9, 9, 5))
    assert (cut.prompt_ids, cut.completion_ids, cut.mask) == ((1, 2, 3, 4, 8), (6, 7), (True, True))
    assert cut.advantages == (3.0, 3.0)
    assert sum(whole.mask) + sum(cut.mask) == 5  # every token that was written, once
    table = _table([FIRST, Reply("left")], [0, 0], [0, 1])
    refuses(ValueError, "row 1 has no reply tokens", lambda: token_sequences(table, np.ones(2)))
    refuses(ValueError, "shape", lambda: token_sequences(_table([FIRST], [0], [0]), np.ones(2)))
    picture = Reply("up", (1, FIRST_PICTURE + 5, 2), (3,), (-0.5,))
    with pytest.raises(ValueError, match="row 1: its prompt shows a picture"):
        token_sequences(_table([FIRST, picture], [0, 0], [0, 1]), np.ones(2))


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


# Two episodes of one group. The first goes on in its own tokens and is one row; the second is a row for each step.
ONE_ROW = [Reply("a", (1, 2), (3, 4), (-0.1, -0.2)), Reply("b", (1, 2, 3, 4, 9), (5,), (-0.3,))]
TWO_ROWS = [Reply("a", (1, 2), (3, 6), (-0.1, -0.2)), Reply("c", (7, 8), (5, 5, 5), (-0.3,) * 3)]


def _episode(replies: list[Reply], name: str, won: bool) -> StepTable:
    return StepTable.from_arrays(
        group=["g", "g"], trajectory=[name, name], t=[0, 1], state=["s", "u"], action=[one.text for one in replies],
        next_state=["u", "end"], reward=[-0.1, float(won)], won=[won, won], valid=[True, won],
        terminated=[False, won], truncated=[False, not won], replies=replies,
    )  # fmt: skip


def _rows(table: StepTable) -> list[EngineRow]:
    (episode,) = table.to_trajectories()
    return [
        EngineRow("g", f"g_{episode.trajectory}", one.completion_ids, steps_of(episode, one.rows, len(one.prompt_ids)))
        for one in token_sequences(table, table.reward)
    ]


TABLES = [_episode(ONE_ROW, "x", True), _episode(TWO_ROWS, "y", False)]
ROWS = [row for table in TABLES for row in _rows(table)]
PADDING = EngineRow("pad", "pad_0", (0,), ())


def test_credit_comes_back_to_tokens() -> None:
    assert [len(row.steps) for row in ROWS] == [2, 1, 1]
    shuffled = [ROWS[2], PADDING, ROWS[0], ROWS[1]]
    seen, _, _ = credited(shuffled, lambda table: table.reward)
    again_by_name = sorted(seen.to_trajectories(), key=lambda one: one.trajectory)
    for episode, again in zip(StepTable.concatenate(TABLES).to_trajectories(), again_by_name, strict=True):
        assert again.trajectory == f"g_{episode.trajectory}"
        assert (again.group, again.won, again.ending) == (episode.group, episode.won, episode.ending)
        for step, found in zip(episode.steps, again.steps, strict=True):
            assert found.reply == Reply(step.reply.text, (), step.reply.token_ids)
            assert dataclasses.replace(found, reply=None) == dataclasses.replace(step, reply=None)
    # By hand: steps in the order of the rows given, 1, 2, 3, 4.
    _, advantages, scored = credited([*ROWS, PADDING], lambda table: np.arange(1.0, 5.0))
    assert [one.tolist() for one in advantages] == [[1, 1, 0, 2], [3, 3], [4, 4, 4], [0]]
    assert [one.tolist() for one in scored] == [[True, True, False, True], [True] * 2, [True] * 3, [False]]
    _, advantages, scored = credited(ROWS, lambda table: np.array([0.0, 2.0, 0.0, 0.0]))
    assert [one.tolist() for one in advantages] == [[0, 0, 0, 2], [0, 0], [0, 0, 0]]
    assert [one.tolist() for one in scored] == [[True, True, False, True], [True] * 2, [True] * 3]
    _, advantages, scored = credited(ROWS, lambda table: np.array([np.nan, 2.0, 3.0, np.nan]))
    assert [one.tolist() for one in advantages] == [[0, 0, 0, 2], [3, 3], [0, 0, 0]]
    assert [one.tolist() for one in scored] == [[False, False, False, True], [True] * 2, [False] * 3]
    values = np.arange(12.0).reshape(4, 3)
    _, advantages, _ = credited(ROWS, lambda table: values)
    assert [one.tolist() for one in advantages] == [[0, 1, 0, 3], [6, 7], [9, 10, 11]]
    with pytest.raises(ValueError, match=r"expected one advantage per row, shape \(4,\), got shape \(3,\)"):
        credited(ROWS, lambda table: np.zeros(3))
    refuses(ValueError, "none of 1 rows holds a step", credited, [PADDING], lambda table: table.reward)
    cut = dataclasses.replace(ROWS[0], completion_ids=(3, 4, 9))
    with pytest.raises(ValueError, match=r"step 1 of g_x wrote tokens 3 to 4 of a row with 3: the engine has cut"):
        credited([cut, *ROWS[1:]], lambda table: table.reward)


def test_a_method_gives_the_same_numbers_as_on_the_houses_table() -> None:
    expected = reinforce_plus_plus(StepTable.concatenate(TABLES), gamma=0.9)
    _, advantages, _ = credited(ROWS[::-1], lambda table: reinforce_plus_plus(table, gamma=0.9))
    last, second, first = advantages
    found = [first[0], first[3], second[0], last[0]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert len(set(found)) == 4
