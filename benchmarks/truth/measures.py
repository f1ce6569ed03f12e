"""How well step credit ranks steps by their true worth: six measures, with intervals over tasks.

Every measure is made of sums over rows, kept per task, so that a bootstrap over tasks is one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from benchmarks.console import NONE
from benchmarks.statistics import Interval, interval_of
from wrappers.credit.group import centred_ranks, number_pairs, ranges, split_groups

#: Name of each measure, in the order of `measures`, with its head in tables and what it is.
EXPLAINED = {
    "within": (
        "rank",
        "Spearman's rank correlation of credit and true change over a group's steps from the same state, if the true "
        "changes differ; mean over such states, weighted by steps. A state with equal credits counts 0.",
    ),
    "same": (
        "rank, same pairs",
        "The same mean over those states and steps that groups of two can compare. Every group size is measured on the "
        "same comparisons.",
    ),
    "overall": (
        "rank, all steps",
        "Spearman's rank correlation of credit and true change over all steps of all tasks.",
    ),
    "sign": ("sign", "Share of steps whose credit has the sign of the true change, among steps where neither is 0."),
    "coverage": ("covered", "Share of all steps whose credit is not 0."),
    "sign_all": (
        "right",
        "Share of steps whose credit has the sign of the true change, among steps whose true change is not 0; a credit "
        "of 0 counts half.",
    ),
}
MEASURES = tuple(EXPLAINED)
#: Measures that are correlations; the others are shares.
CORRELATIONS = ("within", "same", "overall")
#: Credits nearer than half of 10 ** -DIGITS are ties, and nearer to 0 are 0: such differences are rounding errors.
DIGITS = 9


@dataclass(frozen=True, eq=False)
class Comparisons:
    """K rows of known worth (-inf allowed) with task and set: the steps of one group out of one state.

    A set is *comparable* when its true values differ; the others have nothing to rank.
    """

    rows: Ints
    truth: Floats
    task: Ints
    sets: Ints
    n_tasks: int
    n_sets: int

    @classmethod
    def of(cls, part: StepTable, task: Ints, truth: Floats) -> Comparisons:
        """Return what groups can compare, from the task, int64 (N,), and the worth, float64 (N,), of every row."""
        sets, example = number_pairs(part.group, part.n_groups, part.state, len(part.states))
        rows = np.flatnonzero(~np.isnan(truth))
        return cls(rows, truth[rows], task[rows], sets[rows], int(task.max()) + 1, len(example))

    @cached_property
    def comparable(self) -> Bools:
        """Bool (K,): the row's set is comparable."""
        low, high = ranges(self.truth, self.sets, self.n_sets)
        return (low < high)[self.sets]

    @cached_property
    def _chosen(self) -> tuple[Ints, Ints, Ints, Ints, Floats]:
        """Comparable rows, their sets renumbered, the number of rows and the task per such set, the truth's ranks."""
        rows = np.flatnonzero(self.comparable)
        _, example, sets, counts = np.unique(
            self.sets[rows], return_index=True, return_inverse=True, return_counts=True
        )
        ranks = centred_ranks(self.truth[rows], sets, len(counts))
        return rows, sets, counts, self.task[rows[example]], ranks

    def correlations(self, credit: Floats) -> Floats:
        """Return Spearman's correlation of credit and truth per comparable set; 0 where the credit is all the same."""
        rows, sets, counts, _, truth = self._chosen
        given = centred_ranks(credit[rows], sets, len(counts))
        product, mine, theirs = (
            np.bincount(sets, weights=weights, minlength=len(counts))
            for weights in (given * truth, given * given, truth * truth)
        )
        return np.divide(product, np.sqrt(mine * theirs), out=np.zeros(len(counts)), where=mine > 0)

    def sums(self, credit: Floats) -> Floats:
        """Return float64 (n_tasks, 2): sums over comparable sets of correlation times rows, and of rows."""
        _, _, counts, task, _ = self._chosen
        columns = (self.correlations(credit) * counts, counts)
        return np.stack([np.bincount(task, weights=column, minlength=self.n_tasks) for column in columns], axis=1)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows to measure: what the groups compare that the credit was given in, and what the smallest groups compare."""

    own: Comparisons
    smallest: Comparisons

    @cached_property
    def _truth_ranks(self) -> Floats:
        return centred_ranks(self.own.truth, np.zeros(len(self.own.truth), np.int64), 1)

    def sums(self, credit: Floats) -> Floats:
        """Return float64 (n_tasks, 15): the sums that `measures` needs, of credit (N,) in which nan counts as 0."""
        credit = credit[self.own.rows]
        credit = np.where(np.isnan(credit), 0.0, credit).round(DIGITS)
        task, truth, y = self.own.task, self.own.truth, self._truth_ranks
        x = centred_ranks(credit, np.zeros(len(credit), np.int64), 1)
        given, matters = credit != 0, truth != 0
        right = np.sign(credit) == np.sign(truth)
        columns: tuple[NDArray[Any], ...] = (
            np.ones(len(x)), x, y, x * x, y * y, x * y,
            given, given & matters, given & matters & right, matters, np.where(given, right, 0.5) * matters,
        )  # fmt: skip
        whole = np.stack([np.bincount(task, weights=w, minlength=self.own.n_tasks) for w in columns], axis=1)
        return np.concatenate((self.own.sums(credit), self.smallest.sums(credit), whole), axis=1)


def measures(sums: Floats) -> Floats:
    """Turn `Sample.sums` added up over tasks, float64 (..., 15), into `MEASURES`, (..., 6); nan: nothing to measure."""
    own, own_rows, same, same_rows, n, x, y, xx, yy, xy, given, both, right, matters, halves = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_x, mean_y = x / n, y / n
        spread = np.sqrt(np.maximum(xx / n - mean_x**2, 0) * np.maximum(yy / n - mean_y**2, 0))
        # A constant credit ranks nothing: 0; a constant truth leaves nothing to rank: nan.
        overall = np.where(spread > 0, (xy / n - mean_x * mean_y) / spread, np.where(yy > 0, 0.0, np.nan))
        found = (own / own_rows, same / same_rows, overall, right / both, given / n, halves / matters)
    return np.stack(found, axis=-1)


def intervals(sums: Floats, weights: Floats, other: Floats | None = None) -> dict[str, Interval | None]:
    """Estimate all measures of sums, float64 (n_tasks, 15), with 95 % percentile intervals over tasks; None: nothing.

    `weights` are of the bootstrap: the same ones pair methods. `other`: sums of a method whose measures are subtracted.
    """
    estimate, drawn = measures(sums.sum(0)), measures(weights @ sums)
    if other is not None:
        estimate, drawn = estimate - measures(other.sum(0)), drawn - measures(weights @ other)
    return {name: interval_of(float(estimate[i]), drawn[:, i]) for i, name in enumerate(MEASURES)}


def samples(table: StepTable, truth: Floats, sizes: Iterable[int]) -> dict[int, tuple[StepTable, Sample]]:
    """Return the table, whose groups are tasks, in groups of every size, and what they compare by `truth` (N,)."""
    parts = {size: split_groups(table, size) for size in sizes}
    compared = {size: Comparisons.of(part, table.group, truth) for size, part in parts.items()}
    return {size: (part, Sample(compared[size], compared[min(parts)])) for size, part in parts.items()}


def number(value: Interval | float | None, measure: str) -> str:
    """Return an estimate: a correlation with two decimals, a share in percent.

    >>> number(Interval(0.512, 0.4, 0.6), "within"), number(Interval(0.512, 0.4, 0.6), "sign"), number(None, "sign")
    ('.51', '51', '-')
    """
    mean = value.mean if isinstance(value, Interval) else value
    if mean is None:
        return NONE
    return decimals(mean) if measure in CORRELATIONS else f"{100 * mean:.0f}"


def decimals(value: float) -> str:
    """Return a correlation with two decimals.

    >>> decimals(0.512), decimals(-0.31), decimals(-0.001), decimals(1.0)
    ('.51', '-.31', '.00', '1.00')
    """
    return f"{value:.2f}".replace("-0.00", "0.00").replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.2f}"


def estimate(interval: Interval | None, measure: str = "within", sign: str = "") -> str:
    """Return an estimate with its interval; `sign` is "+" for a difference.

    >>> estimate(Interval(0.512, 0.4, 0.6)), estimate(Interval(0.512, 0.4, 0.6), "sign")
    ('0.51 [0.40, 0.60]', '51 [40, 60]')
    """
    if interval is None:
        return NONE
    scale, digits = (1, 2) if measure in CORRELATIONS else (100, 0)
    mean, low, high = (f"{scale * value:{sign}.{digits}f}" for value in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def explained(measures: Sequence[str]) -> dict[str, str]:
    """Return explanations of measures, by their heads."""
    return {EXPLAINED[measure][0]: EXPLAINED[measure][1] for measure in measures}
