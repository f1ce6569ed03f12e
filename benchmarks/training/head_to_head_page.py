"""Page of a head to head: its tables, Markdown and pictures, made from its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from baselines.environments.settings import SMOLLM2, TINY
from baselines.runs.stack import CLONE, SAMPLED
from benchmarks.console import NONE
from benchmarks.json_files import ResultsError
from benchmarks.options import REFERENCE
from benchmarks.report import assemble
from benchmarks.report.markdown import checklist, filled
from benchmarks.report.page import Cell, Figure, Page, Table, put, ruled, written_tables
from benchmarks.statistics import Interval, paired_difference, paired_t, percent, points, seed_band, success_interval
from benchmarks.training import evidence, informed
from benchmarks.training.records import SEARCH, Record, StudyConfig, Trainings, by_setting, choose
from benchmarks.training.run import STAGES

MODES = evidence.MODES
#: Studies whose tasks are told apart, to see where step credit matters there.
_BY_TASK = ("sokoban", "alfworld")
#: Panels beside each other.
_WIDE = 6
_GREY = "#b4bac3"
OUTCOMES = (
    "method", "seeds", "sampled %", "greedy %", "sampled - clone", f"sampled - {REFERENCE}", f"greedy - {REFERENCE}",
)  # fmt: skip


def _in(column: str, name: str) -> Callable[[Record], float | None]:
    return lambda run: getattr(run, column).get(name)


#: Columns of costs: a run's number, None where it was not recorded, and what it is multiplied by.
COSTS: dict[str, tuple[Callable[[Record], float | None], int]] = {
    "iterations": (lambda run: run.iterations, 1),
    "tokens": (lambda run: run.tokens, 1),
    "processor s": (lambda run: run.processor_seconds, 1),
    **{f"{part} %": (_in("shares", part), 100) for part in (*STAGES, "scorer")},
    "effective steps": (_in("dose", "samples"), 1),
    "optimiser steps": (_in("dose", "updates"), 1),
    "sum of |A|": (_in("dose", "credit"), 1),
    "credit 0 %": (_in("dose", "silent"), 100),
    "decisions %": (_in("dose", "decisions"), 100),
}
COST_CAPTION = (
    "Means over seeds. Tokens: all reply tokens of a run's rollouts, including continuations and replaced groups; a "
    "run ends with the iteration that reaches the budget. Processor seconds: training, without cloning and validation. "
    "Shares of a run's time in percent; that of the scorer (a critic or reward model) is part of credit and update. "
    "Dose, means over seeds. Effective steps: sum over iterations of (sum |A|)^2 / sum A^2, A the credit of a step. "
    "Decisions: share of steps in states where one admissible action is optimal and another is not, in sampled play of "
    "the trained policy. A dash: not recorded, or unknown in this environment."
)
#: What intervals of success and its differences cover, see `paired_comparison`.
INTERVALS = "95 % intervals for new seeds and new tasks (with one seed: for new tasks)"


def by_success(study: Trainings) -> dict[str, list[Record]]:
    """Return the final runs by method, clones first, then the reference, then the others by sampled success."""
    finals = study.finals
    used = {record.seed for records in finals.values() for record in records}
    best = sorted(finals, key=lambda method: (method != REFERENCE, -success(finals[method], SAMPLED).mean))
    clones = [record for record in study.clones if record.seed in used]
    return {CLONE: clones, **{method: finals[method] for method in best}}


def success(records: Sequence[Record], mode: str) -> Interval:
    """Return success on the test tasks, with an interval for new seeds and new tasks."""
    return success_interval([record.test[mode] for record in records])


def outcomes(study: Trainings) -> list[list[str]]:
    """Return the cells of all policies, in the order of `OUTCOMES`."""
    found = by_success(study)
    lines = []
    for method, records in found.items():
        reference = [] if method in (CLONE, REFERENCE) else found.get(REFERENCE, [])
        lines.append([
            method, str(len(records)), *(percent(success(records, mode)) for mode in MODES),
            difference(records, [] if method == CLONE else found[CLONE], SAMPLED),
            *(difference(records, reference, mode) for mode in MODES),
        ])  # fmt: skip
    return lines


def difference(records: Sequence[Record], others: Sequence[Record], mode: str) -> str:
    """Success of runs minus that of others with the same seeds; with one seed the interval is for new tasks."""
    found = evidence.paired(records, others, lambda record: evidence.end(record, mode))
    if len(found) > 1:
        return points(paired_t(found)[0])
    theirs = {other.seed: other.test[mode] for other in others}
    one = [(record.test[mode], theirs[record.seed]) for record in records if record.seed in theirs]
    return points(paired_difference(*zip(*one, strict=True))) if one else NONE


def cost_cells(runs: Sequence[Record]) -> list[str]:
    """Return the means of one method's runs, in the order of `COSTS`."""
    cells = []
    for value, scale in COSTS.values():
        known = [number for run in runs if (number := value(run)) is not None]
        cells.append(f"{scale * np.mean(known):,.0f}" if len(known) == len(runs) else NONE)
    return cells


