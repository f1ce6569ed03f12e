"""Users' environments that list tools: calls, errors in the observation's place, the role "tool", schemas."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from agentgym.core import TextSpace
from agentgym.outside.tool_calls import read_calls, write_call
from tests.playing import begun
from tests.refusals import refuses
from wrappers import PromptWindow, ReplyParser, Transcript, VectorReplyParser, VectorTranscript
from wrappers.tools import CALL_FORMAT, describe_tools, listed_tools, tool_environment


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
