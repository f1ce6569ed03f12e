"""Strict reading of what foreign environments return: flags are bools, 0 or 1, numbers are finite."""

import math
import numbers
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentgym.core import Info

_STEP = "(observation, reward, terminated, truncated, info)"
#: The error of Gymnasium wrappers for a step with another number of values.
_UNPACKED = re.compile(r"(values to unpack|unpack).*\(expected 5|expected 5, got")


@contextmanager
def asking(what: str, where: str) -> Iterator[None]:
    """Add the call ("reset" or "step") and the sub-environment to an exception of an environment."""
    try:
        yield
    except Exception as error:
        if what == "step" and type(error) is ValueError and _UNPACKED.search(str(error)):
            raise ValueError(f"{where}: {error}. {_wanted_of_step()}") from error
        error.add_note(f"raised by {what} of {where}")
        raise


def read_reset(answer: Any, where: str) -> tuple[Any, Info]:
    """Return observation and info of a reset; TypeError or ValueError if they are malformed."""
    if not isinstance(answer, (tuple, list)):
        raise TypeError(
            f"{where}: reset must return (observation, info), got {_shown(answer)}; info may be empty: {{}}"
        )
    if len(answer) != 2:
        raise ValueError(f"{where}: reset must return (observation, info), got {len(answer)} values")
    return answer[0], _info(answer[1], "reset", where)


def read_step(answer: Any, where: str) -> tuple[Any, float, bool, bool, Info]:
    """Return the values of a step with plain flags and reward; errors are those of `flag` and `number`."""
    if not isinstance(answer, (tuple, list)):
        raise TypeError(f"{where}: got {_shown(answer)}. {_wanted_of_step()}")
    if len(answer) != 5:
        raise ValueError(f"{where}: got {len(answer)} values. {_wanted_of_step()}")
    observation, reward, terminated, truncated, info = answer
    return (
        observation,
        number(reward, "reward", where),
        flag(terminated, "terminated", where),
        flag(truncated, "truncated", where),
        _info(info, "step", where),
    )


def flag(value: Any, name: str, where: str) -> bool:
    """Return a flag (a bool, 0 or 1, of Python or numpy) as a bool; else a TypeError or ValueError."""
    return bool(_real(value, (0, 1).__contains__, name, where, "a bool (or 0 or 1)"))


def number(value: Any, name: str, where: str) -> float:
    """Return a finite number, of Python or numpy, as a float; else a TypeError or ValueError."""
    return float(_real(value, math.isfinite, name, where, "a finite number"))


def _real(value: Any, fits: Callable[[Any], bool], name: str, where: str, expected: str) -> Any:
    single = getattr(value, "size", None) == 1 and hasattr(value, "item")
    plain = value.item() if single else value
    if not isinstance(plain, numbers.Real):
        raise TypeError(f"{where}: {name} must be {expected}, got {_shown(value)}")
    if not fits(plain):
        raise ValueError(f"{where}: {name} must be {expected}, got {_shown(value)}")
    return plain


def _info(info: Any, what: str, where: str) -> Info:
    if not isinstance(info, Mapping):
        raise TypeError(f"{where}: the info that {what} returns must be a dict, got {_shown(info)}; it may be {{}}")
    return dict(info)


def _wanted_of_step() -> str:
    return (
        f"step must return {_STEP}: the four values (observation, reward, done, info) are those of the old gym, in "
        "which `done` says both that the task is over (terminated) and that a limit cut it off (truncated)"
    )


def _shown(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} ({value!r:.120})"
