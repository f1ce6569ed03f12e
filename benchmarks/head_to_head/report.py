"""Pictures and Markdown of a head to head, made from their records; and the pages that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.outside.files import write_file
from benchmarks.head_to_head.results import FINAL, Record, Study
from benchmarks.head_to_head.table import (
    COST_CAPTION,
    COSTS,
    OUTCOMES,
    caption,
    costs,
    outcomes,
    search_rows,
    searched,
    table_rows,
    trained,
)
from benchmarks.json_files import ResultsError
from benchmarks.report import assemble
from benchmarks.report.markdown import filled, markdown_table, replaced
from benchmarks.statistics import seed_band

#: Panels beside each other.
_WIDE = 6
_GREY = "#b4bac3"


def write_reports(studies: Sequence[Study], out: Path, pages: Path | None = None) -> list[Path]:
    """Write `<out>/<name>.md` and `<out>/<name>.png` of every study with final runs, and return what was written.

    Args:
        studies: one per environment.
        out: folder, created when missing.
        pages: a folder of Markdown pages; what stands in its `head-to-head-<name>.md` between the lines
            `<!-- <name> -->` and `<!-- end of <name> -->` is replaced instead, and pictures go to the folder images
            beside it.

    Raises:
        ResultsError: there is no such page, or it has no such lines.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for study in studies:
        if not study.methods:
            continue
        name = study.config.name
        if pages is None:
            page, picture = out / f"{name}.md", out / f"{name}.png"
            text = section(study, picture.name)
        else:
            page, picture = pages / f"head-to-head-{name}.md", pages.parent / "images" / f"head_to_head_{name}.png"
            if not page.is_file():
                raise ResultsError(f"there is no page {page}: begin it with a title, <!-- {name} --> and its end")
            text = replaced(page.read_text(encoding="utf-8"), name, section(study, f"../images/{picture.name}"))
        draw_curves(study, picture)
        write_file(page, text.encode())
        written += [page, picture]
    return written


def section(study: Study, picture: str) -> str:
    """Return the part of a page about one study: what was run, its table, its search and its curves."""
    config = study.config
    learning, training, rows = config.learning, config.learning.training, table_rows(study)
    epochs = f"{learning.clone_epochs} time{'s' if learning.clone_epochs > 1 else ''}"
    told = (
        f"{config.token_budget:,} reply tokens per run; per iteration {learning.groups} tasks x {learning.group_size} "
        f"episodes at temperature {learning.temperature:g}, unless a setting says otherwise; learning rates fall "
        f"linearly with the tokens, mini-batches have {training['optimiser.minibatch_rows']} rows. Clones read "
        f"{learning.clone_tasks} expert episodes, at most {epochs}. {config.settings} settings per method, "
        f"trained with seed {config.search_seed}, chosen on {learning.validation_tasks} validation tasks by the mean "
        "of sampled and greedy success."
    )
    if learning.data is not None:
        told += f" The tasks are those of others, with the fingerprint {learning.data}."
    tried = "What was tried, and what was chosen (validation success in percent, sampled and greedy):"
    parts = [
        filled(told),
        markdown_table(OUTCOMES, [outcomes(row) for row in rows]),
        filled(caption(study, rows)),
        markdown_table(COSTS, [costs(row) for row in trained(rows)]),
        filled(COST_CAPTION),
        f"![Validation success of every method over tokens and over processor time]({picture})",
        tried,
        markdown_table(("method", "settings"), [[method, _tried(study, method)] for method in searched(study)]),
        *(f"* {words}" for words in study.left_out()),
        filled(f"The last run was on {study.machine.hardware}; {study.machine.software}."),
    ]
    return "\n\n".join(parts) + "\n"


def _tried(study: Study, method: str) -> str:
    words = []
    for setting, sampled, greedy, chosen in search_rows(study, method):
        own = setting.recipe.removeprefix(method).strip(":").split(":")
        options = ", ".join([*filter(None, own), *(f"{name}={value:g}" for name, value in setting.training.items())])
        mark = "**" if chosen else ""
        words.append(f"{mark}{options}: {100 * sampled:.0f}, {100 * greedy:.0f}{mark}")
    return "; ".join(words)


def draw_curves(study: Study, path: Path) -> None:
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


def draw_method(study: Study, method: str) -> bytes:
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
