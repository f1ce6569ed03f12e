"""Named sets of options of a credit method, and the check of what a caller gives instead or besides."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from agentgym.core import suggest
from agentgym.trajectory import Floats

#: Numbers beyond this are refused: their squares would overflow.
LARGEST = 1e100
#: Options of which a negative number has no meaning in any method.
_NOT_NEGATIVE = ("eps", "invalid_penalty")
#: Options that are a share in every method.
_SHARES = ("gamma", "lam")
OptionsT = TypeVar("OptionsT", bound=Mapping[str, object])


def choose(
    options_type: type[OptionsT], presets: Mapping[str, OptionsT], preset: str, options: Mapping[str, object]
) -> OptionsT:
    """Return the options of a preset, replaced by those given explicitly.

    Args:
        options_type: the `TypedDict` of the method; its annotations say which values are accepted.
        presets: every preset holds all options.
        preset: name of a preset.
        options: what the caller wants different.

    Raises:
        ValueError: on an unknown preset, or a value outside an option's choices or not finite.
        TypeError: on an unknown option, or a value of the wrong type.
    """
    if not isinstance(preset, str) or preset not in presets:
        raise ValueError(f"unknown preset {preset!r}; {suggest(preset, presets)}")
    kinds = _kinds(options_type)
    for name, value in options.items():
        if name not in kinds:
            raise TypeError(f"unknown option {name!r}; {suggest(name, kinds)}")
        _check(name, value, kinds[name])
    return cast(OptionsT, {**presets[preset], **options})


def finite_numbers(name: str, values: ArrayLike, length: int, unit: str = "row") -> Floats:
    """Return an argument that holds one number per row (or other unit) as float64 (length,).

    Args:
        name: of the argument, for the message of an error.
        values: what the caller gave.
        length: how many numbers are expected.
        unit: what there is one number for.

    Raises:
        ValueError: when there are more or fewer numbers, something else than numbers, or one that is not finite or is
            beyond `LARGEST`.

    >>> finite_numbers("last_values", [0, 1], 2, "trajectory")
    array([0., 1.])
    """
    expected = f"{name} must hold one finite number per {unit}, shape ({length},)"
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} ({error})") from error
    if array.shape != (length,):
        raise ValueError(f"{expected}, got shape {array.shape}")
    good = np.abs(array) <= LARGEST
    if not good.all():
        number = int(np.argmin(good))
        raise ValueError(f"{expected}; {unit} {number} has {array[number]}{_beyond(array[number])}")
    return array


def check_shares(**shares: float) -> None:
    """Raise ValueError unless the numbers given by name are in 0..1."""
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {value}")


def is_number(value: Any) -> bool:
    """Say whether a number is finite and not beyond `LARGEST`."""
    try:
        return abs(float(value)) <= LARGEST
    except OverflowError:  # an integer beyond all floats
        return False


def _beyond(value: Any) -> str:
    return f", beyond {LARGEST:g}" if abs(value) > LARGEST and value not in (np.inf, -np.inf) else ""


def _check(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        if not isinstance(value, (str, numbers.Number)) or value not in get_args(kind):
            raise ValueError(f"unknown {name} {value!r}; {suggest(value, map(str, get_args(kind)))}")
    elif kind is bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not is_number(value):
            raise ValueError(f"{name} must be finite, got {value!r:.200}{_beyond(value)}")
        if name in _NOT_NEGATIVE and value < 0:
            raise ValueError(f"{name} must be at least 0, got {value!r}")
        if name in _SHARES:
            check_shares(**{name: float(value)})
    elif kind == tuple[str, ...] and not (isinstance(value, tuple) and all(isinstance(v, str) and v for v in value)):
        raise TypeError(f"{name} must be a tuple of words, got {value!r}")


@cache
def _kinds(options_type: type) -> dict[str, Any]:
    return get_type_hints(options_type)
