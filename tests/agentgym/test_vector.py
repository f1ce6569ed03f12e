"""TextVectorEnv on the corridor, by hand; equality with single environments is in test_contract.py for every id."""

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from tests.corridor import CorridorEnv, CorridorVectorEnv


def test_same_step_answers_the_next_episode_and_keeps_the_last_one_in_final() -> None:
    envs = CorridorVectorEnv(2, max_episode_steps=2)
    envs.reset(seed=0, options=[{"index": 3}, {"index": 2}])
    observations, rewards, terminated, truncated, infos = envs.step(["right", "left"])
    assert terminated.tolist() == [True, False]
    assert rewards.tolist() == [1.0, 0.0]
    assert observations[1] == "cell 1"
    assert observations[0] in ("cell 1", "cell 2", "cell 3")
    assert infos["final_obs"].tolist() == ["cell 4", None]
    assert infos["_final_info"].tolist() == [True, False]
    assert infos["final_info"]["won"].tolist() == [True, False]
    assert infos["won"].tolist() == [False, False]
    # Place 1 reaches the limit of two steps in cell 2.
    *_, terminated, truncated, infos = envs.step(["jump", "right"])
    assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
    assert infos["final_info"]["state_key"][1] == "2"


def test_next_step_ignores_the_action_after_the_end() -> None:
    envs = CorridorVectorEnv(1, autoreset_mode="NextStep")
    envs.reset(seed=0, options={"index": 3})
    assert envs.step(["right"])[2][0]
    observations, rewards, terminated, truncated, infos = envs.step(["left"])
    assert observations[0] == f"cell {infos['task_id'][0][-1]}"
    assert (rewards[0], terminated[0], truncated[0], infos["is_action_valid"][0]) == (0.0, False, False, True)


def test_disabled_freezes_finished_places_until_the_mask() -> None:
    envs = CorridorVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0, options=[{"index": 1}, {"index": 2}])
    envs.step(["left", "right"])
    observations, rewards, terminated, _, infos = envs.step(["right", "left"])
    assert observations == ("cell 0", "cell 2")
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [True, False])
    assert infos["state_key"].tolist() == ["0", "2"]
    mask = np.array([True, False])
    observations, _ = envs.reset(options={"reset_mask": mask, "per_place": [{"index": 3}, None]})
    assert observations == ("cell 3", "cell 2")
    assert envs.step(["right", "right"])[2].tolist() == [True, False]


def test_info_columns_have_fixed_types() -> None:
    envs = CorridorVectorEnv(3)
    _, infos = envs.reset(seed=0)
    assert infos["won"].dtype == infos["is_action_valid"].dtype == np.bool_
    assert infos["score"].dtype == np.float64
    assert infos["state_key"].dtype == infos["admissible_actions"].dtype == np.object_
    assert infos["admissible_actions"][2] == ("left", "right")
    assert not any(key.startswith("_") for key in infos)


def test_stock_wrappers_work() -> None:
    envs = DictInfoToList(RecordEpisodeStatistics(CorridorVectorEnv(2)))
    envs.reset(seed=0, options={"index": 2})
    envs.step(["right", "left"])
    *_, infos = envs.step(["right", "right"])
    assert infos[0]["episode"]["r"] == 1.0
    assert infos[0]["episode"]["l"] == 2
    assert infos[0]["final_info"]["won"] is np.True_
    assert infos[0]["final_info"]["state_key"] == "4"
    assert "episode" not in infos[1]
    assert infos[1]["state_key"] == "2"


def test_snapshot_includes_the_time_limit() -> None:
    envs = CorridorVectorEnv(1, max_episode_steps=2, autoreset_mode="Disabled")
    envs.reset(options={"index": 2})
    envs.step(["jump"])
    saved = envs.snapshot()
    assert envs.step(["jump"])[3][0]
    envs.restore(saved)
    assert envs.step(["right"])[3][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs must be"),
        ({"num_envs": 1.0}, "num_envs must be"),
        ({"max_episode_steps": 0}, "max_episode_steps must be"),
        ({"max_episode_steps": 2.5}, "max_episode_steps must be"),
        ({"autoreset_mode": "Sometimes"}, "unknown autoreset_mode 'Sometimes'"),
    ],
)
def test_constructor_errors(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CorridorVectorEnv(**arguments)


def test_a_step_that_is_refused_moves_no_place() -> None:
    envs = CorridorVectorEnv(2)
    envs.reset(options={"index": 2})
    with pytest.raises(TypeError, match="place 1: expected a str command, got int"):
        envs.step(["right", 3])
    observations, *_ = envs.step(["left", "left"])
    assert observations == ("cell 1", "cell 1")


def test_numbers_may_be_of_numpy() -> None:
    envs = CorridorVectorEnv(np.int64(2), max_episode_steps=np.int64(3))
    expected = envs.reset(seed=[4, 5])[0]
    for seed in (np.int64(4), np.array([4, 5]), [np.int64(4), 5]):
        assert envs.reset(seed=seed)[0] == expected
    assert envs.envs[0].reset(seed=np.uint32(4))[0] == expected[0]


def test_wrong_use_is_explained() -> None:
    envs = CorridorVectorEnv(2)
    with pytest.raises(ResetNeeded):
        envs.step(["left", "left"])
    with pytest.raises(ValueError, match="never reset"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"one entry per place \(2\), got 1 entries"):
        envs.step(["left"])
    with pytest.raises(ValueError, match="one entry per place"):
        envs.step("left")
    with pytest.raises(TypeError, match="place 1: expected a str command, got NoneType"):
        envs.step(["left", None])
    for mask in ([True, False], np.array([1, 0]), np.array([True])):
        with pytest.raises(ValueError, match="bool array of shape"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="at least one True"):
        envs.reset(options={"reset_mask": np.array([False, False])})
    with pytest.raises(ValueError, match="one entry per place"):
        envs.reset(seed=[1, 2, 3])


class WaryCorridorEnv(CorridorEnv):
    def is_cut(self) -> bool:
        return self.cell == 1


class WaryCorridorVectorEnv(CorridorVectorEnv):
    env_class = WaryCorridorEnv


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_places_that_cut_themselves_are_truncated_alone(mode: AutoresetMode) -> None:
    envs = WaryCorridorVectorEnv(3, autoreset_mode=mode)
    envs.reset(seed=0, options=[{"index": i} for i in (2, 3, 2)])
    _, _, terminated, truncated, infos = envs.step(["left", "right", "right"])
    assert (terminated.tolist(), truncated.tolist()) == ([False, True, False], [True, False, False])
    ended = infos["final_info"] if mode is AutoresetMode.SAME_STEP else infos
    assert ended["state_key"][:2].tolist() == ["1", "4"]
    _, rewards, terminated, truncated, _ = envs.step(["", "", "right"])
    assert (rewards[2], terminated[2]) == (1.0, True)
    assert truncated[0] == (mode is AutoresetMode.DISABLED)
