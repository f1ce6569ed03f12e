"""Evidence of a head to head: paired differences over seeds, verdicts, the seeds needed for power, the horizon.

Primary measures, fixed before any run: success of sampled play on the test tasks at the end, and the area under the
validation curve of sampled play by tokens. Each method is compared with the tuned reference by a paired t test over
seeds, p values are adjusted after Holm for both measures of all methods, and the level of .05 is shared by the looks
that `--until settled` may take.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from agentgym.trajectory import Bools
from baselines.environments.registry import settings_of
from baselines.environments.settings import TINY
from baselines.runs.stack import CLONE, GREEDY, SAMPLED, bare_envs, held_out_tasks
from benchmarks.console import NONE
from benchmarks.options import REFERENCE
from benchmarks.report import assemble
from benchmarks.report.markdown import filled, markdown_table
from benchmarks.report.page import Table
from benchmarks.statistics import Interval, bits, holm, paired_t, points, seed_band, seeds_needed
from benchmarks.training.records import FINAL, SEARCH, Record, Trainings, by_setting

MEASURES = ("end", "area")
MODES = (SAMPLED, GREEDY)
#: Numbers of seeds at which `--until settled` tests the comparisons.
LOOKS = (4, 8, 16, 32, 64)
LEVEL = 0.05
#: Width that the methods of one length take in the figure of the horizon, where 1 is the way to the next length.
_DODGE = 0.6
#: What a run of the horizon has to reach.
_GOAL = 0.9
SETTLED, INDICATED, OPEN = "settled", "indicated", "open"
HEADS = (
    "method", "seeds", "settings", "area %", "tokens to 90 %", "fell", f"end - {REFERENCE}", "p", f"area - {REFERENCE}",
    "p", "seeds needed", "verdict",
)  # fmt: skip
CAPTION = (
    "Sampled play. Area: mean success on the validation tasks over the tokens of a run. Tokens to 90 %: median over "
    "seeds, in brackets the seeds that reached it. Fell: seeds that end with less than half of their clone's success. "
    "Differences in percentage points with 95 % intervals of a paired t test over seeds; p adjusted after Holm for "
    "both measures of all methods. Seeds needed: for 80 % power at the difference and spread seen, in the measure with "
    "the smaller p. "
    f"Verdict: settled where p < {LEVEL / len(LOOKS):g} in either measure ({LEVEL:g} shared by {len(LOOKS)} looks, "
    f"after {', '.join(map(str, LOOKS))} seeds), indicated where p < {LEVEL:g}, else open."
)
BY_TASK = (
    "Sampled play. Differences in percentage points with 95 % intervals of a paired t test over seeds, for "
    "exploration: nothing is adjusted. Clones: their share of successes on a task over seeds, sampled and greedy."
)


def paired(records: Sequence[Record], others: Sequence[Record], value: Callable[[Record], float]) -> list[float]:
    """Return the differences of a number, one for each seed that is in both lists, in the order of the first."""
    theirs = {record.seed: value(record) for record in others}
    return [value(record) - theirs[record.seed] for record in records if record.seed in theirs]


def verdict(p: float, seeds: int) -> str:
    """Return whether a comparison is settled, indicated or open; with fewer seeds than the first look it is open."""
    p = p if seeds >= LOOKS[0] else 1.0
    return SETTLED if p < LEVEL / len(LOOKS) else INDICATED if p < LEVEL else OPEN


@dataclass(frozen=True)
class Comparison:
    """A method against the tuned reference on the seeds that both have, by measure; p values are adjusted after Holm.

    `needed`: seeds for 80 % power in the measure with the smaller p; None: the difference seen is 0.
    """

    method: str
    seeds: int
    difference: dict[str, Interval]
    p: dict[str, float]
    needed: int | None

    @property
    def verdict(self) -> str:
        return verdict(min(self.p.values()), self.seeds)


def end(record: Record, mode: str = SAMPLED) -> float:
    """Return success on the test tasks."""
    return float(bits([record.test[mode]]).mean())


def area(record: Record, budget: int) -> float:
    """Return the mean of sampled validation success over the tokens of the budget, linear between validations.

    >>> from benchmarks.training.records import Point
    >>> curve = [Point(0, 0, 0.0, 0), Point(50, 0, 1.0, 0), Point(110, 0, 1.0, 0)]
    >>> area(Record("final", REFERENCE, 0, None, 1, 110, 1, 1, {}, curve, {}), 100)
    0.75
    """
    tokens, success = _curve(record)
    grid = np.unique(np.clip(np.append(tokens, budget), 0, budget))
    return float(np.trapezoid(np.interp(grid, tokens, success), grid) / budget)


def tokens_to(record: Record, goal: float = _GOAL) -> float:
    """Return the reply tokens after which sampled validation success reaches a goal, inf where it does not.

    >>> from benchmarks.training.records import Point
    >>> curve = [Point(0, 0, 0.0, 0), Point(50, 0, 0.5, 0), Point(100, 0, 1.0, 0)]
    >>> tokens_to(Record("final", REFERENCE, 0, None, 1, 100, 1, 1, {}, curve, {}), 0.75)
    75.0
    """
    tokens, success = _curve(record)
    reached = np.flatnonzero(success >= goal)
    if not len(reached):
        return math.inf
    i = int(reached[0])
    return float(np.interp(goal, success[i - 1 : i + 1], tokens[i - 1 : i + 1])) if i else float(tokens[0])


def _curve(record: Record) -> tuple[Any, Any]:
    return tuple(np.array([(point.tokens, point.sampled) for point in record.curve], float).T)


def measures(study: Trainings) -> dict[str, Callable[[Record], float]]:
    """Return what the numbers of a run are by the names in `MEASURES`."""
    return {"end": end, "area": lambda record: area(record, study.config.token_budget)}


def compare(study: Trainings) -> list[Comparison]:
    """Return all comparisons with the tuned reference; none where fewer than two seeds are shared."""
    reference, found = study.of(REFERENCE, FINAL), []
    for method, records in study.finals.items():
        differences = {name: paired(records, reference, value) for name, value in measures(study).items()}
        seeds = len(differences["end"])
        if method == REFERENCE or seeds < 2:
            continue
        tests = {name: paired_t(values) for name, values in differences.items()}
        p = {name: test[1] for name, test in tests.items()}
        needed = seeds_needed(differences[min(p, key=p.__getitem__)], level=LEVEL / len(LOOKS))
        found.append(Comparison(method, seeds, {name: test[0] for name, test in tests.items()}, p, needed))
    adjusted = iter(holm([each.p[name] for each in found for name in MEASURES]))
    return [dataclasses.replace(each, p={name: next(adjusted) for name in MEASURES}) for each in found]


def rows(study: Trainings) -> list[list[str]]:
    """Return the cells of all methods, in the order of `HEADS`: the reference, then by area."""
    compared = {each.method: each for each in compare(study)}
    clones = {record.seed: end(record) for record in study.clones}
    found = []
    for method, records in study.finals.items():
        share = np.mean(list(map(measures(study)["area"], records)))
        reached = np.array([tokens_to(record) for record in records])
        median, count = float(np.median(reached)), np.isfinite(reached).sum()
        fell = sum(end(record) < clones[record.seed] / 2 for record in records)
        cells = [method, str(len(records)), str(tried(study, method) or NONE), f"{100 * share:.1f}"]
        cells += [f"{median:,.0f} ({count})" if math.isfinite(median) else f"not reached ({count})", str(fell)]
        if each := compared.get(method):
            for name in MEASURES:
                cells += [points(each.difference[name]), f"{each.p[name]:.2g}"]
            cells += [NONE if each.needed is None else str(each.needed), each.verdict]
        cells += [NONE] * (len(HEADS) - len(cells))
        found.append(((method != REFERENCE, -share), cells))
    return [cells for _, cells in sorted(found, key=lambda each: each[0])]


def tried(study: Trainings, method: str) -> int:
    """Return how many settings the search tried for a method."""
    return len(by_setting(study.of(method, SEARCH)))


def reported(study: Trainings) -> dict[str, str]:
    """Return the 14 facts of a published result, for this study; see docs/results/reporting.md."""
    config = study.config
    learning, training = config.learning, config.learning.training
    seeds = sorted({record.seed for records in study.finals.values() for record in records})
    spread = {
        method: 100 * float(np.std(list(map(end, records)), ddof=1))
        for method, records in study.finals.items()
        if len(records) > 1
    }
    data = learning.data or f"generated by {learning.env} with {learning.setup.options or 'its defaults'}"
    hours = sum(record.processor_seconds for record in study.records) / 3600
    return {
        "task set": f"{data}; test {learning.eval_tasks} tasks of split {learning.setup.test!r}, validation "
                     f"{learning.validation_tasks} of {learning.setup.validation!r}",
        "seeds": ", ".join(map(str, seeds)),
        "tokens": f"{config.token_budget:,} reply tokens a run",
        "processor time": f"{hours:.1f} hours of training, search included",
        "settings tried": "; ".join(f"{method} {tried(study, method)}" for method in study.finals),
        "how chosen": "no search: all methods have the environment's settings" if not config.settings else
                       f"by the last {config.judged_points} validations, sampled and greedy, of {config.search_runs} "
                       f"seeds from {config.search_seed}; ties: by all validations, then the lowest rate",
        "variance": "standard deviation over seeds of success at the end, points: "
                     + "; ".join(f"{method} {value:.1f}" for method, value in spread.items()),
        "baseline": f"{REFERENCE}, {'searched like every method' if config.settings else 'not searched'}; setting: "
                     f"{chosen.label if (chosen := study.chosen(REFERENCE)) else NONE}",
        "model": f"{learning.model}; clone of {learning.clone_tasks} expert episodes, at most {learning.clone_epochs} "
                  "times",
        "prompt": f"{learning.history} earlier steps, {'with' if learning.instructions else 'without'} the rules",
        "temperature": f"{learning.temperature:g} in training and sampled play, 0 in greedy play",
        "limits": f"KL {training['loss.kl']:g}, clip {training['loss.clip_low']:g}, "
                   f"rows per mini-batch {training['optimiser.minibatch_rows']}",
        "excluded": "; ".join(study.left_out()) or "nothing; runs that fell are counted",
        "software": f"{study.machine.software}; training rules {config.rules}; records "
                     f"{config.name}.json",
    }  # fmt: skip


def length_of(study: Trainings, model: str = TINY) -> int:
    """Return the number of rooms of a study about length with a model; 0: it is another study."""
    learning = study.config.learning
    options, other = learning.setup.options, study.config.factors or learning.setup.clone_contexts
    return int(options["length"]) if options.keys() == {"length"} and learning.model == model and not other else 0


def most_faults(study: Trainings) -> int:
    """Return the most faults that the tasks of a study have; 0: they have none."""
    return int(study.config.learning.setup.options.get("faults", [0])[-1])


def kinds_of_tasks(study: Trainings) -> dict[str, dict[str, Bools]]:
    """Return tasks of the test split, and those of the splits beside it behind them, by a property and its values.

    Properties: the number of faults, the kind of task or the length of the shortest solution, whichever there is; and
    how often the clones succeed. A property with one value is left out.
    """
    learning = study.config.learning
    row, envs = settings_of(learning.env), cast(Any, bare_envs(learning, learning.eval_tasks))
    inside, name, values = envs.unwrapped.envs, "faults" if most_faults(study) else row.setup.kinds, list[Any]()
    splits = learning.setup.test, *learning.setup.beside
    tasks = [task for split in splits for task in held_out_tasks(learning, split)]
    for part in (tasks[low : low + envs.num_envs] for low in range(0, len(tasks), envs.num_envs)):
        _, infos = envs.reset(options=part + part[:1] * (envs.num_envs - len(part)))
        shown = infos[name] if name else [env.distance() for env in inside if hasattr(env, "distance")]
        values += list(shown)[: len(part)]
    every, found = np.array(values), dict[str, dict[str, Bools]]()
    if name and len(every):
        title = "number of faults" if most_faults(study) else "kind of task"
        found[title] = {row.kind_names.get(str(each), str(each)): every == each for each in np.unique(every)}
    elif len(every):
        ends = np.unique(np.quantile(every, (0.25, 0.5, 0.75, 1.0), method="lower"))
        cuts = list(zip([int(every.min()), *(ends[:-1].astype(int) + 1)], ends.astype(int), strict=True))
        found["fewest steps to success"] = {
            f"{low} to {high}" if low < high else f"{low}": (every >= low) & (every <= high) for low, high in cuts
        }  # fmt: skip
    if not most_faults(study):
        share = bits([_won(each, mode) for each in _clones(study) for mode in MODES]).mean(0)
        found["the clones' success"] = {
            "never": share == 0, "up to half": (share > 0) & (share <= 0.5), "more than half": share > 0.5,
        }  # fmt: skip
    return {name: masks for name, masks in found.items() if sum(mask.any() for mask in masks.values()) > 1}


def _clones(study: Trainings) -> list[Record]:
    """The clones that final runs begin with."""
    return [record for record in study.clones if record.seed not in study.config.search_seeds]


def _won(record: Record, mode: str = SAMPLED) -> str:
    return record.test[mode] + "".join(played[mode] for played in record.beside.values())


def by_task(study: Trainings) -> list[Table]:
    """Return a table for each of `kinds_of_tasks`: success at the end by a property of the tasks, in sampled play.

    Methods have as many seeds as the reference, and their difference to it in brackets.
    """
    reference, clones = study.finals.get(REFERENCE, []), _clones(study)
    methods = {name: runs for name, runs in study.finals.items() if len(runs) == len(reference)}
    about = f"{study.config.name}, {len(reference)} seeds"

    def cell(runs: Sequence[Record], mask: Bools) -> str:
        def won(record: Record) -> float:
            return float(bits([_won(record)])[0, mask].mean())

        text = f"{100 * np.mean(list(map(won, runs))):.1f}"
        against = runs is not reference and runs is not clones and len(reference) > 1
        return f"{text} ({points(paired_t(paired(runs, reference, won))[0])})" if against else text

    return [
        Table(
            f"{about}: success at the end by {name}",
            ["method", *(f"{label} ({mask.sum()} tasks)" for label, mask in masks.items())],
            [[method, *(cell(runs, mask) for mask in masks.values())]
             for method, runs in {CLONE: clones, **methods}.items()],
        )
        for name, masks in kinds_of_tasks(study).items()
    ]  # fmt: skip


def horizon(studies: Sequence[Trainings]) -> str:
    """Return the tables of the horizon: per measure, success by length, and the differences to the reference."""
    ordered = {f"{rooms} rooms": study for rooms, study in _by_length(studies).items()}
    seeds = "; ".join(f"{rooms}: {len(study.of(REFERENCE, FINAL))}" for rooms, study in ordered.items())
    return titled(across(ordered), f"Seeds: {seeds}. {CAPTION}")


def _by_length(studies: Iterable[Trainings]) -> dict[int, Trainings]:
    found = {length_of(study, study.config.learning.model): study for study in studies}
    return dict(sorted(found.items()))


def titled(tables: Sequence[Table], caption: str) -> str:
    """Return the tables of `across`, in Markdown, and a caption."""
    parts = [
        part for each in tables
        for part in (
            f"**{each.title}**, percent; in brackets the difference to tuned {REFERENCE.upper()}:",
            markdown_table(each.heads, each.texts),
        )
    ]  # fmt: skip
    return "\n\n".join([*parts, filled(caption)]) + "\n"


def by_factor(study: Trainings) -> list[Table]:
    """Return the tables of a study of single factors: a row for each, with the success of its clones."""
    factors = study.by_factor()
    clone = {factor: np.mean(list(map(end, _clones(each)))) for factor, each in factors.items()}
    tables = across({f"{factor} ({100 * clone[factor]:.1f})": each for factor, each in factors.items()})
    turned = [list(zip(*[table.heads, *table.texts], strict=True)) for table in tables]
    seeds = min(len(each.of(REFERENCE, FINAL)) for each in factors.values())
    words = f"Behind a factor: success of its clones, percent. Seeds: {seeds}. {CAPTION}"
    return [
        Table(table.title, ("factor", *heads[1:]), lines, words if table is tables[-1] else "")
        for table, (heads, *lines) in zip(tables, turned, strict=True)
    ]


def across(studies: Mapping[str, Trainings]) -> list[Table]:
    """Return a table for each measure: rows are methods, columns studies, with differences to the reference."""
    compared = {name: {each.method: each for each in compare(study)} for name, study in studies.items()}
    methods = list(dict.fromkeys(method for study in studies.values() for method in study.methods))

    def cell(study: Trainings, known: Comparison | None, method: str, name: str) -> str:
        if method not in study.finals:
            return NONE
        mean = f"{100 * np.mean(list(map(measures(study)[name], study.finals[method]))):.1f}"
        if known is None:
            return mean
        return f"{mean} ({points(known.difference[name])}, {verdict(known.p[name], known.seeds)})"

    return [
        Table(
            title, ["method", *studies],
            [
                [method, *(cell(study, compared[head].get(method), method, name) for head, study in studies.items())]
                for method in methods
            ],
        )
        for name, title in zip(MEASURES, ("Success at the end", "Area under the curve"), strict=True)
    ]  # fmt: skip


def draw_horizon(studies: Sequence[Trainings]) -> Any:
    """Return success at the end, area and tokens to 90 % against the number of steps, a line a method, as a figure."""
    by_length = _by_length(studies)
    lengths, ordered = list(by_length), list(by_length.values())
    methods = [method for method in ordered[0].methods if all(method in study.methods for study in ordered)]
    figure, grid = assemble.new_figure(1, 3, (13.5, 4.4), 110)
    for place, method in enumerate(methods):
        # Beside each other, so that no interval hides another one.
        x = np.arange(len(lengths)) + _DODGE * (place / max(len(methods) - 1, 1) - 0.5)
        line = {
            "color": assemble.colour_of(method.partition(":")[0]), "ls": "--" if ":" in method else "-", "marker": "o",
            "lw": 2.2 if method in (REFERENCE, "oracle") else 1.2, "ms": 3,
        }  # fmt: skip
        for panel, measure in zip(grid.flat[:2], MEASURES, strict=True):
            bands = [seed_band(list(map(measures(study)[measure], study.finals[method])), 1) for study in ordered]
            means = np.array([100 * band.mean for band in bands])
            errors = [[100 * (b.mean - b.low) for b in bands], [100 * (b.high - b.mean) for b in bands]]
            panel.errorbar(x, means, errors, **line, elinewidth=0.9, label=assemble.label(method))
        medians = [np.median(list(map(tokens_to, study.finals[method]))) for study in ordered]
        grid.flat[2].plot(x, np.divide(medians, lengths), **line)
    seeds = [len(study.of(REFERENCE, FINAL)) for study in ordered]
    words = ("success at the end [%]", "area under the curve [%]", "tokens to 90 %, per room (median)")
    for panel, title in zip(grid.flat, words, strict=True):
        panel.set_xticks(range(len(lengths)), [f"{rooms}\n{n} seeds" for rooms, n in zip(lengths, seeds, strict=True)])
        panel.set_xlim(-0.5, len(lengths) - 0.5)
        panel.grid(visible=False, axis="x")
        for between in range(1, len(lengths)):
            panel.axvline(between - 0.5, color="#dddddd", lw=0.8, zorder=0)
        panel.set_xlabel("rooms")
        panel.set_title(title, fontsize=10)
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    return figure
