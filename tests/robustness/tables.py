"""Trials of tables: any rows, every credit method; and that time and memory grow as the rows do."""

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentgym.trajectory import StepTable
from tests.growth import MOST_GROWTH, growth, seconds
from tests.robustness.trial import Trial, record
from tests.wrappers.credit.hard_tables import ATTRIBUTING, BRANCHING, CREDIT, REWARDS

METHODS = {**{name: CREDIT[name] for name in CREDIT if name not in REWARDS}, **BRANCHING}
REWARDS = {
    "usual": lambda rng, n: rng.choice([0.0, 1.0, -0.1], n),
    "zero": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.choice([1e300, -1e300, 1e299], n),
    "tiny": lambda rng, n: rng.choice([1e-300, -1e-300, 5e-324], n),
    "mixed": lambda rng, n: 10.0 ** rng.uniform(-300, 300, n),
}
Columns = dict[str, Any]


def chains(rng: np.random.Generator, n: int) -> Columns:
    """Two trajectories that never meet a state again."""
    return columns(np.arange(n) * 2 // n, np.zeros(n, int), np.arange(n), np.arange(n) + 1)


def stars(rng: np.random.Generator, n: int) -> Columns:
    """Trajectories of one step out of the same state."""
    return columns(np.arange(n), np.zeros(n, int), np.zeros(n, int), np.arange(n) + 1)


def loops(rng: np.random.Generator, n: int) -> Columns:
    """To and fro between two states."""
    return columns(np.arange(n) * 4 // n, np.zeros(n, int), np.arange(n) % 2, (np.arange(n) + 1) % 2)


def still(rng: np.random.Generator, n: int) -> Columns:
    """One state that leads to itself."""
    return columns(np.arange(n) * 3 // n, np.zeros(n, int), np.zeros(n, int), np.zeros(n, int))


def crowds(rng: np.random.Generator, n: int) -> Columns:
    """A group for every trajectory of ten steps, and states at random."""
    walk = rng.integers(0, max(n // 4, 2), n + 1)
    return columns(np.arange(n) // 10, np.arange(n) // 10, walk[:-1], walk[1:])


def tangles(rng: np.random.Generator, n: int) -> Columns:
    """Few states, all connected with each other, in two groups."""
    walk = rng.integers(0, 40, n + 1)
    trajectory = np.arange(n) // 50
    return columns(trajectory, trajectory % 2, walk[:-1], walk[1:])


def meetings(rng: np.random.Generator, n: int) -> Columns:
    """Long chains that all come through one state."""
    step = np.arange(n) % 100
    state = np.where(step == 50, -1, np.arange(n))
    after = np.where(step == 49, -1, np.arange(n) + 1)
    return columns(np.arange(n) // 100, np.zeros(n, int), state, after)


KINDS = {kind.__name__: kind for kind in (chains, stars, loops, still, crowds, tangles, meetings)}


def columns(trajectory: Any, group: Any, state: Any, after: Any) -> Columns:
    return {"trajectory": trajectory, "group": group, "state": state, "next_state": after}


def made(kind: str, rewards: str, n: int, seed: int, texts: bool) -> StepTable:
    """Build a table of n rows."""
    rng = np.random.default_rng(seed)
    given = KINDS[kind](rng, n)
    count = int(given["trajectory"].max()) + 1
    won = rng.random(count) < 0.5
    ends = np.append(given["trajectory"][1:] != given["trajectory"][:-1], True)
    given["next_state"] = np.where(ends & won[given["trajectory"]], -2, given["next_state"])
    if texts:
        given["state"], given["next_state"] = ([f"state {i}" for i in given[name]] for name in ("state", "next_state"))
    return StepTable.from_arrays(
        **given, t=np.arange(n), action=rng.integers(0, 4, n), reward=REWARDS[rewards](rng, n),
        won=won[given["trajectory"]], valid=rng.random(n) < 0.9,
    )  # fmt: skip


def check_credit(given: dict[str, Any]) -> None:
    """A method gives every row a number, or nan for "not scored"; or says which numbers are beyond it."""
    table = made(given["kind"], given["rewards"], given["rows"], given["seed"], given["texts"])
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


def check_time(given: dict[str, Any]) -> None:
    """Eight times the rows take less than twenty times the processor's time."""

    def work(rows: int) -> None:
        METHODS[given["method"]](made(given["kind"], "usual", rows, 0, False))

    work(100)
    assert growth(work, given["rows"], 8 * given["rows"]) < MOST_GROWTH


def check_file(given: dict[str, Any]) -> None:
    """Eight times the rows take less than twenty times the time, and ten times the memory, to write and read."""

    def spent(rows: int) -> tuple[float, int]:
        table = made(given["kind"], "usual", rows, 0, True)
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


def check_million(given: dict[str, Any]) -> None:
    """A million rows, and an eighth of them: time of the table and of one method."""

    def work(rows: int) -> Callable[[], object]:
        return lambda: METHODS[given["method"]](made(given["kind"], "usual", rows, 0, given["texts"]))

    short = seconds(work(125_000), 3)
    long = seconds(work(1_000_000), 2)
    # What fits into the processor's cache at an eighth of the length does not at the whole one.
    assert long < MOST_GROWTH * max(short, 0.1), (short, long)


_kinds, _methods = st.sampled_from(list(KINDS)), st.sampled_from(list(METHODS))
_linear = st.sampled_from([name for name in METHODS if name not in ATTRIBUTING])
TRIALS = [
    Trial(
        "tables/credit",
        record(
            kind=_kinds,
            rewards=st.sampled_from(list(REWARDS)),
            rows=st.integers(4, 60),
            seed=st.integers(0, 999),
            texts=st.booleans(),
            method=_methods,
        ),
        check_credit,
        150,
    ),
    Trial(
        "tables/time",
        record(kind=_kinds, rows=st.sampled_from([2_000, 4_000]), method=_linear),
        check_time,
        25,
        cheap=False,
        long=True,
    ),
    Trial(
        "tables/file", record(kind=_kinds, rows=st.sampled_from([500, 2_000])), check_file, 3, cheap=False, long=True
    ),
    Trial(
        "tables/million",
        record(kind=_kinds, method=_linear, texts=st.booleans()),
        check_million,
        2,
        cheap=False,
        long=True,
    ),
]
