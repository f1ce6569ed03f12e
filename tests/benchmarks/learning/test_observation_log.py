"""The wrapper that remembers what was shown."""

import gymnasium as gym

import agentgym  # noqa: F401
from benchmarks.learning.observation_log import ObservationLog
from policies.pictures import data_url


def test_frames_and_texts_are_what_the_environment_showed():
    envs = ObservationLog(gym.make_vec("AgentRL/Sokoban-v0", 2, autoreset_mode="Disabled"))
    first, infos = envs.reset(options=[{"split": "test", "index": 0}, {"split": "test", "index": 1}])
    action = infos["admissible_actions"][0][0]
    second, *_, later = envs.step([action, "nonsense"])
    assert envs.frames == [[first[0], second[0]], [first[1], second[1]]]
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert envs.texts[infos["task_id"][0], infos["state_key"][0]] == first[0]
    assert envs.texts[later["task_id"][0], later["state_key"][0]] == second[0]


def test_a_reset_begins_new_frames_and_keeps_known_texts():
    envs = ObservationLog(gym.make_vec("AgentRL/Sokoban-v0", 1, autoreset_mode="Disabled"))
    envs.reset(options={"split": "test", "index": 0})
    envs.reset(options={"split": "test", "index": 1})
    assert [len(frames) for frames in envs.frames] == [1]
    assert len(envs.texts) == 2


def test_a_picture_is_kept_before_its_text_as_pages_draw_it():
    envs = ObservationLog(gym.make_vec("AgentRL/VisualSokoban-v0", 1, autoreset_mode="Disabled"))
    observations, _ = envs.reset(seed=0)
    assert envs.frames == [[f"{data_url(observations['image'][0])}\n{observations['text'][0]}"]]
