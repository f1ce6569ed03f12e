"""`study gradients`: the policy gradient of a credit method on a group, compared with the exact one.

Every credit is given to the same episodes of small processes whose player is known (`benchmarks.truth.processes`), in
groups of growing size. With credit A of the steps, the gradient of a group of G episodes is

    g(s, a) = 1 / G  sum over its steps of A (1[s, a] - 1[s] pi(a | s))

A part of the study is one process. Episodes come in batches; intervals are jackknives over batches.
"""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.stats import t as student

from agentgym.trajectory import Floats, StepTable
from benchmarks.console import option
from benchmarks.json_files import ResultsError, check_known
from benchmarks.processes import Progress
from benchmarks.report.page import Figure, Page, Table
from benchmarks.report.panels import Panel, draw
from benchmarks.statistics import CONFIDENCE, Interval
from benchmarks.study import Found, Study
from benchmarks.truth import episodes as playing
from benchmarks.truth.credits import BESIDE, CHOSEN, RANDOM, REFERENCE, SETS, credits_called
from benchmarks.truth.measures import DIGITS, decimals, number
from benchmarks.truth.processes import PROCESSES, Process
from wrappers.credit.group import number_pairs, split_groups
from wrappers.credit.method import Credit

TRUTH, DISTANCE = "truth", "distance"
#: Each measure and what it is.
MEASURES = {
    "cosine": "mean over groups of the cosine between a group's gradient and the exact one; a gradient of 0 counts 0.",
    "bias": "sine of the angle between the mean gradient over groups and the exact one; 1 for "
    "angles of 90 degrees or more. 0: right in the mean over many groups.",
    "noise": "standard deviation of a group's gradient around the mean one, in lengths of the mean one.",
    "error": "root mean squared error of credit against true advantage, in standard deviations of the truth. "
    "Both are centred over the group's steps from the same state; credit has the best scale. 1: no information.",
    "leakage": "share of the sum of absolute credit on steps whose true advantage is 0.",
}
#: Continuations by which advantages are estimated, to compare with.
CONTINUATIONS = (16, 64, 256, 1024)
#: Size of groups in tables of all credits, and credits that are shown at every size.
_SIZE = 8
_SHOWN = (*BESIDE, "bellman step", CHOSEN, DISTANCE)


@dataclass(frozen=True)
class GradientsConfig:
    """The options of the command: `batches` of `episodes` of each process, cut into groups of all `sizes`."""

    processes: list[str]
    batches: int
    episodes: int
    sizes: list[int]
    credits: list[str]
    seed: int


@dataclass(frozen=True)
class Given:
    """One credit in groups of one size: every measure with its 95 % interval; None: there is nothing to measure."""

    credit: str
    size: int
    measures: dict[str, Interval | None]


@dataclass(frozen=True)
class Measured:
    """One process: `steps` is the mean of an episode, `success` exact, `zero` the share of steps of no true advantage.

    `errors` of advantages by so many continuations each are exact, `sampled` ones drawn for steps of the first batch.
    """

    process: str
    states: int
    steps: float
    success: float
    zero: float
    errors: dict[str, float]
    sampled: dict[str, float]
    given: list[Given]
    seconds: float

    def of(self, credit: str, measure: str, size: int) -> Interval | None:
        found = (each.measures[measure] for each in self.given if (each.credit, each.size) == (credit, size))
        return next(found, None)


@dataclass(frozen=True)
class Gradients(Found):
    """The whole file."""

    config: GradientsConfig
    measured: list[Measured]


def group_gradients(process: Process, part: StepTable, credit: Floats, size: int) -> Floats:
    """Return the gradient of every group, float64 (groups, S * A), of credit (N,) in which nan counts as 0."""
    _, state, action, _ = process.rows(part)
    n_states, n_actions = process.policy.shape
    place = (part.group * n_states + state) * n_actions + action
    sums = np.bincount(place, np.nan_to_num(credit), part.n_groups * n_states * n_actions)
    sums = sums.reshape(part.n_groups, n_states, n_actions)
    found: Floats = (sums - process.policy * sums.sum(2, keepdims=True)) / size
    return found.reshape(part.n_groups, -1)


