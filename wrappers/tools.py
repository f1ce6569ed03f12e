"""Tools that a policy calls: which ones an environment has, how they are shown, and calls in replies.

An environment lists its tools as JSON schemas: in an attribute `tools`, or, where they change, in `info["tools"]`. The
reply parser reads calls with `form="tool_calls"` and gives the environment a command in the short form of
`agentgym.outside.tool_calls.write_call`. For trainers of others, `tool_environment` makes a method of each tool.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from agentgym.outside.text import clean
from agentgym.outside.tool_calls import ToolCall, check_call, function_of, read_calls, write_call
from agentgym.trajectory import Step

Tools = Sequence[Mapping[str, Any]]

#: How a call is written, for prompts; the form of the chat templates of Hermes and Qwen.
CALL_FORMAT = (
    "Think first, inside <think> and </think>. Then make exactly one tool call, inside <tool_call> and </tool_call>, "
    'and stop there:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
)


class ToolReply(NamedTuple):
    """What `read_tool_reply` found.

    Attributes:
        command: the call in the short form, several in lines; "" if no call can be made.
        error: value of `wrappers.reply.ReplyError`.
        wrong: the error in words for the model, "" without one.
        thought: the text before `</think>`.
    """

    command: str
    error: str
    wrong: str
    thought: str


def read_tool_reply(
    text: str,
    *,
    several: str = "error",
    max_length: int = 1000,
    require_think: bool = False,
    tools: Tools | None = None,
) -> ToolReply:
    """Read the tool calls of a reply, see `agentgym.outside.tool_calls.read_calls`.

    Args:
        text: the reply; calls are looked for behind its last `</think>`.
        several: what several calls mean: "error", "first", "last", or "all": the command has them all.
        max_length: longest command accepted, in characters.
        tools: JSON schemas that a call must fit; None: any call is taken.

    >>> read_tool_reply('<think>a sum</think><tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    ToolReply(command='add(a=1)', error='', wrong='', thought='a sum')
    >>> read_tool_reply("I would add.").error
    'no_action'
    """
    before, closed, rest = clean(text).rpartition("</think>")
    thought = before.replace("<think>", "").replace("</think>", "\n").strip()
    if not closed and "<think>" in rest:
        return ToolReply("", "unclosed_think", "the thought is never closed, so there is no tool call", "")
    calls, wrong = read_calls(rest)
    if several == "first":
        calls, wrong = calls[:1], "" if calls else wrong
    elif several == "last" and not wrong:
        calls = calls[-1:]
    if wrong:
        error = "no_action" if wrong.startswith("no tool call") else "unreadable_call"
        return ToolReply("", error, wrong, thought)
    if several == "error" and len(calls) > 1:
        return ToolReply("", "several_actions", f"expected one tool call, got {len(calls)}", thought)
    if require_think and not thought:
        return ToolReply("", "no_think", "there is no thought before the tool call", thought)
    for call in calls if tools is not None else ():
        if wrong := check_call(call, tools or ()):
            return ToolReply("", "wrong_call", wrong, thought)
    command = "\n".join(write_call(*call) for call in calls)
    if len(command) > max_length:
        return ToolReply("", "too_long", f"a call of {len(command)} characters, more than {max_length}", thought)
    return ToolReply(command, "", "", thought)


def listed_tools(env: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the JSON schemas in the attribute `tools` of an environment, single or vector; () where it has none.

    Raises:
        TypeError: one is not the schema of a tool.
    """
    tools = tuple(getattr(env.unwrapped, "tools", ()))
    for tool in tools:
        function_of(tool)
    return tools


def checks_calls(env: Any) -> bool:
    """Return whether an environment itself answers calls that do not fit its tools."""
    return bool(getattr(env.unwrapped, "checks_calls", False))


def describe_tools(tools: Iterable[Mapping[str, Any]]) -> str:
    """Return the part of a system message that lists tools, a JSON object in each line."""
    return "\n".join(["You have these tools:", *(json.dumps(dict(function_of(tool))) for tool in tools)])


def reading(env: Any) -> dict[str, Any]:
    """Return the options of a reply parser that suit an environment: tool calls where it lists tools.

    >>> import agentgym, gymnasium
    >>> reading(gymnasium.make("AgentRL/Telecom-v0")), reading(gymnasium.make("AgentRL/Sokoban-v0"))
    ({'form': 'tool_calls'}, {})
    """
    return {"form": "tool_calls"} if listed_tools(env) else {}


#: Annotations of arguments by the type in their schema.
_ANNOTATIONS: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
#: Options of a reset among the columns of a data set.
_RESET = ("split", "index", "task_id")
#: The tool of an environment that lists none, without its description.
_COMMAND = {
    "name": "act",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def tool_environment(make: Callable[[], gym.Env[str, str]], name: str = "ToolEnvironment") -> type[Any]:
    """Return a class with a method for each tool of an environment, as TRL's `environment_factory` takes it.

    An object has `reset(**row)`, which starts the task of the row's `split`, `index`, `task_id` and `seed` and returns
    the observation; a method per tool, with the schema's description and types, which returns the answer; and
    `get_reward()`, the sum of the rewards. Calls that do not fit are answered with the error, and calls after the end
    with a sentence. An environment without tools has the method `act(command)`, which its instructions describe.

    Args:
        make: makes the environment; its attribute `tools` lists its tools.

    Raises:
        ValueError: a tool cannot be a method: its name is taken or no identifier.

    >>> import agentgym, gymnasium
    >>> env = tool_environment(lambda: gymnasium.make("AgentRL/Telecom-v0"))()
    >>> _ = env.reset(split="test", index=0)
    >>> env.check_status_bar().partition(":")[0], env.get_reward()
    ('Status Bar', 0.0)
    >>> env = tool_environment(lambda: gymnasium.make("AgentRL/Sokoban-v0"))()
    >>> env.reset(split="train", index=0).split()[2], env.act("up").split()[2]
    ('#S_X_#', '#O_X_#')
    """
    made = make()
    tools = listed_tools(made)
    if not tools:
        said = getattr(made.unwrapped, "instructions", "")
        tools = ({"type": "function", "function": {**_COMMAND, "description": f"Do a command. {said}".strip()}},)
    methods = {each["name"]: _method(each) for each in map(function_of, tools)}
    taken = [each for each in methods if not each.isidentifier() or each.startswith("_") or hasattr(_Called, each)]
    if taken:
        raise ValueError(f"tool_environment: {make!r}: {taken[0]!r} cannot be the name of a method")
    return type(name, (_Called,), {**methods, "_make": staticmethod(make), "_tools": tools})


class _Called:
    """The base of all classes of `tool_environment`."""

    _make: Callable[[], gym.Env[str, str]]
    _tools: Tools

    def __init__(self) -> None:
        self._env = self._make()
        self._checked, self._plain = not checks_calls(self._env), not listed_tools(self._env)
        self._key, self._ended = "", (False, True, False)  # won, terminated, truncated
        self._steps: list[Step | None] = []

    def reset(self, **row: Any) -> str:
        """Start the task of a row, and return what is seen."""
        options = {key: row[key] for key in _RESET if row.get(key) is not None}
        observation, info = self._env.reset(seed=row.get("seed"), options=options or None)
        self._key, self._ended, self._steps = _key(info), (False, False, False), []
        return _text(observation)

    def get_reward(self) -> float:
        """Return the sum of the rewards since the reset."""
        return sum(step.reward for step in self._steps if step is not None)

    def _call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if any(self._ended[1:]):
            self._steps.append(None)
            return "The episode is over."
        call = ToolCall(name, {key: value for key, value in arguments.items() if value is not None})
        wrong = check_call(call, self._tools) if self._checked else ""
        command = str(call.arguments["command"]) if self._plain and not wrong else write_call(*call)
        observation, reward, terminated, truncated, info = self._env.step("" if wrong else command)
        before, self._key = self._key, _key(info)
        self._ended = bool(info.get("won", False)), bool(terminated), bool(truncated)
        if terminated:
            self._key += " [success]" if self._ended[0] else " [failure]"
        valid = not wrong and bool(info.get("is_action_valid", True))
        self._steps.append(Step(len(self._steps), before, command, self._key, float(reward), valid))
        return f"Error: {wrong}" if wrong else _text(observation)


def _key(info: Mapping[str, Any]) -> str:
    return str(info.get("canonical_key", info.get("state_key", "")))


def _text(observation: Any) -> str:
    """Return the text of an observation that may have a picture."""
    return observation if isinstance(observation, str) else str(observation["text"])


def _method(tool: Mapping[str, Any]) -> Any:
    """Return a method with the signature and docstring of a tool's schema."""
    schema = tool.get("parameters") or {}
    required = schema.get("required") or ()
    properties = schema.get("properties") or {}
    order = sorted(properties, key=lambda key: key not in required)
    hints = {key: _annotation(properties[key]) for key in order}
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for key in order:
        default = inspect.Parameter.empty if key in required else properties[key].get("default")
        parameters.append(
            inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=hints[key])
        )
    signature = inspect.Signature(parameters, return_annotation=str)

    def method(self: _Called, *args: Any, **kwargs: Any) -> str:
        try:
            given = signature.bind(self, *args, **kwargs).arguments
        except TypeError as error:
            return self._call(tool["name"], kwargs) if not args else f"Error: {error}"
        return self._call(tool["name"], {key: value for key, value in given.items() if key != "self"})

    words = [f"    {key}: {properties[key].get('description') or key.replace('_', ' ')}" for key in order]
    described = str(tool.get("description") or tool["name"])
    method.__doc__ = "\n".join([described, *(["", "Args:", *words] if words else [])])
    method.__name__ = method.__qualname__ = tool["name"]
    method.__annotations__ = {**hints, "return": str}
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _annotation(schema: Mapping[str, Any]) -> Any:
    kinds = [schema.get("type"), *(each.get("type") for each in schema.get("anyOf") or ())]
    return next((_ANNOTATIONS[kind] for kind in kinds if isinstance(kind, str) and kind in _ANNOTATIONS), str)
