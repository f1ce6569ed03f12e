"""Named sets of options of a credit method, and the check of what a caller overrides."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from agentgym.core import suggest

#: Options of which a negative number has no meaning in any method.
_NOT_NEGATIVE = ("eps", "invalid_penalty")
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
    if preset not in presets:
        raise ValueError(f"unknown preset {preset!r}; {suggest(preset, presets)}")
    kinds = _kinds(options_type)
    for name, value in options.items():
        if name not in kinds:
            raise TypeError(f"unknown option {name!r}; {suggest(name, kinds)}")
        _check(name, value, kinds[name])
    return cast(OptionsT, {**presets[preset], **options})


def _check(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"unknown {name} {value!r}; {suggest(value, map(str, get_args(kind)))}")
    elif kind is bool:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a number, got {value!r}")
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value!r}")
        if name in _NOT_NEGATIVE and value < 0:
            raise ValueError(f"{name} must be at least 0, got {value!r}")
    elif kind == tuple[str, ...] and not (isinstance(value, tuple) and all(isinstance(v, str) and v for v in value)):
        raise TypeError(f"{name} must be a tuple of words, got {value!r}")


@cache
def _kinds(options_type: type) -> dict[str, Any]:
    return get_type_hints(options_type)