def batch_sums(process: Process, part: StepTable, credit: Floats, size: int, batches: int) -> dict[str, Floats]:
    """Return the sums that `measures_of` needs, by name, float64 (batches, ...)."""
    credit, truth = np.nan_to_num(credit).round(DIGITS), process.truth(part)
    gradients, exact = group_gradients(process, part, credit, size), process.gradient.ravel()
    squares = (gradients**2).sum(1)
    along = gradients @ exact
    cosine = np.divide(along, np.sqrt(squares * (exact @ exact)), out=np.zeros(len(along)), where=squares > 0)
    sets, _ = number_pairs(part.group, part.n_groups, part.state, len(part.states))
    counts = np.maximum(np.bincount(sets), 1)
    mine, theirs = (values - (np.bincount(sets, values) / counts)[sets] for values in (credit, truth))
    batch = part.group // (part.n_groups // batches)
    rows = (mine * theirs, mine**2, theirs**2, np.abs(credit), np.abs(credit) * (truth == 0))
    return {
        "gradient": gradients.reshape(batches, -1, len(exact)).sum(1),
        "groups": np.stack((np.ones(len(along)), cosine, squares), 1).reshape(batches, -1, 3).sum(1),
        "rows": np.stack([np.bincount(batch, values, batches) for values in rows], 1),
    }


def measures_of(sums: Mapping[str, Floats], exact: Floats) -> Floats:
    """Turn sums over groups and rows into `MEASURES`, float64 (5,); nan: nothing to measure.

    The squared length of a mean over n groups is too large by its variance / n, which is taken away.
    """
    n, cosine, squares = sums["groups"]
    mean = sums["gradient"] / n
    variance = max(squares / n - mean @ mean, 0.0) * n / max(n - 1, 1)
    length = mean @ mean - variance / n
    along = mean @ exact / np.sqrt(exact @ exact)
    product, mine, theirs, credit, leaked = sums["rows"]
    with np.errstate(invalid="ignore", divide="ignore"):
        bias = 1.0 if along <= 0 or length <= 0 else np.sqrt(max(0.0, 1 - along**2 / length))
        noise = np.sqrt(variance / length) if length > 0 else np.nan
        error = np.sqrt(max(0.0, 1 - max(product, 0.0) ** 2 / (mine * theirs))) if mine > 0 else 1.0
        return np.array([cosine / n, bias, noise, error if theirs > 0 else np.nan, leaked / credit])


def jackknife(sums: Mapping[str, Floats], exact: Floats) -> dict[str, Interval | None]:
    """Return all measures with 95 % intervals over batches, with four decimals."""
    whole = {name: each.sum(0) for name, each in sums.items()}
    count = len(sums["groups"])
    best = measures_of(whole, exact)
    left = np.array([measures_of({n: whole[n] - each[i] for n, each in sums.items()}, exact) for i in range(count)])
    reach = student.ppf(0.5 + CONFIDENCE / 2, count - 1) * np.sqrt((count - 1) * left.var(0))
    found: dict[str, Interval | None] = {}
    for name, value, half in zip(MEASURES, best.tolist(), reach.tolist(), strict=True):
        low = -1.0 if name == "cosine" else 0.0
        high = np.inf if name == "noise" else 1.0
        bounds = [round(float(np.clip(each, low, high)), 4) for each in (value, value - half, value + half)]
        found[name] = Interval(*bounds) if np.isfinite(bounds).all() else None
    return found


