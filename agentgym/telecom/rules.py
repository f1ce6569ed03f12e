"""The dynamics: a call of a tool, what follows from it on the other side, and what counts as solved."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, NamedTuple, get_type_hints

from agentgym.outside.text import tables_beside
from agentgym.outside.tool_calls import ToolCall
from agentgym.telecom import company, phone
from agentgym.telecom.state import Record, World


class Tool(NamedTuple):
    """A tool of a side, "agent" (the company's) or "user" (the phone's): a function of the world and the arguments.

    `required`, `known`: names of the arguments that a call must have, and of all; `schema`: as chat templates take it;
    `reads`: it only shows something.
    """

    name: str
    side: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    known: tuple[str, ...]
    schema: dict[str, Any]
    reads: bool


#: Texts of agents, customers and tools, and JSON schemas of arguments and of calls that are no tools of the original.
TEXTS = tables_beside(__file__, "texts.toml")
SCHEMAS = tables_beside(__file__, "schemas.json")
#: Faults, what must hold at the end, repairs, and words that the customer by rules knows.
CASES = tables_beside(__file__, "cases.toml")
_TYPES = {str: "string", int: "integer", float: "number"}


def _tool(function: Callable[..., Any], side: str) -> Tool:
    """Return a tool with the schema of its signature and texts."""
    name, hints = function.__name__, get_type_hints(function)
    words: dict[str, str] = TEXTS["tools"][name]
    parameters = list(inspect.signature(function).parameters.values())[1:]
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for each in parameters:
        if each.name in SCHEMAS["arguments"]:
            more, properties[each.name] = SCHEMAS["arguments"][each.name]
            definitions |= more
            continue
        properties[each.name] = {
            **({} if each.default is each.empty else {"default": each.default}),
            **({"description": words[each.name]} if each.name in words else {}),
            "title": each.name.replace("_", " ").title(),
            "type": _TYPES[hints[each.name]],
        }
    required = tuple(each.name for each in parameters if each.default is each.empty)
    schema = {
        **({"$defs": definitions} if definitions else {}),
        "properties": properties,
        **({"required": list(required)} if required else {}),
        "title": "parameters",
        "type": "object",
    }
    described = {
        "type": "function",
        "function": {"name": name, "description": words["description"], "parameters": schema},
    }
    reads = name.startswith(("check_", "get_", "can_", "run_"))
    return Tool(name, side, function, required, tuple(properties), described, reads)


#: All tools by name: the company's, then the phone's.
TOOLS: dict[str, Tool] = {
    function.__name__: _tool(function, side)
    for side, functions in (("agent", company.TOOLS), ("user", phone.TOOLS))
    for function in functions
}
#: Classes of the two sides in the original, which its errors name.
_CLASSES = {"agent": "TelecomTools", "user": "TelecomUserTools"}


def problem(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the original's answer to a call that fits no tool, "" if it fits one."""
    tool = TOOLS.get(name)
    if tool is None:
        return f"Error: Tool '{name}' not found."
    wrong = _wrong_arguments(tool, arguments)
    return f"Error: {_CLASSES[tool.side]}.{name}() {wrong}" if wrong else ""


