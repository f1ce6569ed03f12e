"""Replies by hand and as random strings, in both wrappers; what models write reaches prompts, parsers and planes."""

import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.outside.text import MOST_CHARACTERS, clean
from agentgym.rollout import collect
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import Scripted, begun, corridor
from tests.refusals import refuses
from wrappers import PromptWindow, VectorPromptWindow
from wrappers.invalid_action import InvalidActionPenalty, VectorInvalidActionPenalty
from wrappers.reply import ParsedReply, ReplyError, ReplyParser, VectorReplyParser, _tags, parse_reply, read_labels
from wrappers.shaping import GraphShaping
from wrappers.symbols import DiscreteActions, SymbolPlanes

E = ReplyError
ADD = {"name": "add", "parameters": {"properties": {"a": {"type": "number"}}, "required": ["a"]}}
CALLS = {"form": "tool_calls", "tools": [ADD]}
BLOCKS = {"command_tags": ("search", "answer")}


@cases(
    "text, command, error",
    ("<action>up</action>", "up", E.OK),
    ("<think>t</think><action> go to desk 1\n</action>", "go to desk 1", E.OK),
    ("<think>try <action>a</action> or </action></think><action>b</action>", "b", E.OK),
    ("<action>a < b > c & </b></action>", "a < b > c & </b>", E.OK),
    ("up", "", E.NO_ACTION),
    ("< action>up</ action>", "", E.NO_ACTION),
    ("<think>up <action>up</action>", "", E.UNCLOSED_THINK),
    ("<action>up", "", E.UNCLOSED_ACTION),
    ("<action>up<action>down</action>", "", E.NESTED_TAG),
    ("up</action>", "", E.STRAY_TAG),
    ("<action>up</action><action>up</action>", "", E.SEVERAL_ACTIONS),
    ("<action> \n\t </action>", "", E.EMPTY_ACTION),
)
def test_replies_by_hand(text: str, command: str, error: ReplyError) -> None:
    parsed = parse_reply(text)
    assert (parsed.command, parsed.error) == (command, error)


@cases(
    "options, text, command, error",
    ({"require_think": True}, "<think></think><action>up</action>", "up", E.OK),
    ({"require_think": True}, "<action>up</action>", "", E.NO_THINK),
    ({"require_think": True}, "<action>up</action><think>late</think>", "", E.NO_THINK),
    ({"several": "first"}, "<action>a</action><action>b</action>", "a", E.OK),
    ({"several": "first"}, "<action>a</action><action>never closed", "a", E.OK),
    ({"several": "first"}, "<action></action><action>b</action>", "", E.EMPTY_ACTION),
    ({"several": "last"}, "<action>a</action><action>b</action>", "b", E.OK),
    ({"several": "last"}, "<action>a</action><action>never closed", "", E.UNCLOSED_ACTION),
    ({"outside": "error"}, " <think>t</think>\n<action>a</action> ", "a", E.OK),
    ({"outside": "error"}, "so <action>a</action>", "", E.TEXT_OUTSIDE),
    ({"outside": "error"}, "<action>a</action>!", "", E.TEXT_OUTSIDE),
    ({"outside": "error"}, "<think>t</think> so <action>a</action>", "", E.TEXT_OUTSIDE),
    ({"max_length": 3}, "<action> abc </action>", "abc", E.OK),
    ({"max_length": 3}, "<action>abcd</action>", "", E.TOO_LONG),
    ({"action_tag": "search"}, "<search>red shoes</search>", "red shoes", E.OK),
    ({"action_tag": "search"}, "<action>red shoes</action>", "", E.NO_ACTION),
    ({"think_tag": "plan", "require_think": True}, "<plan>p</plan><action>a</action>", "a", E.OK),
    ({"ignore_case": False}, "<Action>a</Action>", "", E.NO_ACTION),
    (CALLS, '<think>add(a=9)</think><tool_call>{"name":"add","arguments":{"a":1}}</tool_call>', "add(a=1)", E.OK),
    (CALLS, "thought so</think>add(a = 1)", "add(a=1)", E.OK),
    (CALLS, "<think>add(a=1)", "", E.UNCLOSED_THINK),
    (CALLS, "I would add 1.", "", E.NO_ACTION),
    (CALLS, '<tool_call>{"name": "add", "arguments": {"a": 1, "a": 2}}</tool_call>', "", E.UNREADABLE_CALL),
    (CALLS, 'add(a="1")', "", E.WRONG_CALL),
    (CALLS, "add(a=1) add(a=2)", "", E.SEVERAL_ACTIONS),
    (CALLS | {"several": "first"}, "add(a=1) add(", "add(a=1)", E.OK),
    (CALLS | {"several": "last"}, "add(a=1) add(a=2)", "add(a=2)", E.OK),
    (CALLS | {"several": "all"}, "add(a=1) add(a=2)", "add(a=1)\nadd(a=2)", E.OK),
    (CALLS | {"require_think": True}, "add(a=1)", "", E.NO_THINK),
    ({"form": "tool_calls"}, "sub(a=1)", "sub(a=1)", E.OK),
    (BLOCKS, "<think>Who?</think><search>Ada Bell</search>", "<search>Ada Bell</search>", E.OK),
    (BLOCKS, "<answer> Ulm </answer>", "<answer> Ulm </answer>", E.OK),
    (BLOCKS, "<Search>Ada</SEARCH>", "<search>Ada</search>", E.OK),
    (BLOCKS, "<action><search>Ada</search></action>", "<search>Ada</search>", E.OK),
    (BLOCKS, "<think><answer>no</answer></think><search>a</search>", "<search>a</search>", E.OK),
    (BLOCKS, "<search><answer>x</answer></search>", "<search><answer>x</answer></search>", E.OK),
    (BLOCKS, "<search>a <think> b</search>", "<search>a <think> b</search>", E.OK),
    (BLOCKS, "<search>a</search><answer>b</answer>", "", E.SEVERAL_ACTIONS),
    (BLOCKS, "<search>a</search><action>b</action>", "", E.SEVERAL_ACTIONS),
    (BLOCKS, "<search>a", "", E.UNCLOSED_ACTION),
    (BLOCKS, "</search>", "", E.STRAY_TAG),
)
def test_options_by_hand(options: dict, text: str, command: str, error: ReplyError) -> None:
    parsed = parse_reply(text, **options)
    assert (parsed.command, parsed.error) == (command, error)