def measure(config: GradientsConfig, name: str, progress: Progress) -> Measured:
    """Play one process, give every credit in groups of every size, and measure the gradients."""
    begin, process = time.perf_counter(), PROCESSES[name]()
    rng = np.random.default_rng([config.seed, list(PROCESSES).index(name)])
    table = process.play(config.batches * config.episodes, rng)
    truth, noise = process.truth(table), rng.standard_normal(len(table))
    drawn = {str(count): _drawn_error(process, table, count, rng) for count in CONTINUATIONS}
    references = {TRUTH: truth, DISTANCE: process.distance_gain(table), RANDOM: noise}
    beside = [
        Credit(each, REFERENCE, "", functools.partial(lambda values, part: values, values))
        for each, values in references.items()
    ]
    credits = [*credits_called(config.credits, learned=False), *beside]
    given = []
    for i, size in enumerate(config.sizes):
        progress(i, len(config.sizes), f"sizes of groups, {len(credits)} credits")
        part = split_groups(table, size)
        for credit in credits:
            sums = batch_sums(process, part, credit.give(part), size, config.batches)
            given.append(Given(credit.name, size, jackknife(sums, process.gradient.ravel())))
    return Measured(
        process=name,
        states=len(process.states),
        steps=round(float(process.visits.sum()), 4),
        success=round(float(process.values[1][0, 0]), 4),
        zero=round(float((truth == 0).mean()), 4),
        errors={str(count): round(process.sampling_error(count), 5) for count in CONTINUATIONS},
        sampled=drawn,
        given=given,
        seconds=round(time.perf_counter() - begin, 1),
    )


def _drawn_error(process: Process, table: StepTable, count: int, rng: np.random.Generator) -> float:
    """Error of Q - V by continuations: a return is 0 or 1, so that their number of successes is binomial."""
    t, state, action, _ = (column[: 1 << 16] for column in process.rows(table))
    quality, value = process.values
    q, v = (rng.binomial(count, p.clip(0, 1)) / count for p in (quality[t, state, action], value[t, state]))
    return round(float(np.sqrt(np.mean((q - v - process.advantages[t, state, action]) ** 2))), 5)


def configure(
    quick: Annotated[bool, option("2 batches of 16 episodes: a smoke test.", "--quick")] = False,
    process: Annotated[
        list[str] | None, option(f"Process: {', '.join(PROCESSES)}. May be given several times. Default: all.")
    ] = None,
    groups: playing.Sizes = None,
    seed: playing.Seed = 0,
) -> GradientsConfig:
    """Compare the policy gradients of credit methods with the exact gradient.

    Three tiny processes, slippery FrozenLake and two Sokoban levels, with a player whose values are known exactly.
    Nothing is trained.
    """
    check_known("process", process or (), PROCESSES)
    sizes = sorted(set(groups or ((2, 8) if quick else (2, 4, 8, 16, 32, 64))))
    episodes = 16 if quick else 512
    if sizes[0] < 2 or any(episodes % size for size in sizes):
        raise ResultsError(f"group sizes must be at least 2 and divide {episodes} episodes, got {sizes}")
    names = [credit.name for credit in SETS["methods"]] + [CHOSEN]
    return GradientsConfig(list(process or PROCESSES), 2 if quick else 16, episodes, sizes, names, seed)


def page(found: Gradients) -> Page:
    """Return tables of the processes, of all credits in groups of one size, and of some credits at every size."""
    config, measured = found.config, found.measured
    size = _SIZE if _SIZE in config.sizes else config.sizes[-1]
    names = list(dict.fromkeys(given.credit for each in measured for given in each.given))
    sizes = list(dict.fromkeys((config.sizes[0], size, config.sizes[-1])))
    tables = [_processes(found), _all(measured, names, size), *_some(measured, names, sizes)]
    return Page(
        "How close is the policy gradient of step credit to the exact one?",
        "Gradients of groups against the exact gradient of the player's success, in processes that are solved exactly.",
        tables,
        chips=[("processes", ", ".join(config.processes)), ("seed", str(config.seed))],
        about=[("seconds", f"{sum(each.seconds for each in measured):.0f}")],
        figures=[Figure("gradients.png", "Cosine over group size", lambda: draw(_panels(found)), MEASURES["cosine"])],
        reported=_reported(found),
    )


def _processes(found: Gradients) -> Table:
    heads = ["process", "states", "steps", "won %", "advantage 0 %", *(f"error of {k}" for k in CONTINUATIONS)]
    rows = [
        [
            each.process, str(each.states), f"{each.steps:.1f}", f"{100 * each.success:.1f}", f"{100 * each.zero:.0f}",
            *(f"{each.errors[str(k)]:.4f} ({each.sampled[str(k)]:.4f})" for k in CONTINUATIONS),
        ]
        for each in found.measured
    ]  # fmt: skip
    words = (
        "Steps: mean per episode. Advantage 0: share of steps with true advantage 0. Error of K: root mean squared "
        "error of Q - V, each from K independent continuations; exact, and in brackets sampled."
    )
    return Table("Processes and their players", heads, rows, words)


