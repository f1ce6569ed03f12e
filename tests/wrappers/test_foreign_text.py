"""What models and pages write reaches prompts and parsers: without what cannot be encoded."""

import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agentgym  # noqa: F401  registers the environments
from agentgym.outside.text import MOST_CHARACTERS
from tests.growth import FAMILIES, text_of
from tests.refusals import refuses
from wrappers import PromptWindow, ReplyParser, SymbolPlanes, VectorPromptWindow, VectorReplyParser
from wrappers.reply import parse_reply

BOARD: gym.Env[Any, Any] = gym.make("AgentRL/Sokoban-v0")
PLANES = SymbolPlanes(BOARD)


def board(text: str) -> str:
    try:
        PLANES.observation(text)
    except ValueError as error:
        return str(error)
    return ""


def test_a_reply_of_any_text_is_an_answer_that_can_be_encoded() -> None:
    for family in FAMILIES.values():
        short = text_of(family, 60)
        for text in (text_of(family, 500), f"<think>{short}</think><action>{short}</action>"):
            json.dumps(parse_reply(text), ensure_ascii=False).encode()


def test_replies_are_cleaned_and_read_up_to_a_limit() -> None:
    parsed = parse_reply("<think>\x1b[1m\ud800</think><action>go \udfff north</action>")
    assert (parsed.command, parsed.thought) == ("go \ufffd north", "\ufffd[1m\ufffd")
    assert type(parse_reply(np.str_("<action>up</action>")).command) is str
    late = " " * MOST_CHARACTERS + "<action>up</action>"
    assert parse_reply(late).error == "no_action"
    assert parse_reply(late[19:]).command == "up"
    assert len(board("#\n" * 500_000)) < 3000
    assert "expected a board of 6 rows of 6 cells" in board("#\n" * 500_000)
    window = PromptWindow(BOARD, instructions=False)
    window.reset(seed=0)
    messages = window.step("\ud800 dance")[0]
    assert "\ufffd dance" in messages[0]["content"]
    messages[0]["content"].encode()
    env = ReplyParser(gym.make("AgentRL/Sokoban-v0"))
    env.reset(seed=0)
    assert type(env.step(np.str_("<action>up</action>"))[-1]["command"]) is str


@pytest.mark.parametrize("batch", [{"<action>up</action>", "up"}, {"a": 1, "b": 2}, iter(["up", "up"]), "up"])
def test_replies_are_a_sequence(batch: Any) -> None:
    envs = VectorPromptWindow(VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=2)))
    envs.reset(seed=0)
    refuses((TypeError, ValueError), r"one reply per sub-environment \(2\)", envs.step, batch)


@pytest.mark.parametrize(
    "make",
    [list, tuple, lambda replies: np.array(replies, object), lambda replies: np.array(replies)],
    ids=["list", "tuple", "object array", "<U array"],
)
def test_every_kind_of_batch_is_played_alike(make: Callable[[list[str]], Any]) -> None:
    replies = ["<think>so</think><action>up</action>", "up", "<action>left</action>"]
    envs = VectorPromptWindow(VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3)))
    envs.reset(seed=0)
    messages, rewards, *_, infos = envs.step(make(replies))
    assert infos["command"].tolist() == ["up", "", "left"]
    assert {type(command) for command in infos["command"]} == {str}
    assert "Step 1, you did: left" in messages[2][-1]["content"]
    assert rewards.shape == (3,)
