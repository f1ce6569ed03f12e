"""Options of credit methods. Each is declared once: name, type, default, authors' value, range, meaning.

A method lists its options in a `TypedDict` (mypy checks calls by it):

    class GiGPOOptions(StatisticsOptions, total=False):
        gamma: Annotated[float, option(0.95, "discount of the returns compared at a state", low=0, high=1)]

Presets (`presets`), checks (`choose`), docstrings (`credit`) and the table of the page (`option_table`) follow from it.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from inspect import cleandoc, signature
from textwrap import fill
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import ANY, LARGEST, SHARE, Range, beyond, check_value, suggest
from agentgym.trajectory import Floats

#: Attribute that holds a method's declarations.
_DECLARED = "declared_options"

#: What an episode is compared with, as in the methods of these names: the mean of its whole group, or of the others.
Relative = Literal["grpo", "rloo"]
WHOLE, OTHERS = get_args(Relative)

OptionsT = TypeVar("OptionsT", bound=Mapping[str, object])
FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


@dataclass(frozen=True)
class Option:
    """Declaration of an option besides its name and type; see `option`."""

    default: Any
    meaning: str
    authors: Any
    limits: Range


class _Declared(NamedTuple):
    kind: Any
    option: Option | None


_SAME: Any = object()


def option(
    default: Any, meaning: str, *, authors: Any = _SAME, low: float | None = None, high: float | None = None,
    above: float | None = None,
) -> Option:  # fmt: skip
    """Declare an option inside `Annotated`.

    Args:
        default: value in the preset "paper".
        meaning: one or more clauses, without a full stop.
        authors: value in the preset "authors", if different.
    """
    return Option(default, meaning, default if authors is _SAME else authors, Range(low, above, high))


class PenaltyOptions(TypedDict, total=False):
    """Penalty of invalid actions."""

    invalid_penalty: Annotated[
        float, option(0.0, "subtracted for every step whose action was not valid; 0 for none", authors=0.1, low=0)
    ]
    penalty: Annotated[Literal["row", "discounted", "advantage"], option(
        "row", "what it is subtracted from: \"row\", that row's value, before any statistics (authors' code); "
        '"discounted", its reward, which affects earlier steps and the episode\'s return; "advantage", that row\'s '
        "final score, also in groups without contrast",
    )]  # fmt: skip


class WorthOptions(TypedDict, total=False):
    """Worth of an episode."""

    outcome: Annotated[Literal["return", "won"], option(
        "return", 'worth of an episode: "return", the undiscounted sum of its rewards, or "won", 0 or 1',
    )]  # fmt: skip


class OutcomeOptions(PenaltyOptions, WorthOptions, total=False):
    """Worth of an episode and penalty of invalid actions."""


class EpisodeOptions(OutcomeOptions, total=False):
    """Comparison of episodes."""

    over: Annotated[Literal["trajectories", "steps"], option(
        "trajectories", 'rows of episode-level statistics: one per trajectory ("trajectories", papers) or all "steps" '
        "(authors' code: a trajectory counts as often as it has steps)", authors="steps",
    )]  # fmt: skip
    singleton: Annotated[Literal["zero", "raw"], option(
        "zero", 'episode-level score of a group of one: "zero", or its "raw" value', authors="raw",
    )]  # fmt: skip


class StatisticsOptions(EpisodeOptions, total=False):
    """Options of every group-relative method."""

    std: Annotated[Literal["group", "batch", "none", "mean"], option(
        "group", 'divide by the standard deviation of the "group", of the whole "batch" (of the values of all groups '
        'minus their means), or "none"; or by the "mean" outcome of the group (MaxRL), for outcomes from 0 to 1',
    )]  # fmt: skip
    ddof: Annotated[Literal[0, 1], option(1, "1 sample, 0 population standard deviation")]
    eps: Annotated[float, option(1e-6, "added to the standard deviation", low=0)]


def presets(options_type: type[OptionsT], **named: Mapping[str, object]) -> dict[str, OptionsT]:
    """Return presets by name, each with all options.

    Args:
        **named: per preset the differences from the defaults, in "authors" from the declared authors' values. Default:
            "paper" and "authors" without differences.

    Raises:
        ValueError, TypeError: as `choose`.
    """
    fields = _fields(options_type)
    defaults = {name: declared.option.default for name, declared in fields.items() if declared.option}
    authors = {name: declared.option.authors for name, declared in fields.items() if declared.option}
    made: dict[str, OptionsT] = {}
    for preset, different in (named or {"paper": {}, "authors": {}}).items():
        base = {preset: cast(OptionsT, authors if preset == "authors" else defaults)}
        made[preset] = choose(options_type, base, preset, different)
    return made


def choose(
    options_type: type[OptionsT], presets: Mapping[str, OptionsT], preset: str, options: Mapping[str, object]
) -> OptionsT:
    """Return all options of a preset, overridden by those given explicitly.

    Raises:
        ValueError: on an unknown preset, or a value outside an option's choices or range, or not finite.
        TypeError: on an unknown option, or a value of the wrong type.
    """
    if not isinstance(preset, str) or preset not in presets:
        raise ValueError(f"unknown preset {preset!r}; {suggest(preset, presets)}")
    fields = _fields(options_type)
    for name, value in options.items():
        if name not in fields:
            raise TypeError(f"unknown option {name!r}; {suggest(name, fields)}")
        kind, declared = fields[name]
        check_value(name, value, kind, declared.limits if declared else ANY)
    # Convert numbers of any library to Python's: numpy has no functions for large integers and fractions.
    given = {
        name: fields[name].kind(value) if fields[name].kind in (int, float) else value
        for name, value in options.items()
    }
    return cast(OptionsT, {**presets[preset], **given})


def credit(options_type: type[OptionsT], **named: Mapping[str, object]) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator for a credit method that adds presets, checks of options and documentation.

    The method has all its parameters in its signature, `**options` last; its body gets every option. A wrong preset or
    option is refused before the body runs. Its docstring gets what all methods have in common: missing arguments,
    `Returns`, errors of options, and the list of options.

    >>> class LunchOptions(TypedDict, total=False):
    ...     salt: Annotated[float, option(0.5, "grams", low=0)]
    >>> @credit(LunchOptions, paper={}, authors={"salt": 2.0})
    ... def lunch(table, *, preset: str = "paper", **options):
    ...     return options
    >>> lunch([]), lunch([], preset="authors"), lunch([], salt=1)
    ({'salt': 0.5}, {'salt': 2.0}, {'salt': 1.0})
    """
    known = presets(options_type, **named)

    def decorate(function: FunctionT) -> FunctionT:
        method = _checked(function, options_type, known)
        method.__dict__[_DECLARED] = options_type, known
        if function.__doc__ is not None:  # python -OO
            method.__doc__ = _documentation(function.__doc__, options_type, known)
        return method

    return decorate


