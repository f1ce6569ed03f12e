"""The vector wrappers answer what the pure functions answer for the same episodes."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import wrappers
from agentgym.rollout.recorder import TableBuilder
from agentgym.trajectory import StepTable
from tests.corridor import CorridorVectorEnv
from tests.playing import DISABLED, NEXT_STEP, SAME_STEP
from tests.refusals import refuses
from wrappers import CanonicalStates, VectorReplyParser
from wrappers.credit import GAE, GRPO, CreditWrapper, GiGPO, GraphGPO, RewardFlow
from wrappers.credit.options import declaration

#: Of methods that need the table alone: `GAE` is given a critic's values.
WRAPPERS = [
    value
    for value in vars(wrappers).values()
    if isinstance(value, type) and issubclass(value, CreditWrapper) and value not in (CreditWrapper, GAE)
]
assert len(WRAPPERS) >= 15
WITH_AUTHORS = [wrapper for wrapper in WRAPPERS if "authors" in declaration(wrapper.method)[1]]
TASKS = [{"index": 2}] * 4 + [{"index": 3}] * 4


def _envs(mode=DISABLED):
    return CorridorVectorEnv(8, max_episode_steps=9, autoreset_mode=mode)


def _play(envs, seed=0, form="{}"):
    """Random commands until every sub-environment has ended once; returns what happened."""
    rng = np.random.default_rng(seed)
    _, infos = envs.reset(seed=0, options=TASKS)
    history, playing = [infos], np.ones(8, bool)
    while playing.any():
        actions = [form.format(a) for a in rng.choice(["left", "right", "right", "jump"], 8)]
        _, rewards, terminated, truncated, infos = envs.step(actions)
        history.append((actions, rewards, terminated, truncated, infos))
        playing &= ~(terminated | truncated)
    return history


def _rows(table):
    names = zip(table.group, table.trajectory, table.t, table.state, table.next_state, table.action, strict=True)
    return [
        (table.groups[g], int(i), int(t), table.states[s], table.states[n], table.actions[a])
        for g, i, t, s, n, a in names
    ]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_advantages_are_those_of_the_function_and_without_options_of_its_own_preset(wrapper):
    for options in ({}, {"preset": "authors", "invalid_penalty": 0.2})[: 1 + (wrapper in WITH_AUTHORS)]:
        envs = wrapper(_envs(), **options)
        first, *history = _play(envs)
        builder = TableBuilder(8, DISABLED)
        builder.reset(first)
        for step in history:
            builder.step(*step)
        assert _rows(envs.table()) == _rows(builder.table())
        np.testing.assert_array_equal(envs.advantages(), wrapper.method(builder.table(), **options))
        assert not options or np.any(envs.advantages() != 0)
    # Wrong options fail at once.
    refuses(TypeError, "unknown option 'gama'", wrapper, _envs(), gama=0.9)
    refuses(ValueError, "unknown preset 'autors'", wrapper, _envs(), preset="autors")


@pytest.mark.parametrize("mode", [SAME_STEP, NEXT_STEP])
def test_other_autoreset_modes_record_the_same_episodes(mode):
    disabled, envs = RewardFlow(_envs()), RewardFlow(_envs(mode))
    _play(disabled)
    _play(envs)
    assert _rows(envs.table()) == _rows(disabled.table())
    np.testing.assert_array_equal(envs.advantages(), disabled.advantages())
    assert envs.table().won.any()
    assert (envs.table().truncated | envs.table().terminated).sum() == 8


def test_groups_by_task_and_options_of_the_wrapped() -> None:
    envs = GRPO(_envs())
    _play(envs)
    assert envs.table().groups == ("start-2", "start-3")
    assert envs.table().n_trajectories == 8
    envs = GraphGPO(CanonicalStates(VectorReplyParser(_envs()), key=lambda seen, info: f"<{info['state_key']}>"))
    _play(envs, form="<action>{}</action>")
    table = envs.table()
    assert set(table.actions) == {"left", "right", "jump"}
    assert "<2>" in table.states
    assert "<4> [success]" in table.states
    plain, wrapped = _envs(SAME_STEP), GRPO(_envs(SAME_STEP))
    for first, second in zip(_play(plain)[1:], _play(wrapped)[1:], strict=True):
        for a, b in zip(first[1:4], second[1:4], strict=True):
            np.testing.assert_array_equal(a, b)
        assert first[4].keys() == second[4].keys()


def test_a_full_reset_begins_a_new_table_a_masked_one_adds_to_it_and_unfinished_groups_are_errors():
    envs = RewardFlow(_envs())
    _play(envs, seed=1)
    once = _rows(envs.table())
    _play(envs, seed=1)
    assert _rows(envs.table()) == once
    mask = np.arange(8) < 4
    envs.reset(options={"reset_mask": mask, "index": 2})
    refuses(ValueError, r"4 of 8 sub-environments still play \(0, 1, 2, 3\)", envs.table)
    for _ in range(2):
        envs.step(["right"] * 8)
    table = envs.table()
    assert table.n_trajectories == 12
    assert _rows(table)[: len(once)] == once
    assert len(envs.advantages()) == len(table) == len(once) + 8
    envs = GiGPO(_envs())
    refuses(ValueError, "GiGPO has recorded nothing: call reset", envs.advantages)
    refuses(gym.error.ResetNeeded, "call reset", envs.step, [""] * 8)
    envs.reset(options=TASKS)
    envs.step(["right"] * 8)  # start 3 + 1 = 4: the second group has ended, the first has not
    words = r"4 of 8 sub-environments still play \(0, 1, 2, 3\), their groups are not complete"
    refuses(ValueError, words, envs.advantages)


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
    refuses(ValueError, "3 of 3 sub-environments still play", envs.table)
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


def test_going_back_keeps_the_episode_until_it_has_ended() -> None:
    envs = started(1)
    first = envs.snapshot(0)
    envs.step(["jump"])
    second = pickle.loads(pickle.dumps(envs.snapshot(0)))
    envs.step(["left"])
    envs.restore(0, second)  # the step to the left is forgotten
    envs.step(["right"])
    third = envs.snapshot(0)
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
