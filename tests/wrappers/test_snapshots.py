import numpy as np
import pytest

from tests.corridor import CorridorVectorEnv
from wrappers import VectorReplyParser, VectorSnapshots


def make(num_envs: int, mode: str = "Disabled"):
    return VectorReplyParser(CorridorVectorEnv(num_envs, max_episode_steps=9, autoreset_mode=mode))


RIGHT, LEFT = "<action>right</action>", "<action>left</action>"


def test_every_moment_can_be_continued_and_episodes_keep_their_number() -> None:
    envs, elsewhere = VectorSnapshots(make(2)), make(3)
    envs.reset(seed=0, options={"index": 2})
    _, _, _, _, infos = envs.step([RIGHT, LEFT])
    observations, shown = elsewhere.restore(range(3), [infos["snapshot"][i] for i in (0, 1, 0)])
    assert observations == ("cell 3", "cell 1", "cell 3")
    assert shown["command"].tolist() == ["right", "left", "right"]
    _, rewards, terminated, _, _ = elsewhere.step([RIGHT, LEFT, LEFT])
    assert rewards.tolist() == [1.0, 0.0, 0.0]
    assert terminated.tolist() == [True, True, False]
    envs = VectorSnapshots(make(3))
    _, infos = envs.reset(seed=0, options={"index": 3})
    assert infos["episode_number"].tolist() == [0, 1, 2]
    infos = envs.step([RIGHT, LEFT, RIGHT])[-1]
    assert infos["episode_number"].tolist() == [0, 1, 2]
    _, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert infos["episode_number"].tolist() == [3, 1, 4]
    _, infos = envs.fork(1, [2])
    assert infos["episode_number"].tolist() == [3, 1, 1]
    before = VectorSnapshots(make(3))
    before.reset(seed=0, options={"index": 3})
    envs = VectorSnapshots(make(2))
    envs.restore(range(2), [before.snapshot(0), before.snapshot(2)])
    _, infos = envs.reset(options={"reset_mask": np.array([True, False])})
    assert infos["episode_number"].tolist() == [3, 2]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_where_episodes_begin_by_themselves_they_get_new_numbers(mode) -> None:
    envs = VectorSnapshots(make(2, mode))
    envs.reset(seed=0, options={"index": 3})
    infos = envs.step([RIGHT, LEFT])[-1]
    if mode == "NextStep":
        assert infos["episode_number"].tolist() == [0, 1]
        infos = envs.step([RIGHT, RIGHT])[-1]
    else:
        assert infos["final_info"]["episode_number"].tolist() == [0, 0]  # of the first; the second goes on
        assert "snapshot" not in infos["final_info"]
    assert infos["episode_number"].tolist() == [2, 1]
