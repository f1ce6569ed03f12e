from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from tests.corridor import CorridorVectorEnv
from tests.refusals import refuses
from wrappers import VectorInvalidActionPenalty, VectorPromptWindow, VectorReplyParser


def corridors(count: int = 3, mode: str = "Disabled", limit: int | None = None) -> CorridorVectorEnv:
    envs = CorridorVectorEnv(count, autoreset_mode=mode, max_episode_steps=limit)
    envs.reset(seed=0, options={"index": 2})
    return envs


def test_a_fork_continues_in_others_and_leaves_the_rest() -> None:
    envs = corridors(4, limit=3)
    envs.step(["right", "left", "jump", "jump"])
    observations, infos = envs.fork(0, [1, 3])
    assert observations == ("cell 3", "cell 3", "cell 2", "cell 3")
    assert infos["is_action_valid"].tolist() == [True, True, False, True]
    observations, rewards, terminated, truncated, _ = envs.step(["jump", "right", "left", "left"])
    assert observations == ("cell 3", "cell 4", "cell 1", "cell 2")
    assert (rewards.tolist(), terminated.tolist()) == ([-0.5, 1.0, 0.0, 0.0], [False, True, False, False])
    assert not truncated.any()
    _, _, terminated, truncated, _ = envs.step(["left"] * 4)  # 1 has finished; of the others it is the third step
    assert (terminated.tolist(), truncated.tolist()) == ([False, True, True, False], [True, False, True, True])


def test_what_was_saved_is_the_past_and_is_not_used_up() -> None:
    envs = corridors(2)
    saved = envs.snapshot(0)
    envs.step(["right", "left"])
    for _ in range(2):
        assert envs.restore(1, saved)[0] == ("cell 3", "cell 2")
        assert envs.step(["jump", "right"])[0] == ("cell 3", "cell 3")


def test_a_finished_sub_environment_is_forked_as_finished_and_a_finished_one_plays_on_from_a_running() -> None:
    envs = corridors(3)
    for _ in range(2):
        envs.step(["right", "jump", "jump"])
    observations, infos = envs.fork(0, 1)
    assert infos["won"].tolist() == [True, True, False]
    observations, _, terminated, *_ = envs.step(["", "", "right"])
    assert (observations, terminated.tolist()) == (("cell 4", "cell 4", "cell 3"), [True, True, False])
    envs.fork(2, np.array([0, 1]))
    assert envs.step(["right", "left", "jump"])[0] == ("cell 4", "cell 2", "cell 3")


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_the_next_tasks_are_drawn_as_they_would_have_been_or_from_the_seed(mode: str) -> None:
    def tasks(envs: Any) -> list[list[str]]:
        return [envs.step(["right"] * 3)[-1]["task_id"].tolist() for _ in range(60)]

    envs = CorridorVectorEnv(3, autoreset_mode=mode)
    envs.reset(seed=7)
    envs.step(["right"] * 3)
    saved = [envs.snapshot(i) for i in range(3)]
    on = tasks(envs)
    assert len({row[0] for row in on}) == 3
    envs.restore(range(3), saved)
    assert tasks(envs) == on
    envs.fork(0, [1, 2], seeds=[5, 5])
    forked = tasks(envs)
    assert [row[1] for row in forked] == [row[2] for row in forked] != [row[0] for row in forked]
    envs.restore([0, 1, 2], [saved[0]] * 3, [5, None, 5])
    again = tasks(envs)
    assert [row[0] for row in again] == [row[2] for row in again]
    assert [row[1] for row in again] == [row[0] for row in on]


def test_an_unseeded_episode_and_another_generator_go_on_as_they_would_have() -> None:
    envs = CorridorVectorEnv(2)
    envs.reset(options={"index": 3})
    saved = pickle.loads(pickle.dumps(envs.snapshot(0)))
    on = [envs.step(["right"] * 2)[-1]["task_id"][0] for _ in range(30)]
    envs.restore(1, saved)
    assert [envs.step(["right"] * 2)[-1]["task_id"][1] for _ in range(30)] == on
    envs = CorridorVectorEnv(2)
    envs.reset(seed=0)
    envs.envs[0].np_random = np.random.Generator(np.random.MT19937(3))
    envs.fork(0, 1)
    drawn = [envs.step(["right"] * 2)[-1]["task_id"].tolist() for _ in range(30)]
    assert len({tuple(row) for row in drawn}) > 1
    assert all(row[0] == row[1] for row in drawn)