def _merged(names: Sequence[str], cells: Mapping[str, list[str]]) -> list[list[str]]:
    """One row for all credits with the same cells."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(cells[name]), []).append(name)
    return [["; ".join(same), *row] for row, same in alike.items()]


def _cells(
    measured: Sequence[Measured], names: Sequence[str], picked: Sequence[tuple[str, int]]
) -> dict[str, list[str]]:
    """Cells of credits, a process each, of some measures at some sizes."""
    return {
        name: [" / ".join(number(each.of(name, *pick), "within") for pick in picked) for each in measured]
        for name in names
    }  # fmt: skip


def _all(measured: Sequence[Measured], names: Sequence[str], size: int) -> Table:
    cells, means = _cells(measured, names, [("cosine", size), ("bias", size)]), {}
    for name in names:
        cosines = [found.mean for each in measured if (found := each.of(name, "cosine", size))]
        means[name] = sum(cosines) / max(len(cosines), 1)
        cells[name].append(decimals(means[name]))
    best = sorted(names, key=lambda name: -means[name])
    words = f"Cosine / bias in groups of {size}, sorted by the mean cosine. Credits with the same numbers share a row."
    explained = {name: MEASURES[name] for name in ("cosine", "bias")}
    heads = ["credit", *(each.process for each in measured), "mean cosine"]
    return Table(f"Gradients of groups of {size}", heads, _merged(best, cells), words, explained)


def _some(measured: Sequence[Measured], names: Sequence[str], sizes: Sequence[int]) -> list[Table]:
    """Tables of some credits: further measures in groups of the middle size, and the cosine in groups of all sizes."""
    heads, size = ["credit", *(each.process for each in measured)], sizes[len(sizes) // 2]
    chosen = [name for name in (*_SHOWN, TRUTH, RANDOM) if name in names]
    explained = {name: MEASURES[name] for name in ("error", "leakage", "noise")}
    rows = _merged(chosen, _cells(measured, chosen, [(name, size) for name in explained]))
    grown = _merged(chosen[:-1], _cells(measured, chosen[:-1], [("cosine", size) for size in sizes]))
    return [
        Table("Steps", heads, rows, f"Error / leakage / noise in groups of {size}.", explained),
        Table("Size of groups", heads, grown, f"Cosine in groups of {', '.join(map(str, sizes))}."),
    ]


def _panels(found: Gradients) -> list[Panel]:
    panels = []
    for each in found.measured:
        lines = {
            name: {str(size): known for size in found.config.sizes if (known := each.of(name, "cosine", size))}
            for name in _SHOWN
        }
        panels.append(Panel(each.process, "episodes of a group", "cosine", {k: v for k, v in lines.items() if v}))
    return panels


def _reported(found: Gradients) -> dict[str, str]:
    config = found.config
    return {
        "task set": f"{', '.join(config.processes)}; Sokoban: generated validation levels with one box",
        "seeds": f"{config.seed}; {config.batches} batches of {config.episodes} episodes of each process",
        "tokens": "none: no text is generated and nothing is trained",
        "processor time": f"{sum(each.seconds for each in found.measured) / 60:.1f} minutes",
        "settings tried": "none; every method has the presets of its paper and authors",
        "how chosen": "nothing is chosen",
        "variance": "95 % intervals, jackknife over batches, in the file of the results",
        "baseline": "the exact advantage of every step, and random numbers",
        "model": "a softmax over the admissible actions of each state",
        "prompt": "none: states are known",
        "temperature": "1",
        "limits": "steps of an episode: 6, 8, 5 in the tiny processes, 100 on the lake, 20 in Sokoban",
        "excluded": "credits that need log-probabilities, a model or branches",
        "software": f"{found.machine.software}; records docs/studies/records/gradients.json",
    }


STUDY = Study(
    name="gradients", file="gradients.json", version=1, part="process", record=Measured, results=Gradients,
    configure=configure, parts=lambda config: config.processes, page=page,
    run=lambda config, part, context, progress: measure(config, part, progress), published=True,
)  # fmt: skip
