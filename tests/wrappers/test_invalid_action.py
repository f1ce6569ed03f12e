"""The penalty and the count by hand, in all autoreset modes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.refusals import refuses
from wrappers.invalid_action import InvalidActionPenalty, VectorInvalidActionPenalty
from wrappers.reply import ReplyParser


def test_the_penalty_of_one_environment() -> None:
    env = InvalidActionPenalty(CorridorEnv(), penalty=0.25)
    assert env.reset(options={"index": 2})[1]["invalid_actions"] == 0
    seen = [env.step(command) for command in ("jump", "left", "jump")]
    # The corridor itself charges 0.5 for a jump.
    assert [step[1] for step in seen] == [-0.75, 0.0, -0.75]
    assert [step[-1]["invalid_actions"] for step in seen] == [1, 1, 2]
    assert env.reset(options={"index": 2})[1]["invalid_actions"] == 0
    env = InvalidActionPenalty(ReplyParser(CorridorEnv()), penalty=0.25)
    env.reset(options={"index": 2})
    assert env.step("left")[1] == -0.75
    assert env.step("<action>left</action>")[1] == 0.0
    check_env(InvalidActionPenalty(CorridorEnv()), skip_render_check=True)
    env = gym.make(InvalidActionPenalty(gym.make("AgentRL/Sokoban-v0"), penalty=3.0).spec)
    env.reset(seed=0)
    assert env.step("dance")[1] == pytest.approx(-3.1)


@pytest.mark.parametrize("penalty", [-0.1, float("nan"), float("inf")])
def test_a_penalty_that_is_none_is_refused(penalty: float) -> None:
    refuses(ValueError, "at least 0", InvalidActionPenalty, CorridorEnv(), penalty)
    refuses(ValueError, "at least 0", VectorInvalidActionPenalty, CorridorVectorEnv(1), penalty)


def _vector(mode: AutoresetMode, limit: int | None = None) -> VectorInvalidActionPenalty:
    return VectorInvalidActionPenalty(CorridorVectorEnv(2, autoreset_mode=mode, max_episode_steps=limit), 0.25)


def test_the_penalty_in_every_autoreset_mode() -> None:
    envs = _vector(AutoresetMode.SAME_STEP, limit=2)
    envs.reset(options=[{"index": 2}, {"index": 2}])
    _, rewards, *_, infos = envs.step(["jump", "right"])
    assert (rewards.tolist(), infos["invalid_actions"].tolist()) == ([-0.75, 0.0], [1, 0])
    # Both episodes end here: 0 by an invalid action at the time limit, 1 by winning.
    _, rewards, *_, infos = envs.step(["jump", "right"])
    assert rewards.tolist() == [-0.75, 1.0]
    assert infos["invalid_actions"].tolist() == [0, 0]
    assert infos["final_info"]["invalid_actions"].tolist() == [2, 0]
    envs = _vector(AutoresetMode.NEXT_STEP)
    envs.reset(options=[{"index": 3}, {"index": 2}])
    envs.step(["right", "jump"])
    _, rewards, *_, infos = envs.step(["jump", "jump"])
    assert rewards.tolist() == [0.0, -0.75]
    assert infos["invalid_actions"].tolist() == [0, 2]
    envs = _vector(AutoresetMode.DISABLED, limit=2)
    envs.reset(options=[{"index": 2}, {"index": 2}])
    envs.step(["jump", "left"])
    _, rewards, *_ = envs.step(["jump", "right"])
    assert rewards.tolist() == [-0.75, 0.0]
    # Place 0 still shows is_action_valid=False of its last step, but plays nothing.
    _, rewards, *_, infos = envs.step(["", ""])
    assert rewards.tolist() == [0.0, 0.0]
    assert infos["invalid_actions"].tolist() == [2, 0]
    _, infos = envs.reset(options={"reset_mask": np.array([True, False]), "index": 1})
    assert infos["invalid_actions"].tolist() == [0, 0]
