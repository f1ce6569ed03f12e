"""Time to give credit: per method, the way published code does it, and over the size of a batch.

The time from texts to advantages has to grow as the number of rows does.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.trajectory import Reply, StepTable
from benchmarks.throughput.credit_peers import dict_gigpo, sweeping_propagation
from benchmarks.throughput.synthetic_rollouts import FreshTexts, random_walk_table
from benchmarks.throughput.timing import Measurement, best_milliseconds

SHAPE = (16, 8, 50)
#: Four times as many rows: what is scanned for every row costs sixteen times as much.
LARGER = (32, 16, 50)
#: Sweeps that published code makes over every graph, converged or not.
SWEEPS = 1000
#: Groups, episodes per group, steps per episode.
SIZES = ((8, 4, 50), (16, 8, 50), (32, 16, 50), (64, 16, 50), (256, 5, 4))
QUICK_SIZES = ((8, 4, 50), (16, 8, 50), (256, 5, 4))
METHODS = ("grpo", "gigpo", "hgpo", "rewardflow", "graphgpo")


def measure_credit(quick: bool) -> list[Measurement]:
    """Processor milliseconds to score a table, per method, and of plain Python for two of them."""
    from baselines.recipes import RECIPES

    table = random_walk_table(0, *SHAPE)
    drawn = np.log(np.random.default_rng(0).uniform(0.1, 1.0, len(table))).tolist()
    replies = [Reply("", token_ids=(0,), logprobs=(logprob,)) for logprob in drawn]  # some methods look at them
    table = dataclasses.replace(table, replies=np.fromiter(replies, np.object_, len(table)))
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


@dataclass(frozen=True)
class SizeTimes:
    """Processor milliseconds at one size.

    Attributes:
        groups, size, length: shape of the batch.
        rows: number of steps.
        interning: from columns of fresh texts to a table; next states are the objects of the following states.
        interning_apart: the same with every text an object of its own.
        alone: per method, from a table to advantages.
        whole: per method, from columns of fresh texts to advantages.
    """

    groups: int
    size: int
    length: int
    rows: int
    interning: float
    interning_apart: float
    alone: dict[str, float]
    whole: dict[str, float]

    @property
    def shape(self) -> str:
        """Name of the size.

        >>> SizeTimes(8, 4, 50, 1600, 1.0, 1.0, {}, {}).shape
        '8 x 4 x 50'
        """
        return f"{self.groups} x {self.size} x {self.length}"


def measure_sizes(quick: bool, sizes: Sequence[tuple[int, int, int]]) -> list[SizeTimes]:
    """Measure interning and the methods with their papers' options.

    Args:
        quick: fewer repetitions.
        sizes: groups, episodes per group, steps per episode.
    """
    return [_measure(FreshTexts(*shape), shape, 3 if quick else 12) for shape in sizes]


def _measure(texts: FreshTexts, shape: tuple[int, int, int], repeats: int) -> SizeTimes:
    from baselines.recipes import RECIPES

    methods = {name: RECIPES[name] for name in METHODS if name in RECIPES}

    works: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "interning": (texts.columns, _table_of),
        "apart": (lambda: texts.columns(shared=False), _table_of),
    }
    for name, recipe in methods.items():
        works[f"alone {name}"] = (texts.fresh_table, recipe)
        works[f"whole {name}"] = (texts.columns, functools.partial(_credit_of, recipe))
    best = dict.fromkeys(works, float("inf"))
    # One after the other, so that a busy moment of the machine meets all of them.
    for _ in range(repeats):
        for name, (prepare, work) in works.items():
            best[name] = min(best[name], _milliseconds(prepare(), work))
    return SizeTimes(
        *shape, len(texts), best["interning"], best["apart"],
        {name: best[f"alone {name}"] for name in methods},
        {name: best[f"whole {name}"] for name in methods},
    )  # fmt: skip


def _table_of(columns: dict[str, Any]) -> StepTable:
    return StepTable.from_arrays(**columns)


def _credit_of(method: Callable[[StepTable], Any], columns: dict[str, Any]) -> Any:
    return method(_table_of(columns))


def _milliseconds(given: Any, work: Callable[[Any], Any]) -> float:
    """Processor time of one call on what was prepared; collecting garbage is not part of it."""
    gc.collect()
    begin = time.process_time()
    work(given)
    return (time.process_time() - begin) * 1e3