def searched(study: Trainings) -> list[Sequence[Cell] | None]:
    """Return a row for each setting that was tried, with its validation success in both modes, method by method."""
    rows = []
    for method in dict.fromkeys(record.method for record in study.records if record.stage == SEARCH):
        records = study.of(method, SEARCH)
        chosen = choose(records, study.config.judged_points)
        for setting, runs in by_setting(records):
            won = [f"{100 * np.mean([getattr(run.curve[-1], mode) for run in runs]):.1f}" for mode in MODES]
            rows.append((method, [method, setting.label, *won, "yes" if setting == chosen else ""]))
    return ruled(rows)


def page(study: Trainings) -> Page:
    """Return the page of a study: runs, outcomes, verdicts, costs, the search, curves, and how it was measured."""
    config, learning = study.config, study.config.learning
    if learning.setup.clone_contexts:
        return informed.page(study)
    if config.factors:
        return Page(config.name, _conditions(study), evidence.by_factor(study), warnings=study.left_out())
    costs = [[method, *cost_cells(runs)] for method, runs in by_success(study).items() if method != CLONE]
    found = [
        Table(
            f"{config.name}: {config.token_budget:,} reply tokens each", OUTCOMES, outcomes(study),
            f"Success on {learning.eval_tasks} test tasks in percent, mean of the seeds with {INTERVALS}; differences "
            "in percentage points, paired by seed, each with the 95 % interval of a paired t test over seeds (with one "
            f"seed: over tasks). Sampled play at temperature {learning.temperature:g}.",
        ),
        Table(
            f"verdicts against tuned {REFERENCE.upper()}", evidence.HEADS, evidence.rows(study),
            f"Settings: how many were tried. {evidence.CAPTION}",
        ),
        Table("cost and dose", ("method", *COSTS), costs, COST_CAPTION),
    ]  # fmt: skip
    if config.settings:
        heads = ("method", "setting", "sampled %", "greedy %", "chosen")
        found.append(Table("the search", heads, searched(study), f"Success {_judged(config)}."))
    return Page(
        config.name, _conditions(study), found if study.methods else found[3:], warnings=study.left_out(),
        figures=[Figure(f"{config.name}.png", "Validation success", lambda: draw_curves(study))],
        reported=evidence.reported(study),
    )  # fmt: skip


def write_between_marks(studies: Sequence[Trainings], pages: Path) -> list[Path]:
    """Write what studies with final runs found into a folder of Markdown pages, and return what was written.

    A summary replaces the text between the marks of a study's name on one of the pages; pictures go to the folder
    images beside the folder.
    """
    known, written = [study for study in studies if study.methods], list[Path]()
    informed = [study for study in known if study.config.learning.setup.clone_contexts]
    parts: dict[str, tuple[str, dict[str, Any]]] = {}
    for study in known:
        # A length of the horizon is in its picture; factors and contexts have none.
        none = study in informed or study.config.factors or evidence.length_of(study, study.config.learning.model)
        picture = "" if none else f"head_to_head_{study.config.name}.png"
        pictures = {picture: draw_curves(study)} if picture else {}
        # Captions stand elsewhere; those about privileged contexts stand in the first of their sections.
        text = section(study, picture and f"../images/{picture}", whole=study in informed[:1])
        parts[study.config.name] = text, pictures
    tiny = [study for study in known if study.config.learning.model == TINY and not study.config.factors]
    faults = [study for study in tiny if evidence.most_faults(study)]
    for name, chosen in (("faults", faults), ("by-task", [each for each in known if each.config.name in _BY_TASK])):
        if chosen and _pages_of(pages, name):
            tables = [table for study in chosen for table in evidence.by_task(study)]
            parts[name] = evidence.titled(tables, evidence.BY_TASK), {}
    for model, name in ((TINY, "horizon"), (SMOLLM2, f"horizon-{SMOLLM2}")):
        lengths = [study for study in known if evidence.length_of(study, model)]
        if len(lengths) > 1:
            # The few methods of a pretrained model are in the tables of its lengths.
            picture = f"![Success, area under the curve and tokens to 90 % by number of rooms](../images/{name}.png)\n"
            text = evidence.horizon(lengths) if model == TINY else picture
            parts[name] = text, {f"{name}.png": evidence.draw_horizon(lengths)}
    for name, (text, pictures) in parts.items():
        if not (places := _pages_of(pages, name)):
            raise ResultsError(
                f"{pages} has no page for {name}: begin head-to-head-{name}.md with a title, <!-- {name} --> and "
                f"<!-- end of {name} -->"
            )
        written += put(text, name, places[0], pages.parent / "images", pictures)
    return written


def _pages_of(pages: Path, name: str) -> list[Path]:
    return [place for place in sorted(pages.glob("*.md")) if f"<!-- {name} -->" in place.read_text(encoding="utf-8")]


