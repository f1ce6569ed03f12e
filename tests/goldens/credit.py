"""Goldens of credit: every method with every preset, and every choice that an option has, on fixed tables."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from agentgym.trajectory import StepTable
from tests.goldens.records import Golden
from tests.wrappers.credit.every_method import FORKED, SHAPES
from tests.wrappers.credit.small_tables import random_table, random_trees
from wrappers import credit
from wrappers.credit.options import declared
from wrappers.credit.segments import by_count


@functools.cache
def tables() -> dict[str, StepTable]:
    """The tables: invalid steps, looks and loops in most of them; wins, defeats and limits; forks in the last three."""
    return {
        "usual": random_table(13, groups=3, size=4, steps=8, win=0.6),
        "many won": random_table(10, groups=2, size=6, win=0.9, goals=3),
        "none won": random_table(3, groups=2, size=4, steps=6, win=0.0),
        "clean": random_table(0, groups=2, size=5, steps=8, win=0.6, clean=True),
        "alone": random_table(5, groups=3, size=1, steps=6),
        "paid": paid(random_table(4, groups=2, size=4, steps=8, win=0.6)),
        "loops": SHAPES["one group"](120),
        "forked": random_trees(1, groups=2, size=3, steps=6, branches=6, win=0.5),
        "forked, won": random_trees(2, groups=2, size=3, steps=6, branches=8, win=0.7),
        "comb": FORKED["comb"](24),
    }


def paid(table: StepTable) -> StepTable:
    """The table with a reward at every step."""
    names = [table.trajectories[i] for i in table.trajectory]
    rng = np.random.default_rng(0)
    return StepTable.from_arrays(
        group=table.group, trajectory=names, t=table.t, state=table.state, action=table.action,
        next_state=table.next_state, reward=table.reward + rng.choice([0.0, -0.1, 0.25], len(table)),
        valid=table.valid, won=table.won,
    )  # fmt: skip


def inputs(table: StepTable, tokens: bool = False) -> dict[str, Any]:
    """What methods are given besides a table, by the name of the argument."""
    rng, n = np.random.default_rng(11), len(table)
    scores = rng.normal(size=(n, 3)) if tokens else rng.normal(size=n)
    of_tokens, of_steps = np.random.default_rng(12).normal(size=(n, 3)), np.random.default_rng(13).uniform(size=n)
    return {
        "gaps": of_tokens, "contrasts": of_tokens, "given": of_steps, "gates": of_steps,
        "scores": scores, "mask": np.arange(3) < rng.integers(1, 4, (n, 1)), "values": rng.uniform(size=n),
        "last_values": rng.uniform(size=table.n_trajectories), "beliefs": rng.uniform(size=n),
        "entropies": rng.uniform(0, 2, n), "hindsight": -rng.exponential(size=n), "plain": -rng.exponential(size=n),
        "contributions": rng.normal(size=n), "importance": rng.uniform(0.5, 1.5, n),
        "segments": None if table.has_forks else by_count(table, 3),
    }  # fmt: skip


#: Optional arguments that are given all the same, since a table without replies has nothing in their place.
_WANTED = {"entropies", "mask", "plain"}


def given(method: Callable[..., Any], table: StepTable) -> dict[str, Any]:
    parameters = inspect.signature(method).parameters
    all_inputs = inputs(table, tokens="mask" in parameters)
    return {
        name: all_inputs[name]
        for name, parameter in parameters.items()
        if name in all_inputs and (parameter.default is parameter.empty or name in _WANTED)
    }  # fmt: skip


def answer(method: Callable[..., Any], table: StepTable, options: dict[str, Any]) -> Any:
    """Return advantages, or what is refused: by the name of the exception, for its words may change."""
    arguments = given(method, table)
    try:
        return method(table, **arguments, **options)
    except (ValueError, TypeError) as error:
        return type(error).__name__


def presets(method: Callable[..., Any]) -> list[str]:
    found = declared(method)
    return list(found[1]) if found else []


def choices(method: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Every value of every option that has a list of them."""
    keywords = inspect.signature(method).parameters.get("options")
    if keywords is None:
        return
    for name, hint in sorted(get_type_hints(get_args(get_type_hints(inspect.unwrap(method))["options"])[0]).items()):
        for kind in (hint, *get_args(hint)):
            if get_origin(kind) is Literal:
                yield from ({name: value} for value in get_args(kind))
            elif kind is bool:
                yield from ({name: value} for value in (False, True))
            elif kind is float and name in ("gamma", "omega", "lam", "alpha", "invalid_penalty"):
                yield {name: 0.5}


def method_record(name: str) -> dict[str, Any]:
    method = getattr(credit, name)
    record: dict[str, Any] = {}
    for preset in presets(method) or [""]:
        for title, table in tables().items():
            record[f"{preset or 'plain'}, {title}"] = answer(method, table, {"preset": preset} if preset else {})
    for options in choices(method):
        ((option, value),) = options.items()
        for title in ("usual", "forked"):
            record[f"{option}={value}, {title}"] = answer(method, tables()[title], options)
    return record


def token_record(name: str) -> dict[str, Any]:
    """Of methods that take arrays of tokens."""
    rng = np.random.default_rng(2)
    rewards, values = rng.choice([0.0, 1.0], (5, 7)), rng.uniform(size=(5, 7))
    lengths = np.array([[7], [5], [3], [1], [6]])
    mask = np.arange(7) < lengths
    ends = (np.arange(7) == lengths - 1) | ((np.arange(7) == 2) & mask)
    method: Any = getattr(credit, name)
    if name == "importance":
        return {"plain": method(-rng.exponential(size=(5, 7)), -rng.exponential(size=(5, 7)), mask)}
    if name == "fill_silent":
        first = np.where(rng.random(12) < 0.5, 0.0, rng.normal(size=12))
        return {"plain": method(first, rng.normal(size=12)), "half": method(first, rng.normal(size=12), 0.5)}
    arguments = [rewards * ends, values, mask] + ([ends] if "turn_ends" in inspect.signature(method).parameters else [])
    return {
        "plain": method(*arguments),
        "discounted": method(*arguments, gamma=0.9, lam=0.8),
        **({"cut off": method(*arguments, last_values=rng.uniform(size=5))} if name != "vetta" else {}),
    }


_FUNCTIONS = [name for name in credit.__all__ if not inspect.isclass(getattr(credit, name))]
_OF_TABLES = [name for name in _FUNCTIONS if "table" in inspect.signature(getattr(credit, name)).parameters]
GOLDENS = [
    Golden(f"credit/{name}", functools.partial(method_record if name in _OF_TABLES else token_record, name))
    for name in _FUNCTIONS
]
