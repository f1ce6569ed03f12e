"""Steps go with an engine's rows and their credit comes back to the tokens, whatever happened to the rows between."""

import dataclasses

import numpy as np
import pytest

from agentgym.trajectory import Reply, StepTable
from baselines.engines.engine_rows import EngineRow, credited, steps_of
from baselines.engines.sequences import token_sequences
from tests.refusals import refuses
from wrappers.credit import reinforce_plus_plus

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
    whole = StepTable.concatenate(TABLES)
    expected = reinforce_plus_plus(whole, gamma=0.9)
    _, advantages, _ = credited(ROWS[::-1], lambda table: reinforce_plus_plus(table, gamma=0.9))
    last, second, first = advantages
    found = [first[0], first[3], second[0], last[0]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert len(set(found)) == 4
