import pickle
import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  # registers the environments
from agentgym.virtualhome.env import VirtualHomeEnv, VirtualHomeVectorEnv
from tests.agentgym.indices import check_indices
from tests.agentgym.virtualhome.official.small_folder import write
from tests.agentgym.virtualhome.official_houses import FOLDER, find
from tests.refusals import refuses


def test_an_episode_and_invalid_commands_by_hand() -> None:
    env = VirtualHomeEnv(data="generated", expert=True)
    observation, info = env.reset(options={"task_id": "train/place/0"})
    activity = env.episode.activity
    assert observation.startswith(f"Your task is to: {activity.description}\n\nYou are in ")
    assert (info["score"], info["won"], info["task_type"], info["inventory"]) == (0.0, False, "place", "nothing")
    rewards = []
    for left, command in zip(range(len(activity.program), 0, -1), activity.program, strict=True):
        assert info["expert_action"] == command
        assert env.distance() == left
        assert command in info["admissible_actions"]
        _, reward, terminated, truncated, info = env.step(command)
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert (terminated, truncated, info["won"], info["score"], info["expert_action"]) == (True, False, True, 1.0, "")
    assert env.distance_bounds() == (0.0, 0.0)
    env = VirtualHomeEnv(data="generated")
    _, before = env.reset(seed=0)
    for command in ("", "grab moon 1", "walk to you", "[WALK] <mug> (3)", "stand up", "a" * 100_000):
        observation, reward, terminated, truncated, info = env.step(command)
        assert observation.startswith("Nothing happens: ")
        assert (reward, terminated, truncated, info["is_action_valid"]) == (0.0, False, False, False)
        assert {**info, "is_action_valid": True} == before


def test_keys_are_equal_for_equal_states_alone() -> None:
    env = VirtualHomeEnv(data="generated")
    rng = random.Random(0)
    seen: dict[str, Any] = {}
    _, info = env.reset(options={"task_id": "train/drink/1"})
    for _ in range(12):
        env.reset(options={"task_id": "train/drink/1"})
        info = env.describe(True)
        for _ in range(15):
            snapshot, done, *_ = env.episode.get_state()
            state = (snapshot._replace(renewed=()), done)
            assert seen.setdefault(info["state_key"], state) == state
            if info["won"]:
                break
            local = [command for command in info["admissible_actions"] if not command.startswith(("walk", "turn"))]
            info = env.step(rng.choice(local if local and rng.random() < 0.7 else info["admissible_actions"]))[-1]
    assert len(seen) > 60
    assert len(set(map(repr, seen.values()))) == len(seen)
    env = VirtualHomeEnv(data="generated")
    _, info = env.reset(options={"task_id": "train/place/0"})
    target = env.episode.activity.program[0]
    first, *others = [env.step(target)[-1]["state_key"] for _ in range(3)]
    assert first != info["state_key"]
    assert others == [first, first]


def test_expert_plans_anew_once_its_program_is_left() -> None:
    env = VirtualHomeEnv(data="generated", expert=True)
    rng = np.random.default_rng(0)
    for index in range(17):
        _, info = env.reset(seed=0, options={"split": "valid_seen", "index": index})
        for _ in range(4):
            if not info["won"]:
                walks = [command for command in info["admissible_actions"] if command.startswith("walk")]
                info = env.step(str(rng.choice(walks or info["admissible_actions"])))[-1]
        saved = pickle.loads(pickle.dumps(env.snapshot()))
        steps = 0
        while not info["won"]:
            info = env.step(info["expert_action"])[-1]
            steps += 1
        assert steps <= 30
        assert env.restore(saved)[1]["won"] is False


def test_task_types_and_arguments_are_checked(tmp_path: Path) -> None:
    env = VirtualHomeEnv(data="generated", task_types=["read", "place"])
    assert {env.reset(seed=seed)[1]["task_type"] for seed in range(12)} == {"read", "place"}
    assert env.reset(seed=0, options={"task_type": "read", "index": 3})[1]["task_id"] == "train/read/3"
    check_indices(env, "train")
    refuses(ValueError, r"unknown task type 'raed'.*did you mean 'read'", env.reset, options={"task_type": "raed"})
    refuses(ValueError, "task_types is empty", VirtualHomeEnv, task_types=[])
    refuses(ValueError, "more than one way", env.reset, options={"task_type": "read", "task_id": "train/read/3"})
    for arguments, words in (
        ({"data": ""}, "data must be a folder, 'generated' or None"),
        ({"data": "generated", "split": "test"}, "use 'valid_unseen'"),
        ({"data": "generated", "repairs": ["fly"]}, "unknown repair 'fly'"),
        ({"data": "generated", "reward": float("nan")}, "reward must be a finite number"),
        ({"data": "generated", "num_activities": 0}, "num_activities must be an integer of at least 1"),
        ({"data": "generated", "house_seed": 1.5}, "house_seed must be an integer of at least 0"),
    ):
        refuses(ValueError, words, VirtualHomeEnv, **arguments)
    write(tmp_path)
    with pytest.raises(ValueError, match=r"num_activities=8 cannot change the published activities.*omit it"):
        VirtualHomeEnv(data=tmp_path, num_activities=8)
    with pytest.raises(ValueError, match=r"house_seed=1 cannot change the published activities.*omit it"):
        VirtualHomeEnv(data=tmp_path, house_seed=1)
    VirtualHomeEnv(data=tmp_path, goal="strict", house_seed=0, num_activities=None)
    refuses(ValueError, r"unknown goal 'best'; .*either", VirtualHomeEnv, data="generated", goal="best")


def test_the_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    find("scene1_518_diffs.json.xz")
    monkeypatch.setenv("VIRTUALHOME_DATA", str(FOLDER))
    env = VirtualHomeEnv(expert=True, reward=10)
    for index in (0, 7, 33):
        _, info = env.reset(options={"split": "all", "index": index})
        while not info["won"]:
            _, reward, _, _, info = env.step(info["expert_action"])
        assert reward == 10.0
    assert VirtualHomeEnv(data="generated").reset(seed=0)[1]["task_id"].startswith("train/")


def test_many_share_their_houses() -> None:
    envs: Any = gym.make_vec("AgentRL/VirtualHome-v0", num_envs=4, data="generated")
    assert isinstance(envs.unwrapped, VirtualHomeVectorEnv)
    envs.reset(seed=0, options=[{"index": 5}, {"index": 5}, {"index": 5 + 17}, {"index": 6}])
    scenes = [env.episode.world.scene for env in envs.unwrapped.envs]
    assert scenes[0] is scenes[1]
    assert scenes[0] is scenes[3]  # another family in the same house
    assert scenes[0] is not scenes[2]


@pytest.mark.parametrize("published", [False, True])
def test_an_environment_can_be_pickled_in_the_middle_of_an_episode(published: bool, tmp_path: Path) -> None:
    data = str(write(tmp_path)) if published else "generated"
    env = VirtualHomeEnv(data=data, goal="strict", expert=True, split="all" if published else "train")
    _, info = env.reset(seed=1)
    info = env.step(info["expert_action"])[-1]
    other = pickle.loads(pickle.dumps(env))
    while not info["won"]:
        command = info["expert_action"]
        first, second = env.step(command), other.step(command)
        assert first == second
        info = first[-1]
