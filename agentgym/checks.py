"""Checks of what a caller gives, and the words of their errors: what was expected, what came, what exists."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np


def suggest(given: object, known: Iterable[str]) -> str:
    """Return the tail of an error message: what exists, and the nearest name to what was given.

    >>> suggest("trian", ["test", "train"])
    "known: 'test', 'train'; did you mean 'train'?"
    """
    names = list(known)
    tail = "known: " + (", ".join(repr(name) for name in names) or "none")
    close = difflib.get_close_matches(str(given), names, n=1)
    return f"{tail}; did you mean {close[0]!r}?" if close else tail


def check_name(value: object, known: Collection[str], what: str) -> str:
    """Return a name that is known, or raise a ValueError that lists those there are."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"unknown {what} {value!r}; {suggest(value, known)}")
    return value


def check_repairs(repairs: Iterable[str] | str, known: Iterable[str]) -> frozenset[str]:
    """Return the named repairs of an original's quirks as a set; "all" among them stands for every one.

    Raises:
        ValueError: on a name that is not known.

    >>> sorted(check_repairs("all", ["look", "toggle"]))
    ['look', 'toggle']
    """
    given = (repairs,) if isinstance(repairs, str) or not isinstance(repairs, Iterable) else tuple(repairs)
    names = ("all", *known)
    for name in given:
        if name not in names:
            raise ValueError(f"unknown repair {name!r}; {suggest(name, names)}")
    return frozenset(known if "all" in given else given)


def whole(name: str, value: Any, least: int) -> int:
    """Return an argument as an int, or raise a ValueError that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def real(name: str, value: Any, least: float = -math.inf, most: float = math.inf, *, expected: str) -> float:
    """Return an argument as a finite float within bounds, or raise a ValueError that names it."""
    known = not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value)
    if not known or not least <= value <= most:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return float(value)
