"""Prompts, transcripts and conversations of tool calls: by hand on the corridor, with pictures, limits and schemas."""

import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

from agentgym.core import TextSpace
from agentgym.outside.tool_calls import read_calls, write_call
from agentgym.registry import ROWS
from tests.cases import cases
from tests.corridor import CorridorEnv, CorridorVectorEnv
from tests.playing import begun
from tests.refusals import refuses
from wrappers import Transcript, VectorTranscript
from wrappers.prompt import REPLY_FORMAT, Episode, MessageSpace, PromptStyle, PromptWindow, VectorPromptWindow
from wrappers.reply import ReplyParser, VectorReplyParser
from wrappers.tools import CALL_FORMAT, describe_tools, listed_tools, tool_environment

pytestmark = pytest.mark.filterwarnings("ignore:the prompt asks for a reply format")
BARE = {"history": 0, "instructions": False}


def _user(messages: tuple) -> str:
    return messages[-1]["content"]


def test_the_window_by_hand() -> None:
    env = PromptWindow(CorridorEnv(), **BARE)
    assert env.reset(options={"index": 2})[0] == ({"role": "user", "content": "cell 2"},)
    assert env.step("right")[0] == ({"role": "user", "content": "cell 3"},)
    rules = CorridorEnv.instructions
    forms: list[Any] = [({}, f"{rules}\n\n{REPLY_FORMAT}"), ({"reply_format": ""}, rules)]
    for options, expected in [*forms, ({"instructions": "Be quick."}, "Be quick.")]:
        system, user = PromptWindow(CorridorEnv(), **options).reset(options={"index": 2})[0]
        assert (system, user) == ({"role": "system", "content": expected}, {"role": "user", "content": "cell 2"})
    env = begun(PromptWindow(CorridorEnv(), history=2), options={"index": 2})
    assert _user(env.step("right")[0]) == "Step 1, you saw:\ncell 2\nStep 1, you did: right\n\nNow you see:\ncell 3"
    env.step("left")
    assert _user(env.step("left")[0]) == (
        "Step 2, you saw:\ncell 3\nStep 2, you did: left\n\n"
        "Step 3, you saw:\ncell 2\nStep 3, you did: left\n\n"
        "Now you see:\ncell 1"
    )
    assert _user(env.reset(options={"index": 3})[0]) == "cell 3"
    env = begun(PromptWindow(CorridorEnv(), history=None), options={"index": 2})
    for command in ("left", "right", "left", "right"):
        text = _user(env.step(command)[0])
    assert text.count("you did") == 4
    style = PromptStyle(history=0, instructions=False, admissible=True, max_chars=60)
    text = style.user_text(Episode("", "x" * 100), ("left", "right"))
    # The commands take len("\n\nCommands you can give now: left, right") = 40, the mark 6: 14 characters are left.
    assert text == "x" * 14 + " [cut]\n\nCommands you can give now: left, right"
    assert len(text) == 60
    env = PromptWindow(CorridorEnv(), history=1, keep_first=True)
    assert _user(env.reset(options={"index": 2})[0]) == "cell 2"
    assert "At the start" not in _user(env.step("left")[0])
    assert _user(env.step("right")[0]) == (
        "At the start you saw:\ncell 2\n\nStep 2, you saw:\ncell 1\nStep 2, you did: right\n\nNow you see:\ncell 2"
    )


def test_commands_are_listed_and_kept() -> None:
    env = PromptWindow(CorridorEnv(), admissible=True, **BARE)
    assert _user(env.reset(options={"index": 2})[0]) == "cell 2\n\nCommands you can give now: left, right"
    env = begun(PromptWindow(ReplyParser(CorridorEnv()), history=2), options={"index": 2})
    env.step("<think>long</think><action>right</action>")
    text = _user(env.step("no idea")[0])
    assert "Step 1, you did: right\n" in text
    assert "Step 2, you did: (no readable command)\n" in text
    env = PromptWindow(ReplyParser(CorridorEnv()), history=2, instructions=False, shown="actions", keep_first=True)
    messages, _ = env.reset(options={"index": 2})
    assert _user(messages) == "cell 2"
    for reply in ("<action>right</action>", "<action>left</action>", "hm"):
        messages, *_ = env.step(reply)
    assert _user(messages) == (
        "At the start you saw:\ncell 2\n\nYou did: left; (no readable command)\n\nNow you see:\ncell 2"
    )