def _joined(study: Trainings) -> Table:
    """Return outcomes and verdicts as one table; sampled success minus the reference's is among the verdicts."""
    twice = OUTCOMES.index(f"sampled - {REFERENCE}")
    found = {row[0]: row[2:] for row in evidence.rows(study)}
    missing = [NONE] * (len(evidence.HEADS) - 2)
    rows = [[*row[:twice], *row[twice + 1 :], *found.get(row[0], missing)] for row in outcomes(study)]
    return Table("", (*OUTCOMES[:twice], *OUTCOMES[twice + 1 :], *evidence.HEADS[2:]), rows)


def section(study: Trainings, picture: str = "", *, whole: bool = True) -> str:
    """Return the page of a study as a section of another one, whole or without captions, costs and search."""
    shown = page(study)
    if study.config.factors:
        caption = shown.tables[-1].caption
        words = caption if whole else caption.removesuffix(evidence.CAPTION)
        return f"{filled(shown.lead)}\n\n{evidence.titled(shown.tables, words)}"
    tables = shown.tables if whole or not shown.figures else [_joined(study)]
    parts = [filled(shown.lead), written_tables(tables, whole)]
    if picture and shown.figures:
        parts.append(f"![Validation success of every method over tokens and over processor time]({picture})")
    parts += [f"* {words}" for words in shown.warnings]
    if whole and shown.reported:
        parts.append(checklist(shown.reported))
    return "\n\n".join(parts) + "\n"


def _conditions(study: Trainings) -> str:
    config = study.config
    learning, training = config.learning, config.learning.training
    epochs = f"{learning.clone_epochs} time{'s' if learning.clone_epochs > 1 else ''}"
    text = (
        f"{config.token_budget:,} reply tokens per run; per iteration {learning.groups} tasks x {learning.group_size} "
        f"episodes at temperature {learning.temperature:g}, mini-batches of {training['optimiser.minibatch_rows']} "
        f"rows. Clones learn from {learning.clone_tasks} expert episodes, at most {epochs}. "
    )
    if config.settings:
        text += (
            f"{config.settings} settings per method, chosen by the mean of sampled and greedy success on "
            f"{learning.validation_tasks} tasks, {_judged(config, config.judged_points)}."
        )
    else:
        text += f"No search: all methods have the learning rate {training['learning_rate']:g}."
    if learning.data is not None:
        text += f" The tasks are external data with the fingerprint {learning.data}."
    return text


def _judged(config: StudyConfig, points: int = 1) -> str:
    last = "last validation" if points == 1 else f"last {points} validations"
    *first, end = map(str, config.search_seeds)
    seeds = f"seeds {', '.join(first)} and {end}" if first else f"seed {end}"
    return f"in the {last} of {seeds}"


def draw_curves(study: Trainings) -> Any:
    """Return validation success over reply tokens (above) and processor seconds, each method before the others.

    Lines are means over seeds of sampled (solid) and greedy play (dashed), with the band of `seed_band` for the first.
    """
    finals = study.finals
    columns = min(_WIDE, len(finals))
    high = -(-len(finals) // columns)
    figure, grid = assemble.new_figure(
        2 * high, columns, (1.2 + 2.3 * columns, 0.8 + 4.2 * high), 100, sharey=True, sharex=False
    )
    tasks = study.config.learning.validation_tasks
    for half, axis in enumerate(("tokens", "seconds")):
        lines = {method: _curve(runs, axis) for method, runs in finals.items()}
        longest = max(x[-1] for x, _ in lines.values())
        block = grid[half * high : (half + 1) * high]
        for panel, method in zip_longest(block.flat, finals):
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
    seeds = sorted({record.seed for runs in finals.values() for record in runs})
    figure.suptitle(
        f"{assemble.label(study.config.name)}: seeds {', '.join(map(str, seeds))};\nsolid sampled, dashed greedy, "
        "grey the other methods' sampled play",
        fontsize=9,
    )
    return figure


def draw_method(study: Trainings, method: str) -> bytes:
    """Validation success of one method over reply tokens, before the others, as an SVG; lines as in `draw_curves`."""
    lines = {name: _curve(runs, "tokens") for name, runs in study.finals.items()}
    figure, grid = assemble.new_figure(1, 1, (5.6, 3.2), 100)
    panel = grid.flat[0]
    _draw(panel, lines, method, study.config.learning.validation_tasks)
    panel.set_xlabel("reply tokens")
    panel.set_ylabel("validation success [%]")
    return assemble.as_svg(figure)


def _curve(records: Sequence[Record], axis: str) -> tuple[Any, dict[str, Any]]:
    """Mean place of the k-th validation, and float64 (seeds, validations) of success per mode."""
    length = min(len(record.curve) for record in records)
    found = {
        name: np.array([[getattr(point, name) for point in record.curve[:length]] for record in records])
        for name in (axis, *MODES)
    }
    return found.pop(axis).mean(0), found


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