def play(world: World, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Make a call without a `problem` in place and synchronise the sides; nothing raises.

    Returns the answer, to the character that of the original, and whether it is an error.
    """
    try:
        answer = TOOLS[name].function(world, **arguments)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        return f"Error: {error}", True
    synchronise(world)
    return answer if isinstance(answer, str) else _printed(answer), False


def call(world: World, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
    """Make any call, as `play` does; a `problem` is an error."""
    wrong = problem(name, arguments)
    return (wrong, True) if wrong else play(world, name, arguments)


def _wrong_arguments(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return Python's error for arguments that do not fit, "" if they fit."""
    for name in arguments:
        if name == "self":
            return "got multiple values for argument 'self'"
        if name not in tool.known:
            return f"got an unexpected keyword argument '{name}'"
    missing = [repr(name) for name in tool.required if name not in arguments]
    if not missing:
        return ""
    if len(missing) > 2:
        listed = f"{', '.join(missing[:-1])}, and {missing[-1]}"
    else:
        listed = " and ".join(missing)
    return f"missing {len(missing)} required positional argument{'s' if len(missing) > 1 else ''}: {listed}"


def _printed(answer: Any) -> str:
    """Return an answer as JSON: numbers that a tool put together are texts, those of records are numbers."""
    if isinstance(answer, Record):
        return answer.text
    if isinstance(answer, list):
        return f"[{', '.join(map(_printed, answer))}]"
    if isinstance(answer, dict):
        return f"{{{', '.join([f'{_quoted(name)}: {_printed(value)}' for name, value in answer.items()])}}}"
    return _quoted(answer if isinstance(answer, str) else str(answer))


def synchronise(world: World) -> None:
    """Pass the company's changes to the phone, and payments to the company."""
    if world.agreed:
        lines, bills, request = world.agreed
        if world.lines is lines and world.bills is bills and world.payment_request is request:
            return
    if world.phone_number is None:
        return
    if world.owner is None:
        line_id = company.line_by_phone(world, world.phone_number)["line_id"]
        world.owner = company.get_customer_by_phone(world, world.phone_number)["customer_id"], line_id
    customer_id, line_id = world.owner
    line = world.lines[line_id]
    world.line_active = line["status"] == "Active"
    world.roaming_allowed = line["roaming_enabled"]
    limit = world.plans[line["plan_id"]]["data_limit_gb"] + line["data_refueling_gb"]
    world.mobile_data_usage_exceeded = line["data_used_gb"] >= limit
    request = world.payment_request
    if request is not None and request["paid"]:
        company.change_bill(world, request["bill_id"], status="Paid")
        request = world.payment_request = None
    if request is None:
        bill = company.awaited(world, world.customers[customer_id])
        if bill is not None:
            world.payment_request = {"bill_id": bill["bill_id"], "amount_due": bill["total_due"], "paid": False}
    world.agreed = world.lines, world.bills, world.payment_request


_BEGINNINGS: dict[str, Callable[..., Any]] = {
    **phone.FAULTS,
    **{function.__name__: function for function in company.FAULTS},
}


def begin(world: World, actions: Sequence[ToolCall]) -> None:
    """Cause the faults of a task; a ValueError for an unknown one."""
    for name, arguments in actions:
        if name not in _BEGINNINGS:
            raise ValueError(f"unknown fault {name!r}; there are {', '.join(_BEGINNINGS)}")
        _BEGINNINGS[name](world, **arguments)
        synchronise(world)
    synchronise(world)


def _assert_speed(world: World, expected_speed: float, expected_desc: str | None = None) -> bool:
    found, grade = phone.speed(world)
    return (found or 0.0) >= expected_speed and expected_desc in (None, grade.lower())


def _assert_refuelled(world: World, customer_id: str, line_id: str, expected_amount: float) -> bool:
    return bool(abs(world.lines[line_id]["data_refueling_gb"] - expected_amount) < 1e-6)


#: What a task may ask of the state at its end.
ASSERTIONS: dict[str, Callable[..., bool]] = {
    "assert_can_send_mms": lambda world, expected_status: phone.mms_works(world) == expected_status,
    "assert_data_refueling_amount": _assert_refuelled,
    "assert_mobile_data_status": lambda world, expected_status: phone.data_works(world) == expected_status,
    "assert_internet_speed": _assert_speed,
    "assert_service_status": lambda world, expected_status: world.network_connection_status == expected_status,
    "assert_no_overdue_bill": lambda world, overdue_bill_id: (
        overdue_bill_id not in world.bills or world.bills[overdue_bill_id]["status"] == "Paid"
    ),
}


def solved(world: World, assertions: Sequence[ToolCall]) -> list[bool]:
    """Return for each assertion whether it holds."""
    return [ASSERTIONS[name](world, **arguments) for name, arguments in assertions]
