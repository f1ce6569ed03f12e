"""What a head to head shows: its table, and the Markdown and pictures that are made of its records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from agentgym.outside.files import write_file
from baselines.runs.stack import CLONE, GREEDY, SAMPLED
from benchmarks.console import NONE, say, table
from benchmarks.json_files import ResultsError
from benchmarks.report import assemble
from benchmarks.report.markdown import checklist, filled, markdown_table, replaced
from benchmarks.statistics import (
    Interval,
    bits,
    paired_difference,
    paired_t,
    percent,
    points,
    seed_band,
    success_interval,
)
from benchmarks.training import dose, evidence, informed
from benchmarks.training.records import FINAL, REFERENCE, SEARCH, Record, Setting, Trainings, by_setting, choose
from benchmarks.training.run import STAGES

MODES = (SAMPLED, GREEDY)
#: Panels beside each other.
_WIDE = 6
_GREY = "#b4bac3"
OUTCOMES = (
    "method", "seeds", "sampled %", "greedy %", "sampled - clone", "sampled - grpo", "greedy - grpo",
)  # fmt: skip
PARTS = (*STAGES, "scorer")
COSTS = ("method", "iterations", "tokens", "processor s", *(f"{part} %" for part in PARTS), *dose.HEADS)
COST_CAPTION = (
    "Means over seeds. Tokens are those of all replies of a run's rollouts, continuations and replaced groups "
    "included; a run ends with the iteration that reaches the budget. Processor seconds are those of training, without "
    "cloning and validation. Shares of a run's time in percent: the scorer's, a critic's or reward model's, is a part "
    f"of credit and update. {dose.CAPTION}"
)
#: What intervals of success and its differences speak of, and when they do not: see `paired_comparison`.
INTERVALS = "95 % intervals for new seeds and new tasks (with one seed: for new tasks)"
AGREEING = "Where the seeds happen to agree, an interval speaks of tasks alone, and is too narrow for new seeds."


def by_success(study: Trainings) -> dict[str, list[Record]]:
    """Return the final runs by method, clones first, then the reference, then the others by sampled success."""
    finals = {method: study.of(method, FINAL) for method in study.methods}
    used = {record.seed for records in finals.values() for record in records}
    best = sorted(finals, key=lambda method: (method != REFERENCE, -_success(finals[method], SAMPLED).mean))
    clones = [record for record in study.of(CLONE, CLONE) if record.seed in used]
    return {CLONE: clones, **{method: finals[method] for method in best}}


def _success(records: Sequence[Record], mode: str) -> Interval:
    return success_interval([record.test[mode] for record in records])


def outcomes(study: Trainings) -> list[list[str]]:
    """Return the cells of all policies, in the order of `OUTCOMES`."""
    found = by_success(study)
    lines = []
    for method, records in found.items():
        reference = [] if method in (CLONE, REFERENCE) else found.get(REFERENCE, [])
        lines.append([
            method, str(len(records)), *(percent(_success(records, mode)) for mode in MODES),
            _less(records, [] if method == CLONE else found[CLONE], SAMPLED),
            *(_less(records, reference, mode) for mode in MODES),
        ])  # fmt: skip
    return lines


def _less(records: Sequence[Record], others: Sequence[Record], mode: str) -> str:
    """Success of runs less that of others with the same seeds; with one seed the interval is for new tasks."""
    known = {other.seed: other.test[mode] for other in others}
    own = {record.seed: record.test[mode] for record in records if record.seed in known}
    mine, theirs = list(own.values()), [known[seed] for seed in own]
    if len(own) < 2:
        return points(paired_difference(mine, theirs)) if own else NONE
    return points(paired_t(bits(mine).mean(1) - bits(theirs).mean(1))[0])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def costs(study: Trainings) -> list[list[str]]:
    """Return the cells of all methods, in the order of `COSTS`."""
    lines = []
    for method, records in list(by_success(study).items())[1:]:
        shares = [
            f"{100 * _mean([record.shares[part] for record in records]):.0f}" if part in records[0].shares else NONE
            for part in PARTS
        ]
        means = {name: _mean([getattr(each, name) for each in records]) for name in ("iterations", "tokens")}
        spent = [f"{means['iterations']:.0f}", f"{means['tokens']:,.0f}"]
        spent.append(f"{_mean([record.processor_seconds for record in records]):.0f}")
        lines.append([method, *spent, *shares, *dose.cells([record.dose for record in records])])
    return lines


def caption(study: Trainings) -> str:
    """What the outcomes are, in one paragraph."""
    learning = study.config.learning
    return (
        f"Success on {learning.eval_tasks} test tasks in percent, mean of the seeds with {INTERVALS}; differences in "
        "percentage points, paired by seed, each with the 95 % interval of a paired t test over seeds (with one seed: "
        f"over tasks). Sampled play at temperature {learning.temperature:g}."
    )


def search_rows(study: Trainings, method: str) -> list[tuple[Setting, float, float, bool]]:
    """Return the tried settings of a method, each with its sampled and greedy success, and whether it was chosen."""
    records = study.of(method, SEARCH)
    chosen = choose(records, study.config.judged_points)
    return [
        (
            setting,
            _mean([run.curve[-1].sampled for run in runs]),
            _mean([run.curve[-1].greedy for run in runs]),
            setting == chosen,
        )
        for setting, runs in by_setting(records)
    ]


def searched(study: Trainings) -> list[str]:
    """Return all methods with a run of the search, in the order of the records."""
    return list(dict.fromkeys(record.method for record in study.records if record.stage == SEARCH))


def print_study(study: Trainings, console: Console) -> None:
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
    title = f"{study.config.name}: {study.config.token_budget:,} reply tokens each"
    console.print(table(OUTCOMES, outcomes(study), title=title, caption=caption(study)))
    said = "what is settled against tuned GRPO"
    console.print(table(evidence.HEADS, evidence.rows(study), title=said, caption=evidence.CAPTION))
    console.print(table(COSTS, costs(study), title="what it took", caption=COST_CAPTION))


def write_reports(studies: Sequence[Trainings], out: Path, pages: Path | None = None) -> list[Path]:
    """Write `<out>/<name>.md` and `<out>/<name>.png` of every study with final runs, and return what was written.

    With `pages`, a folder of Markdown pages, a summary replaces the text between the marks of the study's name on one
    of them instead, and pictures go to the folder images beside it.
    """
    out.mkdir(parents=True, exist_ok=True)
    shown, written = [study for study in studies if study.methods], list[Path]()
    pictures = out if pages is None else pages.parent / "images"

    def put(name: str, text: str) -> None:
        written.append(out / f"{name}.md" if pages is None else _page_of(pages, name))
        if pages is not None:
            text = replaced(written[-1].read_text(encoding="utf-8"), name, text)
        write_file(written[-1], text.encode())

    for study in shown:
        name = study.config.name
        if study.config.learning.setup.clone_contexts:
            put(name, informed.section(study))
            continue
        picture = pictures / (f"{name}.png" if pages is None else f"head_to_head_{name}.png")
        draw_curves(study, picture)
        put(name, section(study, picture.name) if pages is None else summary(study, f"../images/{picture.name}"))
        written.append(picture)
    faults = [study for study in shown if evidence.most_faults(study)]
    if faults and pages is not None:
        put("faults", "\n\n".join(map(evidence.by_faults, faults)) + "\n")
    lengths = [study for study in shown if evidence.length_of(study)]
    if len(lengths) > 1:
        written.append(pictures / "horizon.png")
        evidence.draw_horizon(lengths, written[-1])
        if pages is not None:
            put("horizon", evidence.horizon(lengths))
    return written


def _page_of(pages: Path, name: str) -> Path:
    for page in sorted(pages.glob("*.md")):
        if f"<!-- {name} -->" in page.read_text(encoding="utf-8"):
            return page
    raise ResultsError(
        f"{pages} has no page for {name}: begin head-to-head-{name}.md with a title, <!-- {name} --> and "
        f"<!-- end of {name} -->"
    )


def summary(study: Trainings, picture: str) -> str:
    """Return outcomes, verdicts and curves of a study; `section` has the rest."""
    parts = [
        filled(_told(study)),
        markdown_table(OUTCOMES, outcomes(study)),
        markdown_table(evidence.HEADS, evidence.rows(study)),
        f"![Validation success of every method over tokens and over processor time]({picture})",
    ]
    return "\n\n".join([*parts, *(f"* {words}" for words in study.left_out())]) + "\n"


def _told(study: Trainings) -> str:
    config = study.config
    learning, training = config.learning, config.learning.training
    epochs = f"{learning.clone_epochs} time{'s' if learning.clone_epochs > 1 else ''}"
    told = (
        f"{config.token_budget:,} reply tokens per run; per iteration {learning.groups} tasks x {learning.group_size} "
        f"episodes at temperature {learning.temperature:g}, unless a setting says otherwise; learning rates fall "
        f"linearly with the tokens, mini-batches have {training['optimiser.minibatch_rows']} rows. Clones read "
        f"{learning.clone_tasks} expert episodes, at most {epochs}. "
    )
    if config.settings:
        told += (
            f"{config.settings} settings per method, trained with seed {config.search_seed}, chosen on "
            f"{learning.validation_tasks} validation tasks by the mean of sampled and greedy success."
        )
    else:
        told += f"Nothing was searched: all methods have the learning rate {training['learning_rate']:g}."
    if learning.data is not None:
        told += f" The tasks are those of others, with the fingerprint {learning.data}."
    return told


def section(study: Trainings, picture: str) -> str:
    """Return all of a study: what was run, its tables, its curves, its search, and how it was measured."""
    tried = "What was tried, and what was chosen (validation success in percent, sampled and greedy):"
    parts = [
        filled(_told(study)),
        markdown_table(OUTCOMES, outcomes(study)),
        filled(caption(study)),
        markdown_table(evidence.HEADS, evidence.rows(study)),
        filled(evidence.CAPTION),
        markdown_table(COSTS, costs(study)),
        filled(COST_CAPTION),
        f"![Validation success of every method over tokens and over processor time]({picture})",
        *(
            [tried, markdown_table(("method", "settings"), [[each, _tried(study, each)] for each in searched(study)])]
            if study.config.settings
            else []
        ),
        *(f"* {words}" for words in study.left_out()),
        checklist(evidence.reported(study)),
    ]
    return "\n\n".join(parts) + "\n"


def _tried(study: Trainings, method: str) -> str:
    words = []
    for setting, sampled, greedy, chosen in search_rows(study, method):
        own = setting.recipe.removeprefix(method).strip(":").split(":")
        options = ", ".join([*filter(None, own), *(f"{name}={value:g}" for name, value in setting.training.items())])
        mark = "**" if chosen else ""
        words.append(f"{mark}{options}: {100 * sampled:.0f}, {100 * greedy:.0f}{mark}")
    return "; ".join(words)


def draw_curves(study: Trainings, path: Path) -> None:
    """Write validation success over reply tokens (above) and over processor seconds, each method before the others.

    Lines are means over seeds of sampled (solid) and greedy play (dashed), with the band of `seed_band` for the first.
    """
    methods = study.methods
    columns = min(_WIDE, len(methods))
    high = -(-len(methods) // columns)
    figure, grid = assemble.new_figure(
        2 * high, columns, (1.2 + 2.3 * columns, 0.8 + 4.2 * high), 100, sharey=True, sharex=False
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    tasks = study.config.learning.validation_tasks
    for half, axis in enumerate(("tokens", "seconds")):
        lines = {method: _curve(study.of(method, FINAL), axis) for method in methods}
        longest = max(x[-1] for x, _ in lines.values())
        block = grid[half * high : (half + 1) * high]
        for panel, method in zip_longest(block.flat, methods):
            if method is None:
                panel.set_visible(False)
                continue
            _draw(panel, lines, method, tasks)
            panel.set_title(assemble.label(method.partition(":")[0]), fontsize=10)
            panel.set_xlim(0, 1.02 * longest)
            panel.set_xlabel("reply tokens" if axis == "tokens" else "processor seconds", fontsize=8)
            panel.tick_params(labelsize=7)
        for row in block:
            row[0].set_ylabel("validation success [%]", fontsize=8)
    seeds = sorted({record.seed for method in methods for record in study.of(method, FINAL)})
    figure.suptitle(
        f"{assemble.label(study.config.name)}: seeds {', '.join(map(str, seeds))};\nsolid sampled, dashed greedy, "
        "grey the other methods' sampled play",
        fontsize=9,
    )
    assemble.write_picture(figure, path)


def draw_method(study: Trainings, method: str) -> bytes:
    """Validation success of one method over reply tokens, before the others, as an SVG; lines as in `draw_curves`."""
    lines = {name: _curve(study.of(name, FINAL), "tokens") for name in study.methods}
    figure, grid = assemble.new_figure(1, 1, (5.6, 3.2), 100)
    panel = grid.flat[0]
    _draw(panel, lines, method, study.config.learning.validation_tasks)
    panel.set_xlabel("reply tokens")
    panel.set_ylabel("validation success [%]")
    return assemble.as_svg(figure)


def _curve(records: Sequence[Record], axis: str) -> tuple[Any, dict[str, Any]]:
    """Mean place of the k-th validation, and float64 (seeds, validations) of success per mode."""
    points = min(len(record.curve) for record in records)
    places = [[getattr(point, axis) for point in record.curve[:points]] for record in records]
    success = {
        mode: np.array([[getattr(point, mode) for point in record.curve[:points]] for record in records])
        for mode in ("sampled", "greedy")
    }
    return np.mean(places, axis=0), success


def _draw(panel: Any, lines: dict[str, tuple[Any, dict[str, Any]]], method: str, tasks: int) -> None:
    for places, success in lines.values():
        panel.plot(places, 100 * success["sampled"].mean(0), color=_GREY, lw=0.7)
    (x, success), colour = lines[method], assemble.colour_of(method.partition(":")[0])
    bands = [seed_band(list(column), tasks) for column in success["sampled"].T]
    panel.fill_between(
        x, [100 * band.low for band in bands], [100 * band.high for band in bands], color=colour, alpha=0.2, lw=0
    )
    panel.plot(x, 100 * success["sampled"].mean(0), color=colour, marker="o", ms=2.5, lw=1.6)
    panel.plot(x, 100 * success["greedy"].mean(0), color=colour, lw=1.2, ls="--")
