"""Trials of tables: any rows and rewards, every credit method; and a file of a table, in time and memory.

Time and memory of credit are those of `growing` and of `tests/wrappers/credit/test_scale.py`.
"""

import dataclasses
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.growth import MOST_GROWTH, seconds
from tests.robustness.trial import Trial, record
from tests.wrappers.credit.every_method import BRANCHING, CREDIT, REWARDS, SHAPES
from tests.wrappers.credit.small_tables import random_table

METHODS = {**{name: CREDIT[name] for name in CREDIT if name not in REWARDS}, **BRANCHING}
PAID: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "usual": lambda rng, n: rng.choice([0.0, 1.0, -0.1], n),
    "zero": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.choice([1e300, -1e300, 1e299], n),
    "tiny": lambda rng, n: rng.choice([1e-300, -1e-300, 5e-324], n),
    "mixed": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n),
}


def made(kind: str, rewards: str, n: int, seed: int) -> StepTable:
    """Build a table of about n rows: one of `SHAPES`, or walks in so many groups as `kind` says."""
    if kind in SHAPES:
        table = SHAPES[kind](n)
    else:
        groups, size, states = map(int, kind.split())
        table = random_table(seed, groups=groups, size=size, steps=max(n // (groups * size), 1), states=states)
    return dataclasses.replace(table, reward=PAID[rewards](np.random.default_rng(seed), len(table)))


def check_credit(given: dict[str, Any]) -> None:
    """A method gives every row a number, or nan for "not scored"; or says which numbers are beyond it."""
    table = made(given["kind"], given["rewards"], given["rows"], given["seed"])
    method = METHODS[given["method"]]
    before = table.reward.copy()
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        try:
            advantages = method(table)
        except ValueError as refused:
            if given["rewards"] not in ("huge", "mixed", "tiny") or not 10 < len(str(refused)) < 1_000:
                raise
            return
    assert advantages.dtype == np.float64
    per_token = given["method"].startswith(("prime", "rlsd", "rlcsd"))
    assert advantages.shape == ((len(table), 3) if per_token else (len(table),))
    assert not np.isinf(advantages).any()
    assert np.array_equal(table.reward, before)
    assert np.array_equal(method(table), advantages, equal_nan=True)


def check_file(given: dict[str, Any]) -> None:
    """Eight times the rows take less than twenty times the time, and ten times the memory, to write and read."""

    def spent(rows: int) -> tuple[float, int]:
        table = SHAPES[given["kind"]](rows)
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "x.jsonl"
            time_taken = seconds(lambda: table.to_jsonl(path), 1) + seconds(lambda: StepTable.from_jsonl(path), 2)
            tracemalloc.start()
            try:
                assert len(StepTable.from_jsonl(path)) == rows
                return time_taken, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    (short, little), (long, much) = spent(given["rows"]), spent(8 * given["rows"])
    assert long < MOST_GROWTH * max(short, 0.01), (short, long)
    assert much < 10 * max(little, 1 << 20), (little, much)


_credited = record(
    kind=st.sampled_from([*SHAPES, "1 4 3", "2 3 8", "6 1 4", "3 2 40"]), rewards=st.sampled_from(list(PAID)),
    rows=st.integers(4, 60), seed=st.integers(0, 999), method=st.sampled_from(list(METHODS)),
)  # fmt: skip
_written = record(kind=st.sampled_from(list(SHAPES)), rows=st.sampled_from([500, 2_000]))
TRIALS = [
    Trial("tables/credit", _credited, check_credit, 150),
    Trial("tables/file", _written, check_file, 3, cheap=False, long=True),
]
