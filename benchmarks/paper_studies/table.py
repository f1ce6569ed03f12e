"""The tables of a study, as heads and lines, from what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.console import NONE
from benchmarks.league.diagnostics import GRAPHS
from benchmarks.paper_studies.against import ALIASED
from benchmarks.paper_studies.description import CREDIT, ENV, KEY, NOISE, SIZE, VARIANT, Against, Study, Trained
from benchmarks.paper_studies.results import AgainstFound, Cell, Found, GraphCell
from benchmarks.paper_studies.trained import Outcome, costs, outcomes, parts
from benchmarks.ranking.measures import MEASURES
from benchmarks.ranking.table import CORRELATIONS, EXPLAINED
from benchmarks.statistics import Interval, independent_difference, percent, points
from benchmarks.training.head_to_head_page import AGREEING, INTERVALS, MODES, PARTS
from benchmarks.training.records import Trainings
from benchmarks.training.stack import SAMPLED

#: How measures are called in heads.
SHORT = dict(zip(MEASURES, ("rank", "rank, same pairs", "rank, all steps", "sign", "covered", "right"), strict=True))
_GRAPHS = {**GRAPHS, ALIASED: "share of steps in a state that stands for different ones of the environment's own"}
_SHARES = ("shared", "singletons", "ties", "reached", "mixed", ALIASED)
_COORDINATES = (ENV, CREDIT, VARIANT, KEY, NOISE)
#: How coordinates are called in heads.
_HEADS = {ENV: "environment", VARIANT: "variant", KEY: "states by", NOISE: "adverts"}


@dataclass(frozen=True)
class Shown:
    """One table and what its numbers are."""

    heads: list[str]
    lines: list[list[str]]
    caption: str


def tables(study: Study, found: Found) -> list[Shown]:
    """Return all tables of a study, those of the part without training first."""
    shown = []
    if study.against is not None and found.against is not None:
        if study.against.credits:
            shown.append(_credits(study.against, found.against))
        if study.against.graphs:
            shown.append(_graphs(study.against, found.against))
        if not study.against.credits:
            shown.append(_steps(found.against))
    for trained, trainings in parts(study, found.trained):
        shown.append(_costs(trained, trainings) if trained.shares else _outcomes(trained, trainings))
    return shown


def _credits(against: Against, found: AgainstFound) -> Shown:
    cells = [cell for measured in found.measured for cell in measured.cells]
    sizes = found.config.league.sizes
    varying = _varying(cells)
    columns = [(measure, size) for measure in against.shown for size in sizes]
    several = len(sizes) > 1
    heads = [_HEADS.get(name, name) for name in varying]
    heads += [f"{SHORT[measure]}, groups of {size}" if several else SHORT[measure] for measure, size in columns]
    if against.base:
        # One column of differences, that of the largest groups.
        of = f", groups of {sizes[-1]}," if several else ""
        heads.append(f"{SHORT[against.shown[0]]}{of} less that of {_base(against)}")
    rows: dict[tuple[str, ...], dict[int, Cell]] = {}
    for cell in cells:
        rows.setdefault(tuple(getattr(cell, name) for name in varying), {})[cell.size] = cell
    lines = []
    for names, row in rows.items():
        line = [*names, *(_measure(row[size].measures[measure], measure) for measure, size in columns)]
        if against.base:
            line.append(_difference(row[sizes[-1]].less_base.get(against.shown[0])))
        lines.append(line)
    words = [f"{SHORT[measure]}: {EXPLAINED[measure][1]}" for measure in against.shown]
    size = f"Groups of {sizes[-1]}. " if not several else ""
    return Shown(heads, lines, f"{size}{' '.join(words)} {_who(found)}")


def _base(against: Against) -> str:
    """What differences are taken to, in words."""
    words = {SIZE: "groups of {}", KEY: "states by {}", NOISE: "adverts on {}", VARIANT: "{}", CREDIT: "{}"}
    return ", ".join(words[name].format(value) for name, value in against.base.items())


def _varying(cells: Sequence[Cell]) -> list[str]:
    return [name for name in _COORDINATES if len({getattr(cell, name) for cell in cells}) > 1]


def _graphs(against: Against, found: AgainstFound) -> Shown:
    cells = [cell for measured in found.measured for cell in measured.graphs]
    varying = [name for name in (ENV, KEY, NOISE, SIZE) if len({getattr(cell, name) for cell in cells}) > 1]
    heads = [*(_HEADS.get(name, "groups of") for name in varying), *against.graphs]
    lines = [
        [*(str(getattr(cell, name)) for name in varying), *(graph_value(cell, name) for name in against.graphs)]
        for cell in cells
    ]
    words = "; ".join(f"{name}: {_GRAPHS[name]}" for name in against.graphs)
    percents = " Shares in percent." if set(against.graphs) & set(_SHARES) else ""
    who = "" if against.credits else f" {_who(found)}"
    return Shown(heads, lines, f"{words[0].upper()}{words[1:]}.{percents}{who}")


def graph_value(cell: GraphCell, name: str) -> str:
    """Return a ratio with its interval: a share in percent, any other with two decimals."""
    interval = cell.measures[name]
    if interval is None:
        return NONE
    scale, digits = (100, 0) if name in _SHARES else (1, 2)
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (interval.mean, interval.low, interval.high))
    return f"{mean} [{low}, {high}]"


def _steps(found: AgainstFound) -> Shown:
    heads = ["environment", "player", "won %", "steps", "truth", "known %", "gained in lost %", "idle in won %"]
    lines = []
    for measured in found.measured:
        each = measured.episodes
        lines.append([
            each.env, each.player, f"{100 * each.success:.0f}", f"{each.steps:.1f}", each.truth,
            f"{100 * each.known:.0f}", _percent(each.gained_in_lost), _percent(each.idle_in_won),
        ])  # fmt: skip
    caption = (
        "What steps were truly worth: the share of the steps of lost episodes that were worth something, and of those "
        "of won episodes that were worth nothing or less. Truth: the exact change of distance to success where the "
        "environment knows it, else Q - V of the player by continuations, whose error makes zeros rare."
    )
    return Shown(heads, lines, caption)


def _outcomes(trained: Trained, trainings: Trainings) -> Shown:
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
    return Shown(heads, lines, f"{_played(trainings)} Base: the same line at {', '.join(bases)}.")


def _splits(trained: Trained, trainings: Trainings, by_mode: dict[str, list[Outcome]]) -> Shown:
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
    return Shown(heads, lines, _played(trainings))


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


def _costs(trained: Trained, trainings: Trainings) -> Shown:
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
    return Shown(heads, lines, "Shares of the wall time of training, without validation; means over seeds.")


def _who(found: AgainstFound) -> str:
    plays = [
        f"{each.env} {each.tasks} x {each.episodes // each.tasks} episodes of {each.player} "
        f"({100 * each.success:.0f} % won)"
        for each in (measured.episodes for measured in found.measured)
    ]
    return f"95 % intervals, bootstrap over tasks. Played: {', '.join(plays)}."


def _measure(interval: Interval | None, measure: str) -> str:
    if interval is None:
        return NONE
    if measure not in CORRELATIONS:
        return _percent(interval)
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _difference(interval: Interval | None) -> str:
    return NONE if interval is None else f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def _percent(interval: Interval | None) -> str:
    if interval is None:
        return NONE
    return f"{100 * interval.mean:.0f} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"