def test_all_of_them_can_be_restored_before_the_first_reset() -> None:
    envs = corridors(2)
    envs.step(["right", "left"])
    saved = [envs.snapshot(i) for i in (1, 0)]
    other = VectorReplyParser(CorridorVectorEnv(2, autoreset_mode="Disabled"))
    refuses(ResetNeeded, "no episodes yet", other.snapshot, 0)
    fresh = CorridorVectorEnv(2, autoreset_mode="Disabled")
    refuses(ResetNeeded, "restore all sub-environments", fresh.restore, 0, saved[0])
    assert fresh.restore([0, 1], saved)[0] == ("cell 1", "cell 3")
    assert fresh.step(["jump", "right"])[0] == ("cell 1", "cell 4")


def test_wrong_arguments_and_snapshots_of_another_stack_are_refused() -> None:
    envs = corridors(3)
    envs.step(["right", "left", "jump"])
    state: Any = envs.snapshot(0)
    wrong: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((3, state), IndexError, "no sub-environment 3: indices are 0..2"),
        ((-1, state), IndexError, "no sub-environment -1"),
        ((True, state), TypeError, "expected the index of a sub-environment"),
        (([1, 1], [state, state]), ValueError, "indices must be distinct"),
        (([1, 2], [state]), ValueError, r"states must hold one entry per index \(2\), got 1"),
        (([1, 2], state), TypeError, "states must be a list"),
        (({1}, [state]), TypeError, "indices must be a list"),
        ((1, [state]), TypeError, r"expected what snapshot\(i\) returned, got list"),
        (([1, 2], [state, None]), TypeError, "got NoneType"),
        (([1, 2], [state, state], 3), TypeError, "seeds must be a list"),
        (([1, 2], [state, state], [3]), ValueError, "seeds must hold one entry per index"),
        (([1, 2], [state, state], [3, -1]), ValueError, "seeds must be integers of at least 0"),
        (([1, 2], [state, state], [3, 1.5]), ValueError, "seeds must be integers of at least 0"),
    ]
    for arguments, error, message in wrong:
        refuses(error, message, envs.restore, *arguments)
    refuses(IndexError, "no sub-environment 3", envs.fork, 3, 0)
    refuses(TypeError, ", got 'first'", envs.snapshot, "first")
    assert envs.restore([], [])[0] == ("cell 3", "cell 1", "cell 2")
    envs = corridors(2)
    bare = envs.snapshot(0)
    outer = VectorInvalidActionPenalty(VectorReplyParser(envs))
    outer.reset(seed=0, options={"index": 2})
    with pytest.raises(ValueError, match="taken by CorridorVectorEnv; restore it through a stack of the same wrappers"):
        outer.restore(0, bare)
    refuses(ValueError, "the snapshot was taken by VectorInvalidAction", outer.env.restore, 0, outer.snapshot(0))


@pytest.mark.parametrize("foreign", [RecordEpisodeStatistics, lambda envs: gym.vector.VectorWrapper(envs)])
def test_a_wrapper_that_cannot_be_saved_is_named(foreign: Any) -> None:
    inner = foreign(CorridorVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED))
    envs = VectorPromptWindow(VectorReplyParser(inner), instructions=False)
    envs.reset(seed=0)
    refuses(TypeError, f"through {type(inner).__name__}, a wrapper without.*leave it out, or give", envs.snapshot, 0)
    saved = VectorPromptWindow(VectorReplyParser(corridors(2)), instructions=False)
    saved.reset(seed=0)
    refuses(TypeError, f"VectorReplyParser: .*through {type(inner).__name__}", envs.restore, 0, saved.snapshot(0))
