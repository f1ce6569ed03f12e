"""Every credit method of the registry, with what it takes beside the table."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import wrappers.credit
from agentgym.trajectory import Floats, StepTable
from tests.playing import filled
from wrappers.credit.options import declaration, declared
from wrappers.credit.segments import by_turn

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(wrappers.credit, name)
    for name in wrappers.credit.__all__
    if inspect.isfunction(getattr(wrappers.credit, name))
}
#: Methods with options.
METHODS: dict[str, Callable[..., Floats]] = {name: each for name, each in FUNCTIONS.items() if declared(each)}
WITH_PRESETS = [(name, preset) for name, method in METHODS.items() for preset in declaration(method)[1]]
#: Methods of branches.
BRANCHING = ("bpo", "tree_grpo", "vine")
#: Methods of scores or log-probabilities of the steps, and the arguments with one number per row.
ARGUMENTS = {
    "aem": ("advantages", "entropies"), "empg": ("advantages", "entropies"), "gae": ("values",),
    "hcapo": ("hindsight", "plain"), "hisr": ("contributions", "importance"), "igpo": ("beliefs",),
    "istar": ("scores",), "prime": ("scores", "mask"), "process_reward": ("scores",), "spa": ("contributions",),
    "rlsd": ("gaps", "mask"), "rlcsd": ("contrasts", "mask"), "sdpo": ("gates",), "turn_credit": ("given",),
}  # fmt: skip
NOT_NEGATIVE = {"beliefs", "entropies", "importance"}
EMPTY = StepTable.from_arrays(group=[], trajectory=[], t=[], state=[], action=[], next_state=[], reward=[], won=[])
ONE = filled(trajectory=[0], state=["s"], next_state=["goal"], reward=[3.0], won=[True])


def beside(name: str, table: StepTable, rows: Any = None, n: int | None = None) -> dict[str, Any]:
    """Arguments of a method for a table whose rows are these of n rows; the same numbers for the same row."""
    rows = np.arange(len(table)) if rows is None else rows
    rng, n = np.random.default_rng(7), len(table) if n is None else n
    wanted = [each for each in ARGUMENTS.get(name, ()) if each != "advantages"]  # by default GRPO's
    shape = (n, 3) if "mask" in wanted else (n,)
    drawn: dict[str, Any] = {}
    for each in wanted:
        if each == "mask":
            drawn[each] = np.arange(3) < rng.integers(1, 4, (n, 1))
        elif each in ("hindsight", "plain"):  # log-probabilities
            drawn[each] = -3 * rng.random(n)
        else:
            drawn[each] = rng.random(n) if each in NOT_NEGATIVE else rng.normal(size=shape)
    given = {each: column[rows] for each, column in drawn.items()}
    return given | {"segments": by_turn(table) // 2} if name == "hisr" else given


def with_inputs(name: str, preset: str) -> Callable[..., Any]:
    """Return the method as a function of the table and its options."""
    return lambda table, **options: METHODS[name](table, preset=preset, **beside(name, table), **options)