def options_of(method: Callable[..., object]) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator that gives a function the presets, options and checks of a credit method."""
    options_type, known = declaration(method)
    return lambda function: _checked(function, options_type, known)


def _checked(function: FunctionT, options_type: type[OptionsT], known: Mapping[str, OptionsT]) -> FunctionT:
    parameters = signature(function).parameters
    beside = [name for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD and name != "preset"]
    usual = parameters["preset"].default

    @wraps(function)
    def method(*args: Any, preset: str = usual, **given: Any) -> object:
        own = {name: given.pop(name) for name in beside if name in given}
        return function(*args, **own, preset=preset, **choose(options_type, known, preset, given))

    return cast(FunctionT, method)


_SECTIONS = ("Args", "Returns", "Raises")


def _documentation(written: str, options_type: type[OptionsT], presets: Mapping[str, OptionsT]) -> str:
    parts: dict[str, list[str]] = {"": [], **{name: [] for name in _SECTIONS}, ">>>": []}
    now = ""
    for line in cleandoc(written).splitlines():
        if line.startswith(">>>"):
            now = ">>>"
        elif line.rstrip(":") in _SECTIONS:
            now = line.rstrip(":")
            continue
        if line or now in ("", ">>>"):
            parts[now].append(line)
    arguments = parts["Args"]

    def describe(name: str, meaning: str, at: int) -> None:
        if not any(line.startswith(f"    {name}:") for line in arguments):
            arguments.insert(at, f"    {name}: {meaning}")

    *first, last = (f'"{name}"' for name in presets)
    describe("table", "N steps of finished groups.", 0)
    describe("preset", f"{', '.join(first)} or {last}." if first else f"{last}.", len(arguments))
    describe("**options", "instead of the preset's; listed below.", len(arguments))
    parts["Returns"] = parts["Returns"] or ["    float64 (N,), in the order of the table's rows."]
    parts["Raises"] = parts["Raises"] or [
        "    ValueError: on an unknown preset, an option's value out of range, an argument of another shape or not",
        "        finite, or rewards too large to be summed.",
    ]
    if not any("TypeError" in line for line in parts["Raises"]):
        parts["Raises"].append("    TypeError: on an unknown option, or a value of the wrong type.")
    options = []
    for name, declared, values in _rows(options_type, presets):
        shown = values[:1] if len(set(values)) == 1 else map(" ".join, zip(presets, values, strict=True))
        line = f"{name} ({_values(declared)}; {', '.join(shown)}): {_meaning(declared)}"
        options.append(fill(line, 116, initial_indent=" " * 4, subsequent_indent=" " * 8))
    blocks = [parts[""], *([f"{name}:", *parts[name]] for name in _SECTIONS), parts[">>>"], ["Options:", *options]]
    return "\n\n".join("\n".join(block).strip("\n") for block in blocks if block) + "\n"


def read_options(function: Callable[..., object], words: Mapping[str, str]) -> dict[str, Any]:
    """Return options of a credit method given as words (command line), checked as in a call.

    Words of a tuple are joined by "+". A function without declared options gets numbers, True and None as such, and
    text otherwise.

    Raises:
        TypeError, ValueError: as when the method is called.
    """
    declared = vars(function).get(_DECLARED)
    if declared is None:
        known = list(signature(function).parameters.values())[1:]
        names = [each.name for each in known if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        for name in words:
            if name not in names and not any(each.kind is each.VAR_KEYWORD for each in known):
                raise TypeError(f"unknown option {name!r}; {suggest(name, names)}")
        return {name: _literal(word) for name, word in words.items()}
    options_type, presets = declared
    fields = _fields(options_type)
    read = {
        name: read_word(word, fields[name].kind) if name in fields else word
        for name, word in words.items()
        if name != "preset"
    }
    preset = words.get("preset", next(iter(presets)))
    choose(options_type, presets, preset, read)
    return {"preset": preset, **read} if "preset" in words else read


def read_word(word: str, kind: Any) -> Any:
    """Return the value that a word stands for, or the word itself if it fits no value of the type."""
    if get_origin(kind) is Literal:
        return next((value for value in get_args(kind) if str(value) == word), word)
    if kind == tuple[str, ...]:
        return tuple(word.split("+"))
    if kind is bool:
        return {"true": True, "false": False}.get(word.lower(), word)
    try:
        return kind(word) if kind in (int, float) else _literal(word)
    except ValueError:
        return word


def _literal(word: str) -> Any:
    try:
        return literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def declared(function: Callable[..., object]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return the type of each option of a credit method and its preset names; None if it declares no options."""
    found = vars(function).get(_DECLARED)
    return found and ({name: field.kind for name, field in _fields(found[0]).items()}, tuple(found[1]))


