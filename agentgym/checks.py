"""Argument checks; their errors name the expected value, the given one and the known names."""

import dataclasses
import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Collection, Iterable
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

Parameters = ParamSpec("Parameters")
ReturnT = TypeVar("ReturnT")
ClassT = TypeVar("ClassT", bound=type)

#: Numbers beyond this are refused: their squares would overflow.
LARGEST = 1e100


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


class Range(NamedTuple):
    """Range of a number, in the `Annotated` type of a field or as an argument of `check_value`; None: no limit."""

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None

    def holds(self, value: float) -> bool:
        kept = (
            self.low is None or value >= self.low,
            self.above is None or value > self.above,
            self.high is None or value <= self.high,
            self.below is None or value < self.below,
        )
        return all(kept)

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"between {self.low:g} and {self.high:g}"
        words = {"at least": self.low, "above": self.above, "at most": self.high, "below": self.below}
        return " and ".join(f"{word} {limit:g}" for word, limit in words.items() if limit is not None)


ANY, SHARE = Range(), Range(low=0, high=1)
Count = Annotated[int, Range(low=0)]
Size = Annotated[int, Range(low=1)]
Weight = Annotated[float, Range(low=0)]
Positive = Annotated[float, Range(above=0)]
Share = Annotated[float, SHARE]
_KINDS: dict[Any, tuple[Any, str]] = {
    int: (numbers.Integral, "an integer"),
    float: (numbers.Real, "a number"),
    bool: (bool, "True or False"),
    str: (str, "a text"),
}


def check_value(name: str, value: Any, kind: Any, limits: Range = ANY, *, none: str = "") -> None:
    """Check a value of a declared type: a `Literal`, a flag, a number, text or words; values of other types pass.

    Args:
        none: "None or ", for errors about an option that may be None.

    Raises:
        TypeError: it is of another type.
        ValueError: a number is not finite, beyond `LARGEST` or out of its range, or a word is none of a `Literal`.

    >>> check_value("gamma", 1.5, float, SHARE)
    Traceback (most recent call last):
    ValueError: gamma must be between 0 and 1, got 1.5
    """
    if get_origin(kind) is Literal:
        if not isinstance(value, (str, numbers.Number)) or value not in get_args(kind):
            raise ValueError(f"unknown {name} {value!r}; {suggest(value, map(str, get_args(kind)))}")
    elif kind in _KINDS:
        accepted, expected = _KINDS[kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{name} must be {none}{expected}, got {value!r}")
        if kind in (int, float) and not is_number(value):
            finite = f"finite and {limits}" if limits != ANY else "finite"
            raise ValueError(f"{name} must be {none}{finite}, got {value!r:.200}{beyond(value)}")
        if kind in (int, float) and not limits.holds(value):
            raise ValueError(f"{name} must be {none}{limits}, got {value!r}")
    elif kind == tuple[str, ...] and not (isinstance(value, tuple) and all(isinstance(v, str) and v for v in value)):
        raise TypeError(f"{name} must be {none}a tuple of words, got {value!r}")


def is_number(value: Any) -> bool:
    """Return whether a number is finite and not beyond `LARGEST`."""
    try:
        return abs(float(value)) <= LARGEST
    except OverflowError:  # an integer beyond all floats
        return False


def beyond(value: Any) -> str:
    """Return the end of an error about a number: "", or that it is beyond `LARGEST`."""
    return f", beyond {LARGEST:g}" if abs(value) > LARGEST and value not in (math.inf, -math.inf) else ""


class _Declared(NamedTuple):
    kind: Any
    limits: Range
    optional: bool


@functools.cache
def _declared(cls: Any) -> dict[str, _Declared]:
    hints, found = get_type_hints(cls, include_extras=True), {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        members = [each for each in get_args(hint) if each is not NoneType]
        optional = NoneType in get_args(hint)
        if optional and len(members) == 1:
            hint = members[0]
        kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        found[field.name] = _Declared(kind, next((each for each in extras if isinstance(each, Range)), ANY), optional)
    return found


def check_fields(config: Any) -> None:
    """Check the fields of a dataclass by their types, such as `Size`, or `Annotated[int, Range(low=3)] | None`.

    Raises:
        TypeError, ValueError: as `check_value`.

    >>> @dataclasses.dataclass
    ... class Lunch(Checked):
    ...     plates: Size = 2
    >>> Lunch(0)
    Traceback (most recent call last):
    ValueError: Lunch.plates must be at least 1, got 0
    """
    cls: Any = type(config)
    for name, (kind, limits, optional) in _declared(cls).items():
        value = getattr(config, name)
        if value is not None or not optional:
            check_value(f"{cls.__name__}.{name}", value, kind, limits, none="None or " * optional)


class Checked:
    """A dataclass that checks its fields when it is made, see `check_fields`."""

    def __post_init__(self) -> None:
        check_fields(self)
