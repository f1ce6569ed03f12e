"""The table of a head to head: every method on the test tasks, against its clone and against tuned GRPO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from benchmarks.console import NONE, say, table
from benchmarks.head_to_head.results import FINAL, REFERENCE, SEARCH, Record, Study, choose
from benchmarks.head_to_head.space import Setting
from benchmarks.statistics import (
    Interval,
    bits,
    holm,
    paired_difference,
    paired_p_value,
    percent,
    points,
    success_interval,
)
from benchmarks.training.stack import CLONE, GREEDY, SAMPLED

MODES = (SAMPLED, GREEDY)
OUTCOMES = (
    "method", "seeds", "sampled %", "greedy %", "sampled - clone", "sampled - grpo", "p", "greedy - grpo", "p",
)  # fmt: skip
PARTS = ("environment", "generation", "credit", "update", "scorer")
COSTS = ("method", "iterations", "tokens", "processor s", *(f"{part} %" for part in PARTS))
COST_CAPTION = (
    "Means over seeds. Tokens are those of all replies of a run's rollouts, continuations and replaced groups "
    "included; a run ends with the iteration that reaches the budget. Processor seconds are those of training, without "
    "cloning and validation. Shares of a run's time in percent: the scorer's, a critic's or reward model's, is a part "
    "of credit and update."
)
#: What intervals of success and its differences speak of, and when they do not: see `paired_comparison`.
INTERVALS = "95 % intervals for new seeds and new tasks (with one seed: for new tasks)"
AGREEING = "Where the seeds happen to agree, an interval speaks of tasks alone, and is too narrow for new seeds."


@dataclass(frozen=True)
class Cost:
    """What training took: means over runs, without cloning and validation.

    Attributes:
        runs: how many.
        iterations, tokens, processor_seconds: of a run.
        iteration_seconds: wall seconds of an iteration.
        shares: of the wall time, by name in `PARTS`, without what a method does not have.
    """

    runs: int
    iterations: float
    tokens: float
    processor_seconds: float
    iteration_seconds: float
    shares: dict[str, float]


@dataclass(frozen=True)
class Row:
    """One policy over its final seeds; a dictionary has one entry per mode, "sampled" and "greedy".

    Attributes:
        method: its name, or "clone".
        success: with 95 % intervals.
        over_clone: success less that of its clones, paired over seeds and tasks; None for clones.
        over_reference: success less the reference's, with the seeds of both; None where there is nothing to compare.
        p_values: of no difference to the reference, adjusted after Holm for all comparisons of the table.
        cost: of its training, one run per seed.
    """

    method: str
    success: dict[str, Interval]
    over_clone: dict[str, Interval] | None
    over_reference: dict[str, Interval] | None
    p_values: dict[str, float] | None
    cost: Cost


def table_rows(study: Study) -> list[Row]:
    """Compute all rows: clones, the reference, then the others by sampled success."""
    clones = {record.seed: record for record in study.of(CLONE, CLONE)}
    reference = {record.seed: record for record in study.of(REFERENCE, FINAL)}
    compared = [
        (method, mode) for method in study.methods if method != REFERENCE and _shared(study, method, reference)
        for mode in MODES
    ]  # fmt: skip
    raw = [_compared(study, method, mode, reference)[1] for method, mode in compared]
    adjusted = dict(zip(compared, holm(raw), strict=True))
    found = []
    for method in study.methods:
        records = study.of(method, FINAL)
        over_reference = p_values = None
        if (method, MODES[0]) in adjusted:
            over_reference = {mode: _compared(study, method, mode, reference)[0] for mode in MODES}
            p_values = {mode: adjusted[method, mode] for mode in MODES}
        own = [clones[record.seed] for record in records]
        found.append(_row(method, records, own, over_reference, p_values))
    used = {record.seed for method in study.methods for record in study.of(method, FINAL)}
    base = _row(CLONE, [record for seed, record in clones.items() if seed in used], None, None, None)
    found.sort(key=lambda row: (row.method != REFERENCE, -row.success[SAMPLED].mean))
    return [base, *found]


def _shared(study: Study, method: str, reference: dict[int, Record]) -> list[Record]:
    return [record for record in study.of(method, FINAL) if record.seed in reference]


def _compared(study: Study, method: str, mode: str, reference: dict[int, Record]) -> tuple[Interval, float]:
    records = _shared(study, method, reference)
    own = [record.test[mode] for record in records]
    theirs = [reference[record.seed].test[mode] for record in records]
    return paired_difference(own, theirs), paired_p_value(bits(own), bits(theirs))


def _row(
    method: str,
    records: Sequence[Record],
    clones: Sequence[Record] | None,
    over_reference: dict[str, Interval] | None,
    p_values: dict[str, float] | None,
) -> Row:
    test = {mode: [record.test[mode] for record in records] for mode in MODES}
    over_clone = None
    if clones is not None:
        over_clone = {mode: paired_difference(test[mode], [clone.test[mode] for clone in clones]) for mode in MODES}
    success = {mode: success_interval(test[mode]) for mode in MODES}
    return Row(method, success, over_clone, over_reference, p_values, cost_of(records))


def cost_of(records: Sequence[Record]) -> Cost:
    """Return what runs of one method took, at least one of them."""
    return Cost(
        len(records),
        _mean([record.iterations for record in records]),
        _mean([record.tokens for record in records]),
        _mean([record.processor_seconds for record in records]),
        _mean([record.seconds / max(record.iterations, 1) for record in records]),
        {part: _mean([record.shares[part] for record in records]) for part in PARTS if part in records[0].shares},
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def outcomes(row: Row) -> list[str]:
    """Return the cells of a row, in the order of `OUTCOMES`."""
    compared = []
    for mode in MODES:
        compared.append(points(row.over_reference[mode]) if row.over_reference else NONE)
        compared.append(f"{row.p_values[mode]:.2g}" if row.p_values else NONE)
    success = [percent(row.success[mode]) for mode in MODES]
    return [row.method, str(row.cost.runs), *success, points((row.over_clone or {}).get(SAMPLED)), *compared]


def trained(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of runs with a budget: all but the clone's."""
    return [row for row in rows if row.method != CLONE]