@pytest.mark.parametrize("keep_first", [False, True])
def test_max_chars_keeps_as_many_pairs_as_fit(keep_first: bool) -> None:
    pairs = [("seen " * (i % 5), "act" * (i % 3)) for i in range(30)]
    episode = Episode("the first observation", "now", pairs, steps=30)
    whole = PromptStyle(history=None, keep_first=keep_first)
    texts = [whole.user_text(replace(episode, pairs=pairs[dropped:])) for dropped in range(31)]
    for limit in range(len(texts[-1]), len(texts[0]) + 60):
        style = PromptStyle(history=None, keep_first=keep_first, max_chars=limit)
        assert style.user_text(episode) == next(text for text in texts if len(text) <= limit)


def test_max_chars_does_not_try_every_pair_of_a_long_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = []
    layout = PromptStyle._layout
    monkeypatch.setattr(PromptStyle, "_layout", lambda *arguments: rendered.append(0) or layout(*arguments))
    episode = Episode("a", "now", [("seen", "act")] * 1000, steps=1000)
    assert len(PromptStyle(history=None, max_chars=500).user_text(episode)) <= 500
    assert len(rendered) <= 15


def test_wrong_options_and_observations_are_refused() -> None:
    refuses(TypeError, "histroy", VectorPromptWindow, CorridorVectorEnv(1), histroy=2)
    refuses(ValueError, "pass a text as instructions", PromptWindow, _Silent())
    assert PromptWindow(_Silent(), instructions=False).reset(seed=0)[0][0]["role"] == "user"
    env = gym.wrappers.TransformObservation(
        CorridorEnv(), lambda x: x, gym.spaces.Dict({"picture": gym.spaces.Box(0, 1, (2, 2))})
    )
    refuses(ValueError, r"needs the key 'text' .*\['picture'\]", PromptWindow, env)
    env = Transcript(gym.make("AgentRL/Sokoban-v0"), instructions=False, admissible=True)
    assert env.spec.additional_wrappers[-1].kwargs == {"instructions": False, "admissible": True}
    refuses(TypeError, "takes no 'history': use PromptWindow", Transcript, CorridorEnv(), history=2)
    refuses(TypeError, "admissible", VectorTranscript, CorridorVectorEnv(1), admisible=True)


class _Silent(CorridorEnv):
    instructions = ""


def test_a_picture_is_a_part_of_the_content() -> None:
    env = PromptWindow(gym.make("AgentRL/VisualSokoban-v0"), history=1)
    messages, _ = env.reset(seed=0)
    image, text = messages[-1]["content"]
    assert messages in env.observation_space
    assert (image["type"], image["image"].dtype) == ("image", np.uint8)
    assert text["type"] == "text"
    content = env.step("up")[0][-1]["content"]
    assert [part["type"] for part in content] == ["image", "text"]
    assert "Step 1, you did: up" in content[1]["text"]


def test_facts_stand_below_the_observation() -> None:
    style = {"history": 1, "instructions": False, "facts": ("task_id", "score"), "admissible": True}
    env = PromptWindow(CorridorEnv(), **style)
    messages, _ = env.reset(options={"index": 2})
    below = "task_id: start-2\nscore: 0.5\n\nCommands you can give now: left, right"
    assert _user(messages) == f"cell 2\n\n{below}"
    messages, *_ = env.step("left")
    now = "Step 1, you saw:\ncell 2\nStep 1, you did: left\n\nNow you see:\ncell 1"
    assert _user(messages) == f"{now}\n\n{below.replace('0.5', '0.25')}"
    assert _user(PromptWindow(CorridorEnv(), **style, max_chars=10).reset(options={"index": 2})[0]).endswith(below)
    envs = VectorPromptWindow(CorridorVectorEnv(2), history=0, instructions=False, facts=("score",))
    messages, _ = envs.reset(options=[{"index": 1}, {"index": 2}])
    assert [_user(one) for one in messages] == ["cell 1\n\nscore: 0.25", "cell 2\n\nscore: 0.5"]
    refuses(KeyError, "info has no 'location'", lambda: PromptWindow(CorridorEnv(), facts=("location",)).reset(seed=0))
    refuses(TypeError, "sequence of names", PromptStyle, facts="location")
    refuses(ValueError, "known: 'pairs', 'actions'", PromptStyle, shown="commands")


IMAGE = {"type": "image", "image": np.zeros((2, 2, 3), np.uint8)}
TEXT = {"type": "text", "text": "t"}


