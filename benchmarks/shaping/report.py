"""`report.html` of the shaping study: table and curves as one self-contained page."""

from __future__ import annotations

import base64
import dataclasses
from importlib import resources
from pathlib import Path

import jinja2
import markupsafe

from benchmarks.shaping.picture import COLOURS, band_words, draw_shaping
from benchmarks.shaping.results import ShapingResults
from benchmarks.shaping.table import COLUMNS, NAMES, caption, cells, table_rows

PICTURE, PAGE = "shaping.png", "report.html"


def write_shaping_report(results: ShapingResults, folder: Path) -> tuple[Path, Path]:
    """Write `shaping.png` and `report.html` into the folder and return their paths."""
    picture, page = folder / PICTURE, folder / PAGE
    draw_shaping(results, picture)
    page.write_text(render(results, picture.read_bytes()), encoding="utf-8")
    return picture, page


def render(results: ShapingResults, picture: bytes) -> str:
    """Return the page; the picture (PNG) is put inside."""
    files = resources.files("benchmarks.report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string((files / "shaping.html.j2").read_text(encoding="utf-8"))
    training, machine = results.config.training, results.machine
    levels = training.levels
    rows = table_rows(results)
    settings = {name: value for name, value in dataclasses.asdict(training).items() if name != "levels"}
    return template.render(
        chips=[
            ("levels", f"{levels.training}, {levels.size}x{levels.size}, boxes: {levels.boxes}"),
            ("solutions", f"{levels.min_length} to {levels.max_length} moves"),
            ("steps", f"{training.steps:,}"),
            ("seeds", ", ".join(map(str, results.config.seeds))),
            ("gamma", f"{training.gamma:g}"),
            ("GAE lambda", f"{training.gae_lambda:g}"),
            ("decay", f"{training.decay:g}"),
            ("scale", f"{training.scale:g}"),
        ],
        rewards=[(NAMES[row.reward], COLOURS[row.reward]) for row in rows],
        lines=list(zip(COLUMNS, zip(*map(cells, rows), strict=True), strict=True)),
        caption=caption(results),
        band=band_words(results),
        picture=base64.b64encode(picture).decode("ascii"),
        about=[
            ("written", results.created),
            ("machine", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}"),
            ("software", ", ".join([f"Python {machine.python}", *(f"{k} {v}" for k, v in machine.versions.items())])),
            ("training", ", ".join(f"{name} {value}" for name, value in settings.items())),
            ("data", "shaping.json beside this page holds every outcome, level by level"),
        ],
        style=markupsafe.Markup((files / "report.css").read_text(encoding="utf-8")),
    )
