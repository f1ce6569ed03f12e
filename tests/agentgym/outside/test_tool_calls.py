"""Tool calls are read in three forms, in linear time, and what cannot be read is said in words."""

from agentgym.outside.tool_calls import MOST_ARGUMENTS, MOST_CALLS, Calls, ToolCall, check_call, read_calls, write_call
from tests.cases import cases
from tests.refusals import refuses

ADD = ToolCall("add", {"a": 1, "b": "x"})


@cases(
    "text",
    '{"name": "add", "arguments": {"a": 1, "b": "x"}}',
    ' [{"name": "add", "parameters": {"a": 1, "b": "x"}, "id": "c1", "type": "function"}] ',
    '{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": \\"x\\"}"}',
    'Let me add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "x"}}\n</tool_call> done',
    'add(a=1, b="x")',
    "add(a=1, b=x)",
    'add(a=1, b="x",)',
)
def test_one_call_in_every_form(text: str) -> None:
    assert read_calls(text) == Calls((ADD,), "")


def test_calls_in_order_with_their_values() -> None:
    found = read_calls("""f(a=True, b=None, c=[1, {"d": 2}], e=-1.5e3, g='it\\'s', h=null, i="")""").calls[0].arguments
    assert found == {"a": True, "b": None, "c": [1, {"d": 2}], "e": -1500.0, "g": "it's", "h": None, "i": ""}
    assert read_calls("f()\n\ng(a=1) h()").calls == (ToolCall("f", {}), ToolCall("g", {"a": 1}), ToolCall("h", {}))
    calls, wrong = read_calls('<tool_call>{"name": "f"}</tool_call><tool_call>{"name"}</tool_call>')
    assert calls == (ToolCall("f", {}),)
    assert wrong.startswith("not JSON: ")
    assert read_calls("f() and more") == Calls((ToolCall("f", {}),), "text behind a call: 'and more'")
    assert read_calls("f()" * (MOST_CALLS + 1)).wrong == f"more than {MOST_CALLS} calls at once"
    arguments = {"a": [1, "two", {"three": None}], "b": 'quo"te', "c": True, "d": -0.5}
    assert read_calls(write_call("f", arguments)).calls == (ToolCall("f", arguments),)
    refuses(TypeError, "a tool must be a JSON schema", check_call, ToolCall("f", {}), [{"function": {"title": "f"}}])


@cases(
    "text, wrong",
    ("", "no tool call"),
    ("f(1)", "f: expected key=value or the end of the call, got '1)'"),
    ("f(a=1", "f: expected ',' or ')', got ''"),
    ("f(a=1, a=2)", "f: the argument 'a' stands twice"),
    ('{"name": "f", "arguments": {"a": 1, "a": 2}}', "'a' stands twice"),
    ('{"name": "f", "arguments": [1]}', "arguments must be an object, got [1]"),
    ('{"name": 3}', 'a call must be an object with "name" and "arguments"'),
    ('{"name": "f", "argument": {}}', "got 'argument' too"),
    ('{"name": "f", "arguments": {"a": NaN}}', "NaN is no number"),
    ('{"name": "f", "arguments": {"a": ' + "9" * 30 + "}}", "a whole number of 30 digits"),
    ('{"name": "f", "arguments": {"a": ' + "[" * 25 + "]" * 25 + "}}", "nested more than 20 deep"),
    ('{"name": "f", "arguments": ' + "[" * 50_000, "nested more than 20 deep"),
    ("f(" + ", ".join(f"a{i}=1" for i in range(MOST_ARGUMENTS + 1)) + ")", f"{MOST_ARGUMENTS + 1} arguments"),
)
def test_what_cannot_be_read_is_said(text: str, wrong: str) -> None:
    found = read_calls(text)
    assert found.calls == ()
    assert wrong in found.wrong


PROPERTIES = {
    "whole": {"type": "integer"}, "mode": {"enum": ["a", "b"]}, "any": {},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "named": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "object"}]},
}  # fmt: skip
TYPED = {"type": "function", "function": {"name": "f", "parameters": {"properties": PROPERTIES}}}


@cases(
    "arguments, wrong",
    ({"whole": 1, "mode": "b", "maybe": None, "any": [1], "named": 3}, ""),
    ({"whole": 2.0}, ""),
    ({"whole": 2.5}, "f: the argument 'whole' must be of type integer, got a number"),
    ({"whole": True}, "f: the argument 'whole' must be of type integer, got a boolean"),
    ({"mode": "c"}, 'f: the argument \'mode\' must be one of "a", "b", got "c"'),
    ({"maybe": {}}, "f: the argument 'maybe' must be of type string, got an object"),
    ({"other": 1}, "f: unknown argument 'other'; arguments are whole, mode, any, maybe, named"),
)
def test_arguments_are_checked_by_the_schema(arguments: dict, wrong: str) -> None:
    assert check_call(ToolCall("f", arguments), [TYPED]) == wrong