@cases(
    "options, message",
    ({"several": "any"}, "'first'"), ({"several": "all"}, "'first'"), ({"form": "calls"}, "'tool_calls'"),
    ({"outside": "warn"}, "'ignore'"), ({"max_length": 0}, "at least 1"), ({"action_tag": "a b"}, "tag name"),
    ({"action_tag": "THINK"}, "must differ"),
)  # fmt: skip
def test_wrong_options_say_what_is_expected(options: dict, message: str) -> None:
    refuses(ValueError, message, parse_reply, "", **options)
    refuses(ValueError, message, ReplyParser, CorridorEnv(), **options)
    refuses(ValueError, message, VectorReplyParser, CorridorVectorEnv(1), **options)


PIECES = [
    "<think>", "</think>", "<action>", "</action>", "<ACTION>", "<", ">", "</", "up", " ", "\n", "\u017f", "\u0130",
    "\x00",
]  # fmt: skip
replies = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=12).map("".join)


def _naive(text: str) -> tuple[str, ReplyError]:
    """The grammar again, by repeated search in the rest of the text; quadratic, default options."""
    actions, errors, rest = [], [], text
    while found := re.search(r"(?ai)<(/?)(think|action)>", rest):
        kind, rest = found[2].lower(), rest[found.end() :]
        if found[1]:
            errors.append(E.STRAY_TAG)
            continue
        end = re.search(f"(?ai)</{kind}>", rest)
        if kind == "action":
            # Only what lies inside the block counts; without a closing tag that is all the rest.
            inside = rest[: end.start()] if end else rest
            if re.search(r"(?ai)</?(think|action)>", inside):
                errors.append(E.NESTED_TAG)
            actions.append(inside.strip())
        if not end:
            return "", E.UNCLOSED_THINK if kind == "think" else E.UNCLOSED_ACTION
        rest = rest[end.end() :]
    if errors:
        return "", errors[0]
    if len(actions) != 1:
        return "", E.SEVERAL_ACTIONS if actions else E.NO_ACTION
    if not actions[0]:
        return "", E.EMPTY_ACTION
    return actions[0], E.OK


@given(replies, st.booleans(), st.sampled_from(["error", "first", "last"]), st.sampled_from(["ignore", "error"]))
def test_random_replies_equal_the_naive_reading_and_have_a_command_or_an_error(
    text: str, think: bool, several: str, outside: str
) -> None:
    parsed = parse_reply(text)
    assert (parsed.command, parsed.error) == _naive(clean(text))
    parsed = parse_reply(text, require_think=think, several=several, outside=outside, max_length=4)  # type: ignore[arg-type]
    assert (parsed.command == "") == (parsed.error is not E.OK)


