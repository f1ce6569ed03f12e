"""TextSpace and TextEnv on a corridor of five cells."""

import pickle

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

from agentgym.core import TextSpace
from tests.corridor import CorridorEnv
from tests.refusals import refuses


def test_text_space_holds_any_script_and_samples_by_seed() -> None:
    space = TextSpace(max_length=5)
    assert "√ #_P" in space
    assert "sixsix" not in space
    assert b"up" not in space
    assert TextSpace(samples=("a",)) == TextSpace(samples=("a",)) != TextSpace(samples=("b",))
    first, second = TextSpace(seed=3), TextSpace(seed=3)
    drawn = [first.sample() for _ in range(20)]
    assert drawn == [second.sample() for _ in range(20)]
    assert len(set(drawn)) > 10
    assert all(text in first for text in drawn)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"max_length": 0}, "at least 1"), ({"max_length": 2, "samples": ("right",)}, "longer than max_length")],
)
def test_text_space_rejects_impossible_arguments(arguments: dict, message: str) -> None:
    refuses(ValueError, message, TextSpace, **arguments)


def test_an_episode_of_the_corridor_and_its_branches() -> None:
    env = CorridorEnv()
    observation, info = env.reset(options={"index": 3})
    assert (observation, info["task_id"], info["is_action_valid"]) == ("cell 3", "start-3", True)
    observation, reward, terminated, truncated, info = env.step("jump")
    assert (observation, reward, terminated, truncated, info["is_action_valid"]) == (
        "cell 3",
        -0.5,
        False,
        False,
        False,
    )
    observation, reward, terminated, _, info = env.step("right")
    assert (observation, reward, terminated, info["won"]) == ("cell 4", 1.0, True, True)
    refuses(ResetNeeded, "call reset", env.step, "right")
    env, other = CorridorEnv(), CorridorEnv()
    for seed in range(10):
        _, info = env.reset(seed=seed)
        assert other.reset(seed=seed)[1] == info
        assert other.reset(options={"task_id": info["task_id"]})[1]["state_key"] == info["state_key"]
    env = CorridorEnv()
    env.reset(options={"index": 2})
    env.step("right")
    branch = pickle.loads(pickle.dumps(env.snapshot()))
    assert env.step("right")[2]
    observation, info = env.restore(branch)
    assert (observation, info["won"]) == ("cell 3", False)
    assert env.step("left")[0] == "cell 2"


def test_wrong_use_says_what_exists() -> None:
    env = CorridorEnv()
    refuses(ResetNeeded, "call reset", env.step, "right")
    refuses(ResetNeeded, "call reset", env.snapshot)
    refuses(ValueError, "did you mean 'index'", env.reset, options={"indx": 3})
    env.reset(seed=0)
    refuses(TypeError, "expected a str command, got int", env.step, 1)
    refuses(ValueError, "did you mean 'ansi'", CorridorEnv, render_mode="ansii")


def test_stock_shared_memory_vectorisation_fails_loudly_and_pipes_work() -> None:
    refuses(ValueError, "shared_memory", gym.vector.AsyncVectorEnv, [CorridorEnv] * 2)
    envs = gym.vector.AsyncVectorEnv([CorridorEnv] * 2, shared_memory=False)
    observations, _ = envs.reset(seed=0, options={"index": 2})
    assert observations == ("cell 2", "cell 2")
    assert envs.step(("left", "right"))[0] == ("cell 1", "cell 3")
    envs.close()


class ShortCorridorEnv(CorridorEnv):
    """A corridor in which two commands that are no directions are one too many."""

    def begin(self, options: dict) -> None:
        super().begin(options)
        self.jumps = 0

    def act(self, command: str) -> tuple[float, bool, bool]:
        self.jumps += command == "jump"
        return super().act(command)

    def is_cut(self) -> bool:
        return self.jumps == 2


def test_an_environment_may_cut_its_episode_itself() -> None:
    env = ShortCorridorEnv()
    env.reset(options={"index": 2})
    assert env.step("jump")[1:4] == (-0.5, False, False)
    assert env.step("jump")[1:4] == (-0.5, False, True)
    refuses(ResetNeeded, "over", env.step, "left")
    env.reset(options={"index": 3})
    assert env.step("right")[1:4] == (1.0, True, False)
