"""What models and pages write reaches prompts, parsers and planes: without what cannot be encoded."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from agentgym.outside.text import MOST_CHARACTERS
from tests.cases import cases
from tests.corridor import CorridorEnv
from tests.playing import begun
from tests.refusals import refuses
from wrappers import PromptWindow, ReplyParser, VectorPromptWindow, VectorReplyParser
from wrappers.reply import parse_reply
from wrappers.shaping import GraphShaping
from wrappers.symbols import DiscreteActions, SymbolPlanes

BOARD: gym.Env[Any, Any] = gym.make("AgentRL/Sokoban-v0")
PLANES = SymbolPlanes(BOARD)


def board(text: str) -> str:
    try:
        PLANES.observation(text)
    except ValueError as error:
        return str(error)
    return ""


def test_replies_are_cleaned_and_read_up_to_a_limit() -> None:
    parsed = parse_reply("<think>\x1b[1m\ud800</think><action>go \udfff north</action>")
    assert (parsed.command, parsed.thought) == ("go \ufffd north", "\ufffd[1m\ufffd")
    assert type(parse_reply(np.str_("<action>up</action>")).command) is str
    late = " " * MOST_CHARACTERS + "<action>up</action>"
    assert (parse_reply(late).error, parse_reply(late[19:]).command) == ("no_action", "up")
    assert len(board("#\n" * 500_000)) < 3000
    assert "expected a board of 6 rows of 6 cells" in board("#\n" * 500_000)
    window = begun(PromptWindow(BOARD, instructions=False), seed=0)
    messages = window.step("\ud800 dance")[0]
    assert "\ufffd dance" in messages[0]["content"]
    messages[0]["content"].encode()
    env = begun(ReplyParser(gym.make("AgentRL/Sokoban-v0")), seed=0)
    assert type(env.step(np.str_("<action>up</action>"))[-1]["command"]) is str


@pytest.mark.parametrize("batch", [{"<action>up</action>", "up"}, {"a": 1, "b": 2}, iter(["up", "up"]), "up", ["up"]])
def test_replies_are_a_sequence(batch: Any) -> None:
    envs = begun(VectorPromptWindow(VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=2))), seed=0)
    refuses((TypeError, ValueError), r"one reply per sub-environment \(2\)", envs.step, batch)


@pytest.mark.parametrize("make", [list, tuple, lambda replies: np.array(replies, object), np.array])
def test_every_kind_of_batch_is_played_alike(make: Callable[[list[str]], Any]) -> None:
    replies = ["<think>so</think><action>up</action>", "up", "<action>left</action>"]
    envs = begun(VectorPromptWindow(VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3))), seed=0)
    messages, rewards, *_, infos = envs.step(make(replies))
    assert infos["command"].tolist() == ["up", "", "left"]
    assert {type(command) for command in infos["command"]} == {str}
    assert "Step 1, you did: left" in messages[2][-1]["content"]
    assert rewards.shape == (3,)


LEVEL = "#####\n#PXO#\n#___#\n#####"


def naive(board: str, symbols: str) -> list[list[list[int]]]:
    return [[[int(cell == symbol) for cell in row] for row in board.split("\n")] for symbol in symbols]


@pytest.mark.parametrize("style", [{}, {"symbols": "xsb"}, {"symbols": "xsb", "separator": " | "}])
def test_planes_follow_the_board(style: dict) -> None:
    env = SymbolPlanes(gym.make("AgentRL/Sokoban-v0", size=(4, 5), boxes=1, **style))
    planes, _ = env.reset(options={"level": LEVEL})
    # The key is the board in default symbols; both sets name the same kinds in the same order.
    assert planes.tolist() == naive(LEVEL, "#_OX√PS")
    planes, *_ = env.step("right")
    assert planes.tolist() == naive("#####\n#_P√#\n#___#\n#####", "#_OX√PS")
    assert planes in env.observation_space
    assert planes.dtype == np.uint8


def test_boards_of_other_sizes_and_alphabets() -> None:
    env = SymbolPlanes(gym.make("AgentRL/Sokoban-v0", size=(6, 7)), dtype="float32")
    assert env.observation_space == gym.spaces.Box(0, 1, (7, 6, 7), np.float32)
    for index in range(20):
        planes, info = env.reset(options={"index": index})
        assert (planes.tolist(), planes.dtype) == (naive(info["state_key"], "#_OX√PS"), np.float32)
    env = SymbolPlanes(gym.make("AgentRL/Sokoban-v0", size=(4, 5), boxes=1, symbols="xsb", separator=" "))
    planes, _ = env.reset(options={"level": "#####\n#@$.#\n#   #\n#####"})
    planes, *_ = env.step("right")
    assert planes.tolist() == naive("#####\n# @*#\n#   #\n#####", "# .$*@+")
    inner = gym.make("AgentRL/Sokoban-v0", size=(5, 6))
    with pytest.raises(ValueError, match=r"5 rows of 6 cells, got .* \[5, 5, 5, 5\]; pass fill="):
        SymbolPlanes(inner).reset(options={"level": LEVEL})
    planes, _ = SymbolPlanes(inner, fill="#").reset(options={"level": LEVEL})
    assert planes.tolist() == naive("######\n#PXO##\n#___##\n######\n######", "#_OX√PS")
    with pytest.raises(ValueError, match="got rows of lengths"):
        SymbolPlanes(gym.make("AgentRL/Sokoban-v0", size=4, boxes=1), fill="#").reset(options={"level": LEVEL})
    env = SymbolPlanes(CorridorEnv(), symbols="cel 0123456789", shape=(1, 6))
    planes, _ = env.reset(options={"index": 2})
    assert planes[:, 0].argmax(0).tolist() == [0, 1, 2, 2, 3, 6]
    with pytest.raises(ValueError, match="cells of one character with ' ' between them"):
        SymbolPlanes(CorridorEnv(), symbols="cel 0123456789", shape=(1, 3), separator=" ").reset()
    wrong = SymbolPlanes(CorridorEnv(), symbols="el 0123456789", shape=(1, 6))
    refuses(ValueError, "symbol 'c' is not in the alphabet", wrong.reset)
    refuses(TypeError, "text boards, got dict", SymbolPlanes(gym.make("AgentRL/VisualSokoban-v0")).reset, seed=0)


@cases(
    "options, words",
    ({}, "pass symbols="),
    ({"symbols": "ab"}, "shape="),
    ({"symbols": "aa", "shape": (1, 6)}, "distinct"),
    ({"symbols": "", "shape": (1, 6)}, "distinct"),
    ({"symbols": "a\n", "shape": (1, 6)}, "line break"),
    ({"symbols": "ab", "shape": (0, 6)}, "at least 1"),
    ({"symbols": "ab", "shape": (1, 6), "fill": "c"}, "fill"),
    ({"symbols": "ab", "shape": (1, 6), "dtype": "int64"}, "unsigned"),
)
def test_wrong_arguments_are_explained(options: dict, words: str) -> None:
    refuses(ValueError, words, SymbolPlanes, CorridorEnv(), **options)


def test_numbers_are_commands_in_plain_gymnasium() -> None:
    env = begun(DiscreteActions(CorridorEnv(), commands=("right", "left")), options={"index": 2})
    assert (env.step(np.int64(0))[0], env.step(np.array(1))[0]) == ("cell 3", "cell 2")
    assert DiscreteActions(CorridorEnv()).commands == ("left", "right", "jump")
    for wrong in (2, -1, "up", None):
        refuses(ValueError, r"expected an action 0\.\.1", env.step, wrong)
    env = GraphShaping(DiscreteActions(SymbolPlanes(gym.make("AgentRL/Sokoban-v0"))), gamma=0.99)
    assert np.array_equal(env.reset(seed=3)[0], gym.make(env.spec).reset(seed=3)[0])


@pytest.mark.parametrize("commands", [(), ("up", "up"), "up"])
def test_commands_must_be_told_apart(commands) -> None:
    refuses(ValueError, "commands", DiscreteActions, CorridorEnv(), commands)
    refuses(ValueError, "not known", DiscreteActions, gym.make("CartPole-v1"))