def declaration(function: Callable[..., object]) -> tuple[Any, dict[str, Any]]:
    """Return the `TypedDict` of a credit method's options, and its presets."""
    found: tuple[Any, dict[str, Any]] = vars(function)[_DECLARED]
    return found


def all_options(function: Callable[..., object], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a credit method, `given` overriding the preset; without declared options `given`.

    >>> from wrappers.credit import grpo
    >>> all_options(grpo, {"preset": "authors", "penalty": "advantage"})["invalid_penalty"]
    0.1
    """
    found = vars(function).get(_DECLARED)
    if found is None:
        return dict(given)
    preset = given.get("preset", next(iter(found[1])))
    options_type, known = found
    return dict(choose(options_type, known, preset, {name: value for name, value in given.items() if name != "preset"}))


def option_table(options_type: type[OptionsT], presets: Mapping[str, OptionsT]) -> str:
    """Return the options as a Markdown table; shared ones (`StatisticsOptions`) by name below it, with other values."""
    usual, first = _fields(StatisticsOptions), next(iter(presets))
    lines = [f"| option | default{f' (`{first}`)' * (len(presets) > 1)} | meaning |", "|---|---|---|"]
    same: list[str] = []
    other: list[str] = []
    for name, declared, values in _rows(options_type, presets):
        option = declared.option
        if declared == usual.get(name) and options_type.__module__ != __name__:
            standard = [repr(option.authors if preset == "authors" else option.default) for preset in presets if option]
            (same if values == standard else other).append(
                f"`{name}`" if values == standard else f"`{name}` ({_defaults(presets, values)})"
            )
            continue
        lines.append(f"| `{name}` | {_defaults(presets, values)} | {_meaning(declared)}{_named(declared)} |")
    table = "\n".join(lines) + "\n" if len(lines) > 2 else ""
    listed = [f"As in [GRPO](grpo.md): {', '.join(same)}."] * bool(same)
    listed += [
        f"{'With other values' if same else 'As in [GRPO](grpo.md), with other values'}: {', '.join(other)}."
    ] * bool(other)
    return table + (f"\n{' '.join(listed)}\n" if listed else "")


def _named(declared: _Declared) -> str:
    values = _values(declared)
    return "" if values == "as documented" else f" Values: {values}."


def _defaults(presets: Mapping[str, Any], values: Sequence[str]) -> str:
    differing = [f"{preset} `{value}`" for preset, value in zip(presets, values, strict=True) if value != values[0]]
    return "; ".join([f"`{values[0]}`", *differing])


def finite_numbers(name: str, values: ArrayLike, length: int, unit: str = "row") -> Floats:
    """Return an argument with one finite number per `unit` as float64 (length,); `name` is used in errors.

    Raises:
        ValueError: on another length, values that are not numbers, not finite, or beyond `LARGEST`.

    >>> finite_numbers("last_values", [0, 1], 2, "trajectory")
    array([0., 1.])
    """
    expected = f"{name} must hold one finite number per {unit}, shape ({length},)"
    array = numbers_of(values, (length,), expected)
    if length and not (array.max() <= LARGEST and array.min() >= -LARGEST):
        number = int(np.argmin(np.abs(array) <= LARGEST))
        raise ValueError(f"{expected}; {unit} {number} has {array[number]}{beyond(array[number])}")
    return array


def numbers_of(values: ArrayLike, shape: tuple[int, ...], expected: str) -> Floats:
    """Return an argument as float64 of this shape, or raise a ValueError that begins with what was expected."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} ({error})") from error
    if array.shape != shape:
        raise ValueError(f"{expected}, got shape {array.shape}")
    return array


