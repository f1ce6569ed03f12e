"""Forks behind a credit wrapper: trajectories that were cut from others, their common steps in the table once."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from wrappers.credit.grpo import GRPO


def started(count: int = 3, start: int = 2, mode: str = "Disabled") -> GRPO:
    envs = GRPO(CorridorVectorEnv(count, autoreset_mode=mode, max_episode_steps=6))
    envs.reset(seed=0, options={"index": start})
    return envs


def steps_of(table: StepTable) -> list[tuple[Any, list[int], list[str]]]:
    """(parent, t, actions) of each trajectory; the parent as (trajectory, t)."""
    return [
        (trajectory.parent, [step.t for step in trajectory.steps], [str(step.action) for step in trajectory.steps])
        for trajectory in table.to_trajectories()
    ]


def test_forks_are_cut_from_the_trajectory_that_has_their_steps() -> None:
    envs = started()
    envs.step(["right", "left", "jump"])
    envs.step(["left", "left", "jump"])  # 0: 2 -> 3 -> 2; 1: ended in 0; 2: at 2
    envs.fork(0, [1, 2])
    with pytest.raises(ValueError, match="3 of 3 sub-environments still play"):
        envs.table()
    envs.step(["right", "left", "right"])
    envs.step(["right", "left", "right"])  # 0: won; 1: lost; 2: won
    table = envs.table()
    assert steps_of(table) == [
        (None, [0, 1, 2, 3], ["right", "left", "right", "right"]),
        (None, [0, 1], ["left", "left"]),
        ((0, 1), [2, 3], ["left", "left"]),
        ((0, 1), [2, 3], ["right", "right"]),
    ]
    assert table.trajectory_won.tolist() == [True, False, False, True]
    assert table.episode_return.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert table.n_groups == 1
    assert len(envs.advantages()) == len(table) == 10


@pytest.mark.parametrize("through_pickle", [False, True])
def test_going_back_keeps_the_episode_until_it_has_ended(through_pickle: bool) -> None:
    def saved(i: int) -> Any:
        state = envs.snapshot(i)
        return pickle.loads(pickle.dumps(state)) if through_pickle else state

    envs = started(1)
    first = saved(0)
    envs.step(["jump"])
    second = saved(0)
    envs.step(["left"])
    envs.restore(0, second)  # the step to the left is forgotten
    envs.step(["right"])
    third = saved(0)
    envs.step(["right"])
    envs.restore(0, third)  # another end of an episode that has ended
    for _ in range(3):
        envs.step(["left"])
    envs.restore(0, first)  # has no steps in common with anybody
    envs.step(["left"])
    envs.step(["left"])
    assert steps_of(envs.table()) == [
        (None, [0, 1, 2], ["jump", "right", "right"]),
        ((0, 1), [2, 3, 4], ["left", "left", "left"]),
        (None, [0, 1], ["left", "left"]),
    ]


def test_who_was_dropped_is_nobodys_parent() -> None:
    envs = started(3)
    envs.step(["jump"] * 3)
    saved = envs.snapshot(0)
    envs.step(["right"] * 3)
    envs.restore([1, 2], [saved] * 2)
    envs.reset(options={"reset_mask": np.array([True, False, False]), "index": 1})
    for _ in range(3):
        envs.step(["left", "right", "left"])
    assert steps_of(envs.table()) == [
        (None, [0, 1, 2], ["jump", "right", "right"]),
        ((3, 0), [1, 2], ["left", "left"]),
        (None, [0], ["left"]),
    ]


def test_all_restored_where_they_were_is_as_if_nothing_had_happened() -> None:
    def play(envs: GRPO) -> str:
        rng = np.random.default_rng(1)
        for _ in range(6):
            envs.step([("left", "right", "jump")[k] for k in rng.integers(3, size=4)])
        table = envs.table()
        return repr([(name, getattr(table, name)) for name in ("t", "trajectory", "state", "action", "won", "parent")])

    envs = started(4)
    envs.step(["jump"] * 4)
    saved = [envs.snapshot(i) for i in range(4)]
    on = play(envs)
    other = started(4, start=1)
    other.restore([2, 0, 3, 1], [saved[i] for i in (2, 0, 3, 1)])
    assert play(other) == on
    unplayed = GRPO(CorridorVectorEnv(4, autoreset_mode="Disabled", max_episode_steps=6))
    unplayed.restore(range(4), saved)
    assert play(unplayed) == on


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_episodes_that_begin_by_themselves_stay_unrecorded(mode: str) -> None:
    envs = started(2, mode=mode)
    envs.step(["left", "jump"])
    envs.step(["left", "jump"])  # 0 has lost
    envs.step(["jump", "jump"])
    envs.fork(0, 1)
    assert envs.tasks[1] == "start-2"
    envs.step(["left", "left"])
    assert steps_of(envs.table()) == [(None, [0, 1], ["left", "left"])]


def test_a_thousand_siblings_share_one_prefix() -> None:
    envs = CorridorVectorEnv(1, autoreset_mode="Disabled")
    builder = TableBuilder(1, envs.autoreset_mode)
    builder.reset(envs.reset(seed=0, options={"index": 2})[1])

    def step(action: str) -> None:
        _, *answer = envs.step([action])
        builder.step([action], *answer)

    for _ in range(30):
        step("jump")
    saved, recorded = envs.snapshot(0), builder.snapshot(0)
    for k in range(1000):
        if k:
            envs.restore(0, saved)
            builder.restore([0], [recorded])
        step("right" if k % 2 else "left")
        step("right" if k % 2 else "left")
    table = builder.table()
    assert table.n_trajectories == 1000
    assert (table.parent >= 0).sum() == 999
    assert len(table) == 30 + 1000 * 2