def costs(row: Row) -> list[str]:
    """Return the cells of a row, in the order of `COSTS`."""
    cost = row.cost
    shares = [f"{100 * cost.shares[part]:.0f}" if part in cost.shares else NONE for part in PARTS]
    return [row.method, f"{cost.iterations:.0f}", f"{cost.tokens:,.0f}", f"{cost.processor_seconds:.0f}", *shares]


def caption(study: Study, rows: Sequence[Row]) -> str:
    """What the outcomes are, in one paragraph."""
    learning = study.config.learning
    comparisons = len(MODES) * sum(row.p_values is not None for row in rows)
    return (
        f"Success on {learning.eval_tasks} test tasks in percent, mean of the seeds with {INTERVALS}; differences in "
        "percentage points, paired task by task and seed by seed, each with its own 95 % interval. "
        f"{AGREEING} p: of no difference to tuned GRPO, adjusted after Holm for all {comparisons} comparisons of the "
        f"table. Sampled play at temperature {learning.temperature:g}."
    )


def search_rows(study: Study, method: str) -> list[tuple[Setting, float, float, bool]]:
    """Return the tried settings of a method, each with its sampled and greedy success, and whether it was chosen."""
    records = study.of(method, SEARCH)
    chosen = choose(records)
    return [
        (record.setting, record.curve[-1].sampled, record.curve[-1].greedy, record.setting == chosen)
        for record in records
        if record.setting is not None
    ]


def searched(study: Study) -> list[str]:
    """Return all methods with a run of the search, in the order of the records."""
    return list(dict.fromkeys(record.method for record in study.records if record.stage == SEARCH))


def print_study(study: Study, console: Console) -> None:
    """Print the search and the table."""
    heads = ["setting", "validation: sampled %", "greedy %", "chosen"]
    lines: list[Sequence[str] | None] = []
    for method in searched(study):
        for setting, sampled, greedy, chosen in search_rows(study, method):
            lines.append([setting.label, f"{100 * sampled:.1f}", f"{100 * greedy:.1f}", "yes" if chosen else ""])
    console.print(table(heads, lines, title=f"{study.config.name}: the search, seed {study.config.search_seed}"))
    if not study.methods:
        say(console, "no final run yet")
        return
    rows = table_rows(study)
    title = f"{study.config.name}: {study.config.token_budget:,} reply tokens each"
    console.print(table(OUTCOMES, [outcomes(row) for row in rows], title=title, caption=caption(study, rows)))
    console.print(table(COSTS, [costs(row) for row in trained(rows)], title="what it took", caption=COST_CAPTION))
