"""Time to give credit to 16 groups x 8 episodes x 50 steps, per method and the way published code does it."""

from __future__ import annotations

import functools
import time

from benchmarks.throughput.credit_peers import dict_gigpo
from benchmarks.throughput.peers import sweeping_propagation
from benchmarks.throughput.synthetic_rollouts import FreshTexts, random_walk_table
from benchmarks.throughput.timing import Measurement, best_milliseconds

SHAPE = (16, 8, 50)
#: Four times as many rows: what is scanned for every row costs sixteen times as much.
LARGER = (32, 16, 50)
#: Sweeps that published code makes over every graph, converged or not.
SWEEPS = 1000


def measure_credit(quick: bool) -> list[Measurement]:
    """Processor milliseconds to score a table, per method, and of plain Python for two of them."""
    from baselines.recipes import RECIPES

    table = random_walk_table(0, *SHAPE)
    shape = _words(SHAPE)
    found = []
    for name, recipe in RECIPES.items():
        spent = best_milliseconds(functools.partial(recipe, table), 5 if quick else 20)
        found.append(Measurement(f"credit_{name}", "credit", f"{name}, {shape}", True, spent, "ms"))
    begin = time.process_time()
    sweeping_propagation(table, sweeps=SWEEPS)
    what = f"{SWEEPS:,} sweeps over a dict graph, {shape}"
    found.append(Measurement("credit_sweeps", "credit", what, False, _since(begin), "ms"))
    for key, size in [("credit_dicts", SHAPE)] if quick else [("credit_dicts", SHAPE), ("credit_dicts_larger", LARGER)]:
        columns = FreshTexts(*size).columns()
        begin = time.process_time()
        dict_gigpo(columns)
        what = f"gigpo from texts, scanning all rows for every row, {_words(size)}"
        found.append(Measurement(key, "credit", what, False, _since(begin), "ms"))
    return found


def _words(shape: tuple[int, int, int]) -> str:
    return f"{' x '.join(map(str, shape))} steps"


def _since(begin: float) -> float:
    return (time.process_time() - begin) * 1e3
