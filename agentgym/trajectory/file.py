"""Trajectories as JSON lines, checked line by line.

A line is an object with `group`, `trajectory`, `won`, `terminated`, `truncated`, `steps` and `parent` (null or
`[trajectory, t]`); a step has `t`, `state`, `action`, `next_state`, `reward`, `valid` and `reply` (null, or an object
with the fields of `agentgym.trajectory.Reply`), and `reward_components` (numbers by name) where it earned some. Ids are
strings, numbers or null. Older files lack `parent`, `finish`, `version` and `allowed`.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from agentgym.outside.files import new_file
from agentgym.outside.text import DataError, packed, read_json_lines

#: Larger rewards are refused: their sums and squares overflow.
MOST_REWARD: Final = 1e300


def line_of(trajectory: Any) -> dict[str, Any]:
    """Return the fields of a `Trajectory`; a step without reward components has no such field."""
    line = dataclasses.asdict(trajectory)
    for step in line["steps"]:
        if step["reward_components"] is None:
            del step["reward_components"]
    return line


def write_lines(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file atomically, compressed if its name ends in .xz, .gz or .bz2."""
    with new_file(Path(path)) as file, packed(Path(path), file) as stream:
        for row in rows:
            # ASCII only: half a surrogate pair is no UTF-8.
            stream.write(json.dumps(row, default=np.generic.item, allow_nan=False).encode() + b"\n")


def read_columns(path: str | Path) -> tuple[dict[str, list[Any]], dict[Any, tuple[Any, int]], list[int]]:
    """Read a file; return columns (replies as dicts or None), parents, and the line number of each trajectory."""
    columns: dict[str, list[Any]] = {name: [] for name in (*_TRAJECTORY, *_STEP, "replies")}
    del columns["steps"], columns["reply"], columns["parent"]
    parent, lines = {}, []
    for number, line in read_lines(path):
        steps = line["steps"]
        lines.append(number)
        if line["parent"] is not None:
            parent[line["trajectory"]] = tuple(line["parent"])
        for name in ("group", "trajectory", "won"):
            columns[name] += [line[name]] * len(steps)
        for name in ("terminated", "truncated"):
            columns[name] += [False] * (len(steps) - 1) + [line[name]]
        for name in _STEP.keys() - {"reply"}:
            columns[name] += [step.get(name) for step in steps]
        for step in steps:
            reply = step["reply"]
            columns["replies"].append(
                reply and {name: _tuples(value) if type(value) is list else value for name, value in reply.items()}
            )
    return columns, parent, lines


def _tuples(value: list[Any]) -> tuple[Any, ...]:
    return tuple([tuple(each) if type(each) is list else each for each in value])


def read_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and checked dict of every trajectory in a file.

    Raises an OSError, or a DataError with file, line and place at the first malformed line or repeated trajectory id.
    """
    seen: dict[Any, int] = {}
    for number, line in read_json_lines(Path(path)):
        try:
            line = {"parent": None, **line} if type(line) is dict else line  # missing in earlier files
            _check(line, _TRAJECTORY, "")
            _check_steps(line)
            name = line["trajectory"]
            if seen.setdefault(name, number) != number:
                raise DataError(f"trajectory {name!r:.80} was in line {seen[name]} already")
        except DataError as error:
            raise DataError(f"{path}, line {number}: not a trajectory written by to_jsonl: {error}") from None
        yield number, line


def _check_steps(line: dict[str, Any]) -> None:
    steps = line["steps"]
    if not steps:
        raise DataError("no steps")
    before = -math.inf
    for k, step in enumerate(steps):
        _check({"reward_components": None, **step} if type(step) is dict else step, _STEP, f"steps[{k}]")
        if step["t"] <= before:
            raise DataError(f"steps[{k}].t must be more than {before}, the one before, got {step['t']}")
        before = step["t"]
        reply = step["reply"]
        if reply is None:
            continue
        _check({**_EARLIER, **reply}, _REPLY, f"steps[{k}].reply")
        if reply.get("allowed") and len(reply["allowed"]) != len(reply["token_ids"]):
            raise DataError(f"steps[{k}].reply has {len(reply['token_ids'])} token_ids, allowed {reply['allowed']}")
        if len(reply["logprobs"]) != len(reply["token_ids"]):
            raise DataError(
                f"steps[{k}].reply has {len(reply['token_ids'])} token_ids and {len(reply['logprobs'])} logprobs"
            )


def _check(value: Any, fields: Mapping[str, tuple[str, Callable[[Any], bool]]], where: str) -> None:
    """Raise a DataError unless a value is an object with exactly these fields and types."""
    if type(value) is not dict:
        raise DataError(f"{where or 'the line'} must be an object, got {value!r:.80}")
    if value.keys() != fields.keys():
        missing, unknown = fields.keys() - value.keys(), value.keys() - fields.keys()
        which = f"no {min(missing)!r}" if missing else f"an unknown {min(unknown)!r:.80}"
        raise DataError(f"{where or 'the line'} has {which}; expected {', '.join(fields)}")
    for name, (expected, fits) in fields.items():
        if not fits(value[name]):
            field = f"{where}.{name}" if where else name
            raise DataError(f"{field} must be {expected}, got {value[name]!r:.80}")


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _is_parent(value: Any) -> bool:
    pair = type(value) is list and len(value) == 2
    return value is None or (pair and _is_id(value[0]) and type(value[1]) is int)


def _is_reward(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MOST_REWARD


def _are_integers(value: Any) -> bool:
    return type(value) is list and set(map(type, value)) <= {int}


_FINISHES = ("", "stop", "length", "prompt-too-long")
_ID = "a string, a number or null", _is_id
_FLAG = "true or false", lambda value: type(value) is bool
_INTEGER = "an integer", lambda value: type(value) is int
_TRAJECTORY: Final = {
    "group": _ID,
    "trajectory": _ID,
    "won": _FLAG,
    "terminated": _FLAG,
    "truncated": _FLAG,
    "parent": ("null or [trajectory, t]", _is_parent),
    "steps": ("a list", lambda value: type(value) is list),
}
_STEP: Final = {
    "t": _INTEGER,
    "state": _ID,
    "action": _ID,
    "next_state": _ID,
    "reward": (f"a number within {MOST_REWARD:g}", _is_reward),
    "valid": _FLAG,
    "reply": ("an object or null", lambda value: value is None or type(value) is dict),
    "reward_components": (
        "an object of numbers or null",
        lambda value: value is None or (type(value) is dict and all(map(_is_reward, value.values()))),
    ),
}
_REPLY: Final = {
    "text": ("a string", lambda value: type(value) is str),
    "prompt_ids": ("a list of integers", _are_integers),
    "token_ids": ("a list of integers", _are_integers),
    "logprobs": ("a list of numbers", lambda value: type(value) is list and set(map(type, value)) <= {int, float}),
    "finish": ("'', 'stop', 'length' or 'prompt-too-long'", lambda value: value in _FINISHES),
    "version": _INTEGER,
    "allowed": ("a list of lists of integers", lambda value: type(value) is list and all(map(_are_integers, value))),
}
#: Values of fields that older files lack.
_EARLIER: Final[dict[str, Any]] = {"finish": "", "version": 0, "allowed": []}
