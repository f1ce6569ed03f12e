"""Tools that a policy calls: which ones an environment has, how they are shown, and calls in replies.

An environment lists its tools as JSON schemas: in an attribute `tools`, or, where they change, in `info["tools"]`. The
reply parser reads calls with `form="tool_calls"` and gives the environment a command in the short form of
`agentgym.outside.tool_calls.write_call`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agentgym.outside.text import clean
from agentgym.outside.tool_calls import check_call, function_of, read_calls, write_call

Tools = Sequence[Mapping[str, Any]]

#: How a call is written, for prompts; the form of the chat templates of Hermes and Qwen.
CALL_FORMAT = (
    "Think first, inside <think> and </think>. Then make exactly one tool call, inside <tool_call> and </tool_call>, "
    'and stop there:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
)


class ToolReply(NamedTuple):
    """What `read_tool_reply` found.

    Attributes:
        command: the call in the short form, several in lines; "" where there is none that can be made.
        error: value of `wrappers.reply.ReplyError`.
        wrong: what is wrong in words for the model, "" for nothing.
        thought: what was written before `</think>`.
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
        require_think: whether there must be a thought.
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
    """Say whether an environment itself answers calls that do not fit its tools."""
    return bool(getattr(env.unwrapped, "checks_calls", False))


def describe_tools(tools: Iterable[Mapping[str, Any]]) -> str:
    """Return the part of a system message that lists tools, a JSON object in each line."""
    return "\n".join(["You have these tools:", *(json.dumps(dict(function_of(tool))) for tool in tools)])