def check_shares(**shares: float) -> None:
    """Raise ValueError unless all named numbers are in 0..1."""
    for name, value in shares.items():
        check_value(name, value, float, SHARE)


def _meaning(declared: _Declared) -> str:
    meaning = declared.option.meaning if declared.option else ""
    return meaning[:1].upper() + meaning[1:] + "."


def _values(declared: _Declared) -> str:
    kind, option = declared
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    words = {bool: "True or False", int: "integer", float: "number", tuple[str, ...]: "tuple of words"}
    if kind not in words:
        return "as documented"
    return f"{words[kind]} {option.limits if option else ''}".rstrip()


def _rows(options_type: type[OptionsT], presets: Mapping[str, OptionsT]) -> list[tuple[str, _Declared, list[str]]]:
    shared = _fields(StatisticsOptions)
    written = options_type.__annotations__
    # Annotations that are kept as text know the module that wrote them.
    here = [name for name in written if getattr(written[name], "__forward_module__", "") == options_type.__module__]
    fields = sorted(_fields(options_type).items(), key=lambda field: (field[0] in shared, field[0] not in here))
    return [
        (name, declared, [repr(cast(Mapping[str, object], preset)[name]) for preset in presets.values()])
        for name, declared in fields
    ]


@cache
def _fields(options_type: type) -> dict[str, _Declared]:
    fields = {}
    for name, hint in get_type_hints(options_type, include_extras=True).items():
        kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        fields[name] = _Declared(kind, next((extra for extra in extras if isinstance(extra, Option)), None))
    return fields
