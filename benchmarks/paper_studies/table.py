"""The tables of a study, as heads and lines, from what was found."""

from __future__ import annotations

from benchmarks.console import NONE
from benchmarks.head_to_head.results import Study as Trainings
from benchmarks.head_to_head.table import AGREEING, INTERVALS, MODES, PARTS
from benchmarks.paper_studies.description import Study, Trained
from benchmarks.paper_studies.results import Found
from benchmarks.paper_studies.trained import Outcome, costs, outcomes, parts
from benchmarks.report.page import Table
from benchmarks.statistics import independent_difference, percent, points
from benchmarks.training.stack import SAMPLED
from benchmarks.truth.papers import tables as against_tables


def tables(study: Study, found: Found) -> list[Table]:
    """Return all tables of a study, those of the part without training first."""
    shown = [] if found.against is None else against_tables(found.against)
    for trained, trainings in parts(study, found.trained):
        shown.append(_costs(trained, trainings) if trained.shares else _outcomes(trained, trainings))
    return shown


def _outcomes(trained: Trained, trainings: Trainings) -> Table:
    by_mode = {mode: outcomes(trained, trainings, mode) for mode in MODES}
    if trained.splits:
        return _splits(trained, trainings, by_mode)
    heads = [
        "setting",
        trained.along,
        "seeds",
        *(f"{mode} %" for mode in MODES),
        *(f"{mode} - clone" for mode in MODES),
    ]
    heads += [f"{mode} - base" for mode in MODES]
    lines = []
    for pair in zip(*by_mode.values(), strict=True):
        first = pair[0]
        line = [first.line, first.along or NONE, str(first.seeds)]
        line += [percent(each.success) for each in pair]
        line += [points(each.less_clone) for each in pair]
        lines.append([*line, *(points(each.less_base) for each in pair)])
    bases = dict.fromkeys(arm.along for arm in trained.arms if any(arm.setting == other.base for other in trained.arms))
    return Table(
        trainings.config.name, heads, lines, f"{_played(trainings)} Base: the same line at {', '.join(bases)}."
    )


def _splits(trained: Trained, trainings: Trainings, by_mode: dict[str, list[Outcome]]) -> Table:
    names = list(trained.splits.values())
    heads = ["policy", "seeds", *(f"{mode}, {name} %" for mode in MODES for name in names)]
    heads += [f"{mode}: {names[0]} - {names[-1]}" for mode in MODES]
    lines = []
    for line in dict.fromkeys(each.line for each in by_mode[SAMPLED]):
        rows = {mode: {each.along: each for each in found if each.line == line} for mode, found in by_mode.items()}
        cells = [line, str(rows[SAMPLED][names[0]].seeds)]
        cells += [percent(rows[mode][name].success) for mode in MODES for name in names]
        for mode in MODES:
            first, last = rows[mode][names[0]].success, rows[mode][names[-1]].success
            cells.append(points(independent_difference(first, last)))
        lines.append(cells)
    return Table(trainings.config.name, heads, lines, _played(trainings))


def _played(trainings: Trainings) -> str:
    learning = trainings.config.learning
    return (
        f"{trainings.config.name}: success on {learning.eval_tasks} tasks of a split in percent, with {INTERVALS}; "
        "differences in percentage points, paired task by task and seed by seed, but for those of two splits. "
        f"{AGREEING} Sampled play at temperature {learning.temperature:g}. "
        f"{trainings.config.token_budget:,} reply tokens per run where nothing else is said; "
        f"per iteration {learning.groups} tasks x {learning.group_size} episodes; clones read {learning.clone_tasks} "
        "expert episodes."
    )


def _costs(trained: Trained, trainings: Trainings) -> Table:
    found = costs(trained, trainings)
    spent = [part for part in PARTS if any(part in cost.shares for cost in found.values())]
    heads = ["environment", "method", "seeds", "iterations", "s per iteration", *(f"{part} %" for part in spent)]
    lines = [
        [
            trainings.config.name, method, str(cost.runs), f"{cost.iterations:.0f}", f"{cost.iteration_seconds:.2f}",
            *(f"{100 * cost.shares[part]:.1f}" if part in cost.shares else NONE for part in spent),
        ]
        for method, cost in found.items()
    ]  # fmt: skip
    return Table(
        trainings.config.name,
        heads,
        lines,
        "Shares of the wall time of training, without validation; means over seeds.",
    )