@cases(
    "value, member",
    (({"role": "user", "content": ""},), True),
    (({"role": "system", "content": "s"}, {"role": "user", "content": "u"}), True),
    (({"role": "user", "content": [IMAGE, TEXT]},), True),
    ((), False),
    ([{"role": "user", "content": "u"}], False),
    (({"role": "nobody", "content": "u"},), False),
    (({"role": "user", "content": 3},), False),
    (({"role": "user", "content": "u", "name": "n"},), False),
    (({"role": "user", "content": []},), False),
    (({"role": "user", "content": [{"type": "text"}]},), False),
    (({"role": "user", "content": [{"type": "image", "image": np.zeros((2, 2))}]},), False),
    (({"role": "user", "content": [{"type": "sound"}]},), False),
)
def test_membership_of_messages(value: object, member: bool) -> None:
    assert (value in MessageSpace()) is member


def test_the_space_of_messages() -> None:
    a, b = MessageSpace(seed=3), MessageSpace(seed=3)
    assert a.sample() in a
    a.seed(5), b.seed(5)
    assert a.sample() == b.sample()
    assert a == b
    refuses(ValueError, "without them", lambda: MessageSpace().sample(mask=0))
    batch = batch_space(MessageSpace(seed=0), 2)
    batch.seed(0)
    sample = batch.sample()
    assert len(sample) == 2
    assert sample[0] != sample[1]


