"""Argument checks; their errors name the expected value, the given one and the known names."""

import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

Parameters = ParamSpec("Parameters")
ReturnT = TypeVar("ReturnT")
ClassT = TypeVar("ClassT", bound=type)
#: The smallest float above 0, as the lower bound of `real`.
ABOVE_ZERO = math.ulp(0.0)


def suggest(given: object, known: Iterable[str]) -> str:
    """Return the tail of an error message: the known names and the nearest one.

    >>> suggest("trian", ["test", "train"])
    "known: 'test', 'train'; did you mean 'train'?"
    """
    names = list(known)
    tail = "known: " + (", ".join(repr(name) for name in names) or "none")
    close = nearest(given, names)
    return tail if close is None else f"{tail}; did you mean {close!r}?"


def nearest(given: object, known: Iterable[str]) -> str | None:
    """Return the known name nearest to a given one, also by its initials or one of its words; None if none is near.

    >>> names = ["learning_rate", "group_size", "groups"]
    >>> nearest("lr", names), nearest("LEARNING-RATE", names), nearest("rate", names), nearest("colour", names)
    ('learning_rate', 'learning_rate', 'learning_rate', None)
    """
    names = {name.lower(): name for name in reversed(list(known))}
    asked = str(given).lower()
    close = difflib.get_close_matches(asked, names, n=1)
    if not close:
        close = [name for name in names if asked == "".join(word[:1] for word in name.split("_")) and "_" in name]
    if not close:
        close = [name for name in names if asked in name.split("_")]
    return names[close[0]] if len(close) == 1 else None


def keywords_of(cls: type) -> list[str]:
    """Return the names of a constructor's keyword arguments, including those it passes on."""
    names: dict[str, None] = {}
    for base in cls.__mro__:
        if "__init__" in vars(base):
            parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
            names |= dict.fromkeys(each.name for each in parameters if each.kind in _NAMED)
            if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters):
                break
    return list(names)


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def keywords_checked(function: Callable[Parameters, ReturnT]) -> Callable[Parameters, ReturnT]:
    """Decorate a method so that an unknown keyword argument raises a TypeError with the known ones and the nearest.

    >>> class Shop:
    ...     @keywords_checked
    ...     def __init__(self, *, products=3, pages=1): ...
    >>> Shop(product=4)
    Traceback (most recent call last):
    TypeError: Shop: unknown argument 'product'; known: 'products', 'pages'; did you mean 'products'?
    """
    _, *parameters = inspect.signature(function).parameters.values()
    known = {each.name for each in parameters if each.kind in _NAMED}

    @functools.wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> ReturnT:
        if not kwargs.keys() <= known:
            owner: Any = args[0] if isinstance(args[0], type) else type(args[0])
            made = function.__name__ == "__init__"
            name = next(name for name in kwargs if name not in known)
            what = owner.__name__ if made else f"{owner.__name__}.{function.__name__}"
            names = keywords_of(owner) if made else [each.name for each in parameters if each.kind in _NAMED]
            raise TypeError(f"{what}: unknown argument {name!r}; {suggest(name, names)}")
        return function(*args, **kwargs)

    return checked


def fields_checked(cls: ClassT) -> ClassT:
    """Apply `keywords_checked` to the constructor of a dataclass; write it above `@dataclass`."""
    cls.__init__ = keywords_checked(cls.__init__)  # type: ignore[misc]
    return cls


def check_name(value: object, known: Collection[str], what: str) -> str:
    """Return a known name, or raise a ValueError that lists the known ones."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"unknown {what} {value!r}; {suggest(value, known)}")
    return value


def check_repairs(repairs: Iterable[str] | str, known: Iterable[str]) -> frozenset[str]:
    """Return the named repairs of an original's quirks, all for "all"; ValueError for an unknown name."""
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
