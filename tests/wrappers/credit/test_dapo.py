import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from tests.corridor import CorridorEnv
from tests.playing import of
from tests.refusals import refuses
from tests.wrappers.credit.small_tables import groups_of, random_table
from wrappers.credit import grpo
from wrappers.credit.dapo import DAPO, contrasting_groups, dapo, overlong_penalty

PAGE = Path(__file__).parents[3] / "docs" / "credit" / "group_filters.md"


#: One group each in which some win, none, all; where returns of the lost or the won differ; and a lone one.
TABLE = groups_of([1, 0], [0, 0], [1, 1], [0.5, 0], [1, 0.9], [1])


def test_which_groups_have_contrast_and_their_scores() -> None:
    assert contrasting_groups(TABLE).tolist() == [True, False, False, False, False, False]
    by_return = [True, False, False, True, True, False]
    assert contrasting_groups(TABLE, contrast="return").tolist() == by_return
    assert contrasting_groups(TABLE, preset="authors").tolist() == by_return
    table = groups_of([0.1 + 0.2, 0.3], [0.3 + 1e-6, 0.3])
    assert contrasting_groups(table, contrast="return").tolist() == [False, True]
    # Outcomes 1 and 0: +-1/2 without the deviation, also where the returns say more.
    assert dapo(TABLE, std="none") == pytest.approx([0.5, -0.5, *[np.nan] * 9], nan_ok=True)
    # Returns 1/2 and 0, 1 and .9.
    scores = [0.5, -0.5, *[np.nan] * 4, 0.25, -0.25, 0.05, -0.05, np.nan]
    assert dapo(TABLE, preset="authors", std="none") == pytest.approx(scores, nan_ok=True)
    # What decides and what is compared are two options.
    assert dapo(TABLE, outcome="won", contrast="return", std="none")[6:8] == pytest.approx([0, 0])
    table = dataclasses.replace(TABLE, valid=np.arange(len(TABLE)) % 2 == 0)
    assert contrasting_groups(table, preset="authors").tolist() == contrasting_groups(TABLE, preset="authors").tolist()
    assert np.isnan(dapo(table, preset="authors")[2:4]).all()
    assert np.isnan(dapo(table, penalty="advantage", invalid_penalty=1.0)[2:4]).all()


@pytest.mark.parametrize("preset", ["paper", "authors"])
@pytest.mark.parametrize("seed", range(5))
def test_scored_rows_are_those_of_grpo(preset, seed):
    table = random_table(seed)
    scores = dapo(table, preset=preset)
    scored = ~np.isnan(scores)
    np.testing.assert_array_equal(scored, contrasting_groups(table, preset=preset)[table.group])
    options = {"outcome": "won"} if preset == "paper" else {}
    np.testing.assert_array_equal(scores[scored], grpo(table, preset=preset, **options)[scored])


def test_overlong_penalties_by_hand() -> None:
    # 100 tokens at most, the last 20 of them punished: 85 is 5 of 20 into them.
    assert overlong_penalty([0, 80, 85, 100, 101, 140], max_length=100, buffer=20).tolist() == [0, 0, -0.25, -1, -1, -1]
    assert overlong_penalty([85, 140], max_length=100, buffer=20, floor=None).tolist() == [-0.25, -3]
    assert overlong_penalty(np.full((2, 3), 90), max_length=100, buffer=20).tolist() == [[-0.5] * 3] * 2
    assert not np.signbit(overlong_penalty([1], max_length=2, buffer=1)).any()
    for buffer in (0, 101):
        words = f"buffer must be between 1 and max_length=100 tokens, got {buffer}"
        refuses(ValueError, words, overlong_penalty, [1], max_length=100, buffer=buffer)
    refuses(ValueError, "at least 0, got -1", overlong_penalty, [5, -1], max_length=100, buffer=10)
    refuses(ValueError, "at least 0, got nan", overlong_penalty, [np.nan], max_length=100, buffer=10)
    late = overlong_penalty(np.tile([0, 100], 6)[: len(TABLE)], max_length=100, buffer=20)
    table = dataclasses.replace(TABLE, reward=TABLE.reward + late)
    assert contrasting_groups(table).tolist() == contrasting_groups(TABLE).tolist()
    # Returns 1 and -1 in the mixed group.
    assert dapo(table, outcome="return", std="none")[:2] == pytest.approx([1, -1])


class _NumberedCorridor(CorridorEnv):
    """The index names the task; all begin in the middle cell."""

    def begin(self, options):
        super().begin({"index": 2})
        self.number = int(options["index"])

    def describe(self, valid):
        return {**super().describe(valid), "task_id": f"task-{self.number}"}


def _tasks(*numbers, size=4):
    return [{"index": number} for number in numbers for _ in range(size)]


def _play(envs, infos, playing):
    """Tasks up to 3 are always lost, up to 6 always won, and in the others every second sub-environment wins."""
    while playing.any():
        number = [int(task.removeprefix("task-")) for task in infos["task_id"]]
        right = [n > 3 and (n <= 6 or i % 2) for i, n in enumerate(number)]
        _, _, terminated, truncated, infos = envs.step(np.where(right, "right", "left").tolist())
        playing = playing & ~(terminated | truncated)


def test_which_sub_envs_hold_no_contrast():
    envs = DAPO(of(_NumberedCorridor, 12))
    refuses(ValueError, "DAPO has recorded nothing", envs.sub_envs_without_contrast)
    _, infos = envs.reset(options=_tasks(7, 1, 4))
    refuses(ValueError, "12 of 12 sub-environments still play", envs.sub_envs_without_contrast)
    _play(envs, infos, np.ones(12, bool))
    assert envs.sub_envs_without_contrast().tolist() == [False] * 4 + [True] * 8
    # A full reset forgets the tasks and the table.
    _, infos = envs.reset(options=_tasks(1, 7, 4))
    _play(envs, infos, np.ones(12, bool))
    without = envs.sub_envs_without_contrast()
    assert without.tolist() == [True] * 4 + [False] * 4 + [True] * 4
    # A task drawn again adds to its group. Of 7, odd and even sub-environments win and lose; in even ones only it would
    # be lost.
    mask = without & (np.arange(12) % 2 == 0)
    _, infos = envs.reset(options={"reset_mask": mask, "per_env": _tasks(7, 7, 7)})
    _play(envs, infos, mask)
    assert (envs.table().trajectory_group == envs.table().groups.index("task-7")).sum() == 8
    assert envs.sub_envs_without_contrast().tolist() == [False, True] * 2 + [False] * 4 + [False, True] * 2


def test_the_wrapper_filters_by_its_own_options():
    envs = DAPO(of(_NumberedCorridor, 4), contrast="return")
    envs.reset(options=_tasks(1))
    # All are lost; one sub-environment jumped first, which costs 0.5.
    envs.step(["jump", "left", "left", "left"])
    envs.step(["left", "left", "left", "left"])
    envs.step(["left", "", "", ""])
    assert not envs.sub_envs_without_contrast().any()
    assert envs.advantages() == pytest.approx(grpo(envs.table(), outcome="won"))


def test_the_loop_of_the_page_fills_its_batch():
    [loop] = [
        block
        for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        if "sub_envs_without_contrast" in block
    ]
    names: dict = {"np": np}
    exec(compile(loop, str(PAGE), "exec"), names)
    table = names["envs"].table()
    assert names["attempt"] > 0
    assert table.n_groups > names["groups"]
    assert len(np.unique(table.group[names["batch"]])) == names["groups"]
    assert contrasting_groups(table)[table.group[names["batch"]]].all()
