"""Reads tool calls in a model's text, in linear time, and checks them; errors are messages for the model."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: Maximum number of calls of a text, most arguments of a call, deepest nesting of arguments.
MOST_CALLS, MOST_ARGUMENTS, MOST_DEPTH = 32, 64, 20
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,127}")
_KEY = re.compile(r"\s*([A-Za-z_]\w{0,127})\s*=\s*")
_WORD = re.compile(r"[^\s,()'\"{}\[\]=]{1,200}")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_SPACE = re.compile(r"\s*")
_WORDS = {"True": True, "False": False, "None": None}
#: Python's classes of the types of a JSON schema; a truth value is no number.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip
_NO_CALL = 'no tool call: expected {"name": ..., "arguments": {...}}, that in <tool_call> tags, or name(key=value)'
_ORDER = ("boolean", "integer", "number", "string", "array", "object", "null")


class ToolCall(NamedTuple):
    """The name of a tool, and JSON arguments by name."""

    name: str
    arguments: Mapping[str, Any]


class Calls(NamedTuple):
    """The calls before the first error, and the error of the rest ("" for none)."""

    calls: tuple[ToolCall, ...]
    wrong: str


class _UnreadableError(ValueError):
    """The reason why a call cannot be read."""


def read_calls(text: str) -> Calls:
    """Return the calls of a text in the first of three forms that it has.

    `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` anywhere, any number (the last may lack its end); the
    text as one such JSON object or a list of them; lines `name(key=value, ...)` with JSON or Python values.

    >>> read_calls('<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>')
    Calls(calls=(ToolCall(name='add', arguments={'a': 1, 'b': 2}),), wrong='')
    >>> read_calls('look(where="shelf", all=True)').calls[0].arguments
    {'where': 'shelf', 'all': True}
    >>> read_calls("please look").wrong
    'no tool call: expected {"name": ..., "arguments": {...}}, that in <tool_call> tags, or name(key=value)'
    """
    calls: list[ToolCall] = []
    try:
        for found in _forms(text):
            if len(calls) == MOST_CALLS:
                raise _UnreadableError(f"more than {MOST_CALLS} calls at once")
            calls.append(found)
        if not calls:
            raise _UnreadableError(_NO_CALL)
    except _UnreadableError as error:
        return Calls(tuple(calls), str(error))
    return Calls(tuple(calls), "")


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in the short form, which `read_calls` reads."""
    return f"{name}({', '.join(f'{key}={json.dumps(value)}' for key, value in arguments.items())})"


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return name, description and parameters of a tool, written bare or as `{"type": "function", "function": ...}`.

    Raises:
        TypeError: it is not the schema of a tool.
    """
    found = tool.get("function", tool) if isinstance(tool, Mapping) else tool
    if not isinstance(found, Mapping) or not isinstance(found.get("name"), str):
        raise TypeError(f'a tool must be a JSON schema with "name" and "parameters", got {tool!r:.200}')
    return found


def check_call(call: ToolCall, tools: Iterable[Mapping[str, Any]]) -> str:
    """Return the first error of a call by the tools' JSON schemas, "" if it fits.

    It checks the name, missing and unknown arguments, and their types and enums; no `$ref`, nothing nested.

    >>> add = {"name": "add", "parameters": {"properties": {"a": {"type": "number"}}, "required": ["a"]}}
    >>> check_call(ToolCall("add", {"a": "two"}), [add])
    "add: the argument 'a' must be of type number, got a string"
    >>> check_call(ToolCall("add", {}), [add]), check_call(ToolCall("sub", {}), [add])
    ("add: the argument 'a' is missing", "there is no tool 'sub'; there are add")
    """
    known = {found["name"]: found for found in map(function_of, tools)}
    if call.name not in known:
        return f"there is no tool {call.name!r}; there are {', '.join(known)}"
    schema = known[call.name].get("parameters") or {}
    properties = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in call.arguments:
            return f"{call.name}: the argument {name!r} is missing"
    for name, value in call.arguments.items():
        if name not in properties:
            if schema.get("additionalProperties"):
                continue
            return f"{call.name}: unknown argument {name!r}; arguments are {', '.join(properties) or 'none'}"
        if wrong := _misfit(properties[name], value):
            return f"{call.name}: the argument {name!r} must be {wrong}"
    return ""


def _misfit(schema: Mapping[str, Any], value: Any) -> str:
    """Return the type or values that the schema requires, "" if the value fits."""
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        return "" if any("$ref" in each or not _misfit(each, value) for each in either) else _misfit(either[0], value)
    if "enum" in schema and value not in schema["enum"]:
        return f"one of {', '.join(json.dumps(each) for each in schema['enum'])}, got {_shown(value)}"
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    whole = isinstance(value, float) and value.is_integer() and "integer" in kinds  # 2.0 is a whole number in JSON
    fits = whole or any(
        isinstance(value, _TYPES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool)) for kind in kinds
    )
    if not kinds or fits:
        return ""
    found = next(kind for kind in _ORDER if isinstance(value, _TYPES[kind]))
    return f"of type {' or '.join(kinds)}, got {'an' if found[0] in 'aio' else 'a'} {found}"


def _forms(text: str) -> Any:
    if _OPEN in text:
        for block in text.split(_OPEN)[1:]:
            yield from _objects(block.partition(_CLOSE)[0])
        return
    written = text.strip()
    if written[:1] in ("{", "["):
        yield from _objects(written)
        return
    at = 0
    while at < len(written):
        call, at = _written(written, at)
        yield call


def _objects(text: str) -> Any:
    try:
        found = json.loads(text.strip(), object_pairs_hook=_distinct, parse_int=_integer, parse_constant=_constant)
    except _UnreadableError:
        raise
    except RecursionError:
        raise _UnreadableError(f"nested more than {MOST_DEPTH} deep") from None
    except ValueError as error:
        raise _UnreadableError(f"not JSON: {error}") from None
    for each in found if isinstance(found, list) else [found]:
        yield _checked(each)


def _checked(found: Any) -> ToolCall:
    if not isinstance(found, dict) or not isinstance(found.get("name"), str):
        raise _UnreadableError(f'a call must be an object with "name" and "arguments", got {_shown(found)}')
    extra = [key for key in found if key not in ("name", "arguments", "parameters", "id", "type")]
    if extra:
        raise _UnreadableError(f'a call has "name" and "arguments", got {extra[0]!r:.80} too')
    arguments = found.get("arguments", found.get("parameters", {}))
    if isinstance(arguments, str):  # chat endpoints write them as a JSON text
        try:
            arguments = json.loads(arguments, object_pairs_hook=_distinct, parse_int=_integer, parse_constant=_constant)
        except (ValueError, RecursionError) as error:
            words = error if isinstance(error, _UnreadableError) else f"arguments are not JSON: {error}"
            raise _UnreadableError(str(words)) from None
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise _UnreadableError(f"arguments must be an object, got {_shown(arguments)}")
    return _limited(ToolCall(found["name"], arguments))


def _limited(call: ToolCall) -> ToolCall:
    if not _NAME.fullmatch(call.name):
        raise _UnreadableError(f"{call.name!r:.80} is no name of a tool")
    if len(call.arguments) > MOST_ARGUMENTS:
        raise _UnreadableError(f"{len(call.arguments)} arguments, more than {MOST_ARGUMENTS}")
    level: list[Any] = [call.arguments]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return call
    raise _UnreadableError(f"arguments are nested more than {MOST_DEPTH} deep")


def _written(text: str, at: int) -> tuple[ToolCall, int]:
    """Read `name(key=value, ...)` at a position; return the call and the position after it."""
    name = _NAME.match(text, at)
    if name is None or text[name.end() : name.end() + 1] != "(":
        if at == 0:
            raise _UnreadableError(_NO_CALL)
        raise _UnreadableError(f"text behind a call: {text[at : at + 40]!r}")
    arguments: dict[str, Any] = {}
    at = _past(text, name.end() + 1)
    while text[at : at + 1] != ")":
        key = _KEY.match(text, at)
        if key is None:
            raise _UnreadableError(f"{name[0]}: expected key=value or the end of the call, got {text[at : at + 40]!r}")
        if key[1] in arguments:
            raise _UnreadableError(f"{name[0]}: the argument {key[1]!r} stands twice")
        arguments[key[1]], at = _value(text, key.end(), name[0])
        at = _past(text, at)
        if text[at : at + 1] == ",":
            at = _past(text, at + 1)
        elif text[at : at + 1] != ")":
            raise _UnreadableError(f"{name[0]}: expected ',' or ')', got {text[at : at + 40]!r}")
    return _limited(ToolCall(name[0], arguments)), _past(text, at + 1)


def _value(text: str, at: int, name: str) -> tuple[Any, int]:
    quoted = _QUOTED.match(text, at)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL), quoted.end()
    try:
        return _DECODER.raw_decode(text, at)
    except RecursionError:
        raise _UnreadableError(f"{name}: nested more than {MOST_DEPTH} deep") from None
    except json.JSONDecodeError:
        word = _WORD.match(text, at)
        if word is None:
            raise _UnreadableError(f"{name}: expected a value, got {text[at : at + 40]!r}") from None
        return _WORDS.get(word[0], word[0]), word.end()


def _past(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _UnreadableError(f"{twice!r:.80} stands twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) > 19:
        raise _UnreadableError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _constant(word: str) -> float:
    raise _UnreadableError(f"{word} is no number")


def _shown(value: Any) -> str:
    return f"{json.dumps(value)[:80]}"


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_int=_integer, parse_constant=_constant)