@pytest.mark.parametrize(
    "unit", ["<think>", "<action>", "</action>", "<", "</", "<action></action>", "<think></think>", " ", "<action> "]
)
def test_work_grows_linearly_with_the_reply(unit: str) -> None:
    work: list[int] = []  # lines of reply.py that run: a measure that does not depend on the machine

    def trace(frame: Any, event: str, argument: Any) -> Any:
        work[-1] += event == "line"
        return trace if frame.f_code.co_filename.endswith("reply.py") else None

    for characters in (50_000, 100_000):
        work.append(0)
        old = sys.gettrace()
        sys.settrace(trace)
        try:
            parse_reply((unit * characters)[:characters])
        finally:
            sys.settrace(old)
    # At most 12 lines for each of the at most characters / 7 tags, and twice as many for twice the text.
    assert work[1] <= 12 * 100_000 / 7 + 100
    assert work[1] <= 2 * work[0] + 100
    # The search itself repeats nothing ("/?" aside), so it cannot go back over what it has read.
    assert not set("*+{") & set(_tags("action", "think", True).pattern)


def test_the_single_wrapper_of_which_nobody_is_warned() -> None:
    env = ReplyParser(CorridorEnv())
    observation, info = env.reset(options={"index": 2})
    assert (observation, info["command"], info["reply_error"]) == ("cell 2", "", "")
    observation, reward, _, _, info = env.step("<think>!</think><action>right</action>")
    assert (observation, reward, info["command"], info["reply_error"]) == ("cell 3", 0.0, "right", "")
    observation, reward, _, _, info = env.step("right")
    assert (observation, reward, info["command"], info["reply_error"]) == ("cell 3", -0.5, "", "no_action")
    assert info["is_action_valid"] is False
    assert type(info["reply_error"]) is str
    env.action_space.seed(0)
    assert env.action_space.sample() in {f"<action>{command}</action>" for command in ("left", "right", "jump")}
    env = ReplyParser(gym.make("AgentRL/Sokoban-v0"), action_tag="move")
    again = begun(gym.make(env.spec), seed=0)
    assert again.step("<move>up</move>")[-1]["command"] == "up"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ReplyParser(CorridorEnv())
        VectorReplyParser(CorridorVectorEnv(2))
        VectorReplyParser(gym.vector.SyncVectorEnv([CorridorEnv]))


def test_thoughts_are_kept_and_command_tags_are_those_of_the_environment() -> None:
    assert parse_reply("<think> one </think><think>two</think>").thought == "one\ntwo"
    refuses(TypeError, "expected a str reply, got NoneType", parse_reply, None)
    assert parse_reply("<search>a</search>").error == "no_action"
    assert parse_reply("<search>a</search><action>up</action>").command == "up"
    assert parse_reply("<search>a</search><answer>b", several="first", **BLOCKS).command == "<search>a</search>"
    refuses(ValueError, "must differ", parse_reply, "", command_tags=("Action",))
    reply = "<think>the name</think><search>capital</search>"
    env = begun(ReplyParser(gym.make("AgentRL/SearchQA-v0")), seed=0)
    info = env.step(reply)[-1]
    assert (info["command"], info["search_count"], info["is_action_valid"]) == ("<search>capital</search>", 1, True)
    envs = begun(VectorReplyParser(gym.make_vec("AgentRL/SearchQA-v0", num_envs=2)), seed=0)
    infos = envs.step([reply, "<action><answer>x</answer></action>"])[-1]
    assert (infos["search_count"].tolist(), infos["reply_error"].tolist()) == ([1, 0], ["", ""])


def _around(env: Any) -> Any:
    return gym.wrappers.TimeLimit(ReplyParser(env), 9)


@cases(
    "inside",
    lambda: ReplyParser(CorridorEnv()),
    lambda: _around(CorridorEnv()),
    lambda: VectorReplyParser(CorridorVectorEnv(2)),
    lambda: VectorInvalidActionPenalty(VectorReplyParser(CorridorVectorEnv(2))),
    lambda: gym.vector.SyncVectorEnv([lambda: _around(CorridorEnv())] * 2),
    lambda: gym.vector.AsyncVectorEnv([lambda: _around(CorridorEnv())] * 2, shared_memory=False),
)
def test_a_second_parser_is_warned_of_once(inside: Any) -> None:
    env = inside()
    parser = ReplyParser if isinstance(env, gym.Env) else VectorReplyParser
    with pytest.warns(UserWarning, match="reads replies already") as caught:
        parser(env)
    assert [warning.filename for warning in caught] == [__file__]
    env.close()


def test_where_a_parser_reads_replies_a_refused_first_batch_is_said_to_be_the_policys() -> None:
    babbles = Scripted("<action>jump" + "!" * 500 + "</action>")

    def warned(envs: Any) -> str:
        with pytest.warns(RuntimeWarning, match="refused every action") as caught:
            collect(envs, babbles, tasks=[{"index": 2}], group_size=2, seed=0)
        return str(caught[0].message)

    bare = corridor(2, max_episode_steps=3)
    assert warned(bare).endswith(": does a reply parser (VectorReplyParser) read the policy's format?")
    parsed = warned(VectorReplyParser(corridor(2, max_episode_steps=3)))
    # two episodes of three steps
    assert "the first 2 episodes: none of the 6 replies held a valid action, the last was '<action>jump!!" in parsed
    assert "does a reply parser" not in parsed
    assert len(parsed) < 500