@pytest.mark.parametrize("vector", [False, True])
def test_a_reply_format_that_nothing_reads_is_warned_of_once(vector: bool) -> None:
    def prompt(parsed: bool, **style: Any) -> list[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if vector:
                envs: Any = CorridorVectorEnv(2)
                VectorPromptWindow(VectorReplyParser(envs) if parsed else envs, **style)
            else:
                PromptWindow(ReplyParser(CorridorEnv()) if parsed else CorridorEnv(), **style)
        return caught

    (warning,) = prompt(parsed=False)
    assert "a reply format that nothing reads" in str(warning.message)
    assert warning.filename == __file__
    for style in ({"reply_format": ""}, {"instructions": False}, {"instructions": "Go right."}):
        assert not prompt(parsed=False, **style)
    assert not prompt(parsed=True)


def _replied(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def _seen(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_an_episode_is_one_conversation() -> None:
    env = Transcript(ReplyParser(CorridorEnv()), instructions="Be quick.")
    rules = {"role": "system", "content": "Be quick."}
    assert env.reset(options={"index": 2})[0] == (rules, _seen("cell 2"))
    first, second = "<think>why?</think><action>right</action>", "no command \x1b"
    assert env.step(first)[0] == (rules, _seen("cell 2"), _replied(first), _seen("cell 3"))
    shown, *_, info = env.step(second)
    assert shown[3:] == (_seen("cell 3"), _replied("no command \ufffd"), _seen("cell 3"))
    assert not info["is_action_valid"]
    assert shown in env.observation_space
    assert env.reset(options={"index": 1})[0] == (rules, _seen("cell 1"))
    env = Transcript(CorridorEnv(), instructions=False, admissible=True, facts=("score",))
    env.reset(options={"index": 2})
    below = "\n\nCommands you can give now: left, right"
    assert env.step("right")[0] == (
        _seen("cell 2\n\nscore: 0.5" + below), _replied("right"), _seen("cell 3\n\nscore: 0.75" + below),
    )  # fmt: skip


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


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"{name} it", "parameters": parameters}}


class Adder(gym.Env[str, str]):
    """Add until the sum is 7; with `growing`, "halve" is a tool once something was added."""

    instructions = "Reach 7."
    observation_space = action_space = TextSpace()
    tools = (tool("add", a={"type": "integer"}),)

    def __init__(self, growing: bool = False) -> None:
        self.growing = growing
        if growing:
            self.tools = ()

    def info(self) -> dict[str, Any]:
        found = [*Adder.tools, *([tool("halve")] if self.sum else [])]
        return {"tools": found} if self.growing else {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.sum, self.heard = 0, []
        return "0", self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.heard.append(action)
        calls = read_calls(action).calls
        for name, given in calls:
            self.sum = self.sum + given["a"] if name == "add" else self.sum // 2
        won = self.sum == 7
        info = {**self.info(), "is_action_valid": bool(calls), "success": won}
        return str(self.sum), float(won), won, False, info


def call(name: str, **arguments: Any) -> str:
    return f"<think>so</think>{write_call(name, arguments)}"


def test_a_conversation_of_calls_has_answers_of_tools_and_says_what_was_wrong() -> None:
    env = Transcript(ReplyParser(Adder(), form="tool_calls"))
    messages, _ = env.reset(seed=0)
    assert messages[0]["content"] == f"Reach 7.\n\n{describe_tools(Adder.tools)}\n\n{CALL_FORMAT}"
    *_, info = env.step(call("add", a="4"))
    assert (info["reply_error"], info["is_action_valid"]) == ("wrong_call", False)
    env.step("add(a=4")
    messages, reward, terminated, *_ = env.step("add(a=4)")
    assert [(each["role"], each["content"]) for each in messages[3::2]] == [
        ("tool", "Error: add: the argument 'a' must be of type integer, got a string"),
        ("tool", "Error: add: expected ',' or ')', got ''"),
        ("tool", "4"),
    ]
    assert messages in env.observation_space
    assert env.step(call("add", a=3))[1:3] == (1.0, True)
    assert (reward, terminated, env.unwrapped.heard) == (0.0, False, ["", "", "add(a=4)", "add(a=3)"])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_many_say_the_same_as_one_each(mode: AutoresetMode) -> None:
    replies = [["add(a=4)", "add(a=x)", "add(a=3)", "add(a=1)"], ["add()", "add(a=5)", "add(a=2)", "add(a=1)"]]
    envs = begun(VectorReplyParser(SyncVectorEnv([Adder] * 2, autoreset_mode=mode), form="tool_calls"), seed=0)
    shown = [envs.step([column[t] for column in replies]) for t in range(3)]
    assert shown[0][0] == ("4", "Error: add: the argument 'a' is missing")
    assert shown[1][0] == ("Error: add: the argument 'a' must be of type integer, got a string", "5")
    last = shown[2][4]["final_obs"] if mode is AutoresetMode.SAME_STEP else shown[2][0]
    assert list(last) == ["7", "7"]
    assert shown[2][2].all()
    if mode is AutoresetMode.NEXT_STEP:
        assert envs.step(["add(a=9)", "nothing"])[0] == ("0", "0")


def test_branches_and_schemas() -> None:
    envs = begun(VectorTranscript(VectorReplyParser(Adder(), form="tool_calls")), seed=0)
    envs.step(["add(a=4)"])
    saved = envs.snapshot(0)
    shown = envs.step(["add()"])[0]
    assert envs.restore([0], [saved])[0][0][-1]["content"] == "4"
    assert envs.step(["add()"])[0] == shown
    env = PromptWindow(ReplyParser(Adder(growing=True), form="tool_calls"), history=0)
    messages, _ = env.reset(seed=0)
    assert '"halve"' not in messages[0]["content"]
    messages, *_, info = env.step("halve()")
    assert info["reply_error"] == "wrong_call"
    assert messages[-1]["content"] == "Error: there is no tool 'halve'; there are add"
    messages, *_ = env.step("add(a=6)")
    assert '"halve"' in messages[0]["content"]
    assert env.step("halve()")[0][-1]["content"] == "3"
    env = Adder()
    env.tools = ({"title": "add"},)
    refuses(TypeError, "a tool must be a JSON schema", ReplyParser, env, form="tool_calls")


def test_schemas_go_through_the_template_of_a_policy_that_knows_tools() -> None:
    pytest.importorskip("transformers")
    from policies.prompts import PromptEncoder
    from policies.tiny import tiny_tokenizer

    envs = VectorTranscript(VectorReplyParser(Adder(), form="tool_calls"), tools="template")
    messages, _ = envs.reset(seed=0)
    assert messages[0][0]["content"] == "Reach 7."
    after = envs.step(["add(a=4)"])[0]
    tokenizer = tiny_tokenizer(["Reach 7. 0 1 2 3 4"], ["add(a=4)"])
    tokenizer.chat_template = (
        "{% if tools %}{% for t in tools %}[{{ t.function.name }}]{% endfor %}{% endif %}"
        "{% for m in messages %}({{ m.role }}){{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    encoder = PromptEncoder(
        tokenizer, prefix="", new_tokens=4, positions=None, template={"tools": listed_tools(envs)}
    )  # fmt: skip
    first = encoder(messages[0])
    assert tokenizer.decode(first) == "[add](system)Reach 7.(user)0>"
    second = encoder(after[0])
    assert tokenizer.decode(second) == "[add](system)Reach 7.(user)0>add(a=4)(tool)4>"
    assert second[: len(first)] == first


def test_telecom_answers_wrong_calls_in_its_own_words() -> None:
    envs = begun(VectorReplyParser(gym.make_vec("AgentRL/Telecom-v0", num_envs=2), form="tool_calls"), seed=0)
    said, *_, infos = envs.step([call("toggle_data", x=1), "toggle the data"])
    assert said[0] == "Error: TelecomUserTools.toggle_data() got an unexpected keyword argument 'x'"
    assert said[1].startswith("Error: no tool call: expected")
    assert infos["reply_error"].tolist() == ["", "no_action"]
    assert not np.any(infos["is_action_valid"])


def test_tools_are_methods() -> None:
    env = tool_environment(Adder, "Sums")()
    assert (type(env).__name__, env.reset(seed=0, prompt="unused")) == ("Sums", "0")
    assert (env.add(4), env.get_reward()) == ("4", 0.0)
    assert env.add(a="x") == "Error: add: the argument 'a' must be of type integer, got a string"
    assert env.add(b=1) == "Error: add: the argument 'a' is missing"
    assert env.add(1, 2).startswith("Error: too many positional arguments")
    assert (env.add(a=3), env.get_reward()) == ("7", 1.0)
    assert (env.add(a=3), env.get_reward()) == ("The episode is over.", 1.0)
    assert env._env.heard == ["add(a=4)", "", "", "add(a=3)"]
    assert env.reset() == "0"
    env = Adder()
    env.tools = (tool("reset"),)
    refuses(ValueError, "'reset' cannot be the name of a method", tool_environment, lambda: env)


def test_chat_templates_read_the_schema_back_from_the_method() -> None:
    chat = pytest.importorskip("transformers.utils.chat_template_utils")
    env = tool_environment(lambda: gym.make("AgentRL/Telecom-v0"))()
    names = {each["function"]["name"] for each in env._tools}
    assert names == {name for name in dir(type(env)) if not name.startswith("_")} - {"reset", "get_reward"}
    for tool in env._tools:
        read = chat.get_json_schema(getattr(env, tool["function"]["name"]))["function"]
        assert read["name"] == tool["function"]["name"]
        assert set(read["parameters"]["properties"]) == set(tool["function"]["parameters"]["properties"])
        assert read["parameters"].get("required", []) == tool["function"]["parameters"].get("required", [])
    ticket = env.reset(split="train", index=0, seed=1)
    plain = gym.make("AgentRL/Telecom-v0")
    assert ticket == plain.reset(options={"split": "train", "index": 0})[0]
    assert env.set_apn_settings(apn_settings={}) == plain.step("set_apn_settings(apn_settings={})")[0]
    assert env.get_bills_for_customer("C2001") == plain.step('get_bills_for_customer(customer_id="C2001")')[0]
    assert env.done() == "The case is closed."


def test_an_environment_without_tools_takes_commands() -> None:
    def make() -> gym.Env[str, str]:
        return gym.make("AgentRL/Corridor-v0", length=2, expert=True)

    env, plain = tool_environment(make)(), make()
    shown, info = plain.reset(options={"split": "train", "index": 3})
    assert env.reset(split="train", index=3) == shown
    assert "north" in type(env).act.__doc__
    assert env.act(command=7) == "Error: act: the argument 'command' must be of type string, got an integer"
    for _ in range(2):
        command = info["expert_action"]
        shown, *_, info = plain.step(command)
        assert env.act(command) == shown
    assert (env.act("north"), env.get_reward(), env._ended) == ("The episode is over.", 1.0, (True, True, False))
    steps = [(one.state, one.next_state, one.valid, one.reward) for one in env._steps if one]
    assert steps == [("0", "0", False, 0.0), ("0", "1", True, 0.0), ("1", "end [success]", True, 1.0)]


def test_prompts_of_engines_list_the_tools_of_the_environment() -> None:
    pytest.importorskip("torch")
    from baselines.engines import prompting

    envs = prompting("AgentRL/Telecom-v0", 1)
    messages, _ = envs.reset(seed=0)
    assert '"name": "toggle_data"' in messages[0][0]["content"]
    messages, *_ = envs.step(["<think>so</think>check_status_bar()"])
    assert (messages[0][-1]["role"], messages[0][-1]["content"][:12]) == ("tool", "Status Bar: ")
