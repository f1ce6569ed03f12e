"""Transcripts by hand on the corridor, in all autoreset modes, and their growth in every environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from agentgym.registry import ROWS
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.refusals import refuses
from wrappers import ReplyParser, Transcript, VectorReplyParser, VectorTranscript


def _replied(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _seen(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_an_episode_is_one_conversation() -> None:
    env = Transcript(ReplyParser(CorridorEnv()), instructions="Be quick.")
    told = {"role": "system", "content": "Be quick."}
    assert env.reset(options={"index": 2})[0] == (told, _seen("cell 2"))
    first, second = "<think>why?</think><action>right</action>", "no command \x1b"
    assert env.step(first)[0] == (told, _seen("cell 2"), _replied(first), _seen("cell 3"))
    shown, *_, info = env.step(second)
    assert shown[3:] == (_seen("cell 3"), _replied("no command \ufffd"), _seen("cell 3"))
    assert not info["is_action_valid"]
    assert shown in env.observation_space
    assert env.reset(options={"index": 1})[0] == (told, _seen("cell 1"))
    env = Transcript(CorridorEnv(), instructions=False, admissible=True, facts=("score",))
    env.reset(options={"index": 2})
    below = "\n\nCommands you can give now: left, right"
    assert env.step("right")[0] == (
        _seen("cell 2\n\nscore: 0.5" + below), _replied("right"), _seen("cell 3\n\nscore: 0.75" + below),
    )  # fmt: skip


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_form_equals_the_single_one_in_every_mode(mode: AutoresetMode) -> None:
    single = [Transcript(ReplyParser(CorridorEnv()), instructions=False) for _ in range(2)]
    envs = VectorTranscript(VectorReplyParser(CorridorVectorEnv(2, autoreset_mode=mode)), instructions=False)
    shown, _ = envs.reset(seed=[0, 0], options=[{"index": 3}, {"index": 1}])
    expected = tuple(env.reset(options={"index": start})[0] for env, start in zip(single, (3, 1), strict=True))
    assert shown == expected
    replies = ["<action>right</action>", "<action>right</action>"]
    ended, going = (env.step(reply)[0] for env, reply in zip(single, replies, strict=True))
    shown, _, terminated, _, infos = envs.step(replies)
    assert terminated.tolist() == [True, False]
    assert len(ended) == 3
    assert shown[1] == going
    if mode is AutoresetMode.SAME_STEP:
        assert infos["final_obs"][0] == ended
        assert len(shown[0]) == 1
    else:
        assert shown[0] == ended
    going = single[1].step(replies[1])[0]
    shown, *_ = envs.step(replies)
    assert shown[1] == going
    assert len(shown[0]) == {AutoresetMode.SAME_STEP: 3, AutoresetMode.NEXT_STEP: 1, AutoresetMode.DISABLED: 3}[mode]


def test_a_saved_conversation_goes_on_in_another_sub_environment() -> None:
    envs = VectorTranscript(CorridorVectorEnv(2, autoreset_mode="Disabled"), instructions=False)
    envs.reset(seed=0, options={"index": 2})
    envs.step(["left", "right"])
    envs.set_state(0, envs.get_state(1))
    shown, *_ = envs.step(["jump", "jump"])
    assert shown[0][:4] == shown[1][:4] == (_seen("cell 2"), _replied("right"), _seen("cell 3"), _replied("jump"))


@pytest.mark.parametrize("id", [row.id for row in ROWS])
def test_every_environment_only_ever_appends(id: str) -> None:
    envs = VectorTranscript(gym.make_vec(id, num_envs=3, autoreset_mode="Disabled"), reply_format="")
    shown, infos = envs.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(4):
        chosen = [rng.choice(commands) if commands else "" for commands in infos["admissible_actions"]]
        before, idle = shown, envs.idle
        shown, _, _, _, infos = envs.step([str(command) for command in chosen])
        for i in np.flatnonzero(~idle):
            assert len(shown[i]) == len(before[i]) + 2
            assert all(a is b for a, b in zip(before[i], shown[i], strict=False))
            assert shown[i] in envs.single_observation_space


def test_gymnasiums_checks_and_options() -> None:
    env = Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False, admissible=True)
    assert env.spec.additional_wrappers[-1].kwargs == {"instructions": False, "admissible": True}
    check_env(env, skip_render_check=True)
    refuses(TypeError, "takes no 'history': use PromptWindow", Transcript, CorridorEnv(), history=2)
    refuses(TypeError, "admissible", VectorTranscript, CorridorVectorEnv(1), admisible=True)