SPOKEN = '{"action_type": "speak",\n "argument": "Hi: {you}"}'


@cases(
    "text, found",
    ("Thought: a wall.\nAction: up", ("a wall.", "up")),
    ("thought 2: a\nb\nACTION 2 : go to desk 1 \nObservation 2: made up\nAction: down", ("a\nb", "go to desk 1")),
    ("**Thought:** a\n**Action:** up", ("a", "up")),
    ("Action:\n\n up\n because", ("", "up")),
    ("Action: up\nThat opens the door.", ("", "up")),
    ("I think Action: up", ("", None)),
    ("Thought: nothing", ("nothing", None)),
    ("<think>Action: left</think>\nThought: b\nAction: right", ("b", "right")),
    (f"Action: {SPOKEN}\nDone.", ("", SPOKEN)),
    ("**Thought**: a\n**Action 1**: up", ("a", "up")),
    ("**Action: go left**", ("", "go left")),
    ("**Action:** **go left**\nDone.", ("", "go left")),
    ("Action: search **", ("", "search **")),  # no emphasis opened
    ("Action: `go left`", ("", "go left")),
    ("**Action: ``go left`` **", ("", "go left")),
    ("Action: `go", ("", "`go")),
    ("", ("", None)),
)  # fmt: skip
def test_the_first_action_counts_and_what_follows_it_does_not(text, found):
    assert read_labels(text) == found


def test_a_reply_in_labels_has_the_errors_of_any_reply():
    def read(text, **options):
        return parse_reply(text, form="labels", **options)

    found = read("Thought: a\nAction: <search>Ada</search>", command_tags=("search",))
    assert found == ParsedReply("<search>Ada</search>", E.OK, "a")
    assert read("<action>up</action>").error is E.NO_ACTION
    assert read("Action:").error is E.EMPTY_ACTION
    assert read("Action: up", require_think=True).error is E.NO_THINK
    assert read("Action: upwards", max_length=3).error is E.TOO_LONG
    refuses(
        ValueError, "form must be one of 'tags', 'labels', 'tool_calls', got 'lines'", parse_reply, "", form="lines"
    )


def test_the_penalty_of_one_environment() -> None:
    env = InvalidActionPenalty(CorridorEnv(), penalty=0.25)
    assert env.reset(options={"index": 2})[1]["invalid_actions"] == 0
    seen = [env.step(command) for command in ("jump", "left", "jump")]
    # The corridor itself charges 0.5 for a jump.
    assert [step[1] for step in seen] == [-0.75, 0.0, -0.75]
    assert [step[-1]["invalid_actions"] for step in seen] == [1, 1, 2]
    assert env.reset(options={"index": 2})[1]["invalid_actions"] == 0
    env = begun(InvalidActionPenalty(ReplyParser(CorridorEnv()), penalty=0.25), options={"index": 2})
    assert (env.step("left")[1], env.step("<action>left</action>")[1]) == (-0.75, 0.0)
    env = begun(gym.make(InvalidActionPenalty(gym.make("AgentRL/Sokoban-v0"), penalty=3.0).spec), seed=0)
    assert env.step("dance")[1] == pytest.approx(-3.1)


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


@pytest.mark.parametrize("make", [list, tuple, lambda replies: np.array(replies, object), np.array])
def test_every_kind_of_batch_is_played_alike(make: Callable[[list[str]], Any]) -> None:
    replies = ["<think>so</think><action>up</action>", "up", "<action>left</action>"]
    envs = begun(VectorPromptWindow(VectorReplyParser(gym.make_vec("AgentRL/Sokoban-v0", num_envs=3))), seed=0)
    messages, rewards, *_, infos = envs.step(make(replies))
    assert infos["command"].tolist() == ["up", "", "left"]
    assert {type(command) for command in infos["command"]} == {str}
    assert "Step 1, you did: left" in messages[2][-1]["content"]
    assert rewards.shape == (3,)
    for batch in ({"<action>up</action>", "up"}, {"a": 1, "b": 2}, iter(["up"] * 3), "up", ["up"]):
        refuses((TypeError, ValueError), r"one reply per sub-environment \(3\)", envs.step, batch)


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
    for commands in ((), ("up", "up"), "up"):
        refuses(ValueError, "commands", DiscreteActions, CorridorEnv(), commands)
    refuses(ValueError, "not known", DiscreteActions, gym.make("CartPole-v1"))
