"""`report.html`: the results of a learning benchmark as one self-contained page, no network, no server.

The page is a Jinja template; styles, scripts and data are put inside. Layouts and statistics are computed here, so
that the scripts only draw.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from baselines.environments.registry import settings_of
from baselines.imitation.method import Imitation
from baselines.recipes.methods import method as method_of
from benchmarks.config import Config
from benchmarks.console import NONE
from benchmarks.learning.curves import band_words, curve_series, draw_curves
from benchmarks.learning.results import Results
from benchmarks.learning.table import Row, caption, table_rows
from benchmarks.report import assemble
from benchmarks.report.assemble import colour_of
from benchmarks.statistics import percent, points
from benchmarks.training.stack import CLONE, EXPERT, RANDOM, tile_names
from benchmarks.training.state_graph import Graph, layered_positions

_SCRIPTS = ("board.js", "chart.js", "curves.js", "episodes.js", "graph.js")
_PLAIN = "#8a94a3"


def write_report(results: Results, folder: Path) -> tuple[Path, Path]:
    """Write `curves.png` and `report.html` into the folder and return their paths."""
    picture, page = folder / "curves.png", folder / "report.html"
    draw_curves(results, picture)
    assemble.write_page(render(results), page)
    return picture, page


def render(results: Results) -> str:
    """Return the page."""
    config = results.config
    return assemble.page(
        "report.html.j2",
        styles=["report.css"],
        scripts=_SCRIPTS,
        libraries=assemble.chart_library(),
        data=page_data(results),
        title=f"Step-level credit on {config.env}",
        lead=_lead(config),
        chips=_chips(results),
        rows=[_row(row) for row in table_rows(results)],
        return_name=settings_of(config.env).return_name,
        caption=caption(results),
        warned=[f"{run.method}, seed {run.seed}, {line}" for run in results.runs for line in run.warnings],
        band=band_words(results),
        gamma=f"{results.graphs[0].gamma:g}" if results.graphs else NONE,
        about=_about(results),
    )


def page_data(results: Results) -> dict[str, Any]:
    """What the scripts of the page draw: curves, episodes by policy, graphs with positions, tiles by symbol."""
    order = [RANDOM, EXPERT, CLONE, *results.config.methods]
    episodes = {
        policy: [dataclasses.asdict(episode) for episode in results.episodes if episode.policy == policy]
        for policy in order
    }
    return {
        "tiles": tile_names(results.config.env),
        "curves": {
            mode: [dataclasses.asdict(series) for series in curve_series(results, mode)]
            for mode in ("greedy", "sampled")
        },
        "episodes": {policy: found for policy, found in episodes.items() if found},
        "graphs": [_graph(graph) for graph in results.graphs],
    }


def _graph(graph: Graph) -> dict[str, Any]:
    plain = dataclasses.asdict(graph)
    for node, (x, y) in zip(plain["nodes"], layered_positions(graph), strict=True):
        node["x"], node["y"] = round(x, 4), round(y, 4)
    return plain


def _row(row: Row) -> dict[str, Any]:
    is_method = row.policy not in (RANDOM, EXPERT, CLONE)
    main = row.greedy or row.sampled
    difference = row.difference
    sign = ""
    if difference is not None and difference.excludes_zero:
        sign = "up" if difference.mean > 0 else "down"
    return {
        "policy": row.policy,
        "kind": "method" if is_method else "bound" if row.policy != CLONE else "start",
        "colour": colour_of(row.policy) if is_method else _PLAIN,
        "greedy": percent(row.greedy),
        "sampled": percent(row.sampled),
        "span": None if main is None else _span(main.low, main.high, main.mean),
        "mean_return": f"{row.mean_return:.2f}",
        "mean_length": f"{row.mean_length:.1f}",
        "invalid": f"{100 * row.invalid_rate:.1f} %",
        "difference": points(difference),
        "sign": sign,
        "seconds": NONE if row.seconds is None else f"{row.seconds:.0f} s",
    }


def _span(low: float, high: float, mean: float) -> tuple[float, float, float]:
    """Left end, width (never nothing) and mark of an interval on a scale of 0 to 100."""
    return round(100 * low, 2), max(round(100 * (high - low), 2), 0.8), min(round(100 * mean, 2), 99.0)


def _lead(config: Config) -> str:
    policies = "Tiny language-model policies" if config.model == "tiny" else "Language-model policies"
    begin = "cloned from an expert and then trained" if config.clone_tasks else "trained without a warm start"
    ways = "by reinforcement learning; the methods differ in how they credit the steps of episodes"
    if any(isinstance(method_of(name), Imitation) for name in config.methods):
        ways = "by imitation or reinforcement learning; the methods differ in what they learn from"
    return f"{policies} are {begin} {ways}, and in nothing but the settings that belong to a method."


def _chips(results: Results) -> list[tuple[str, str]]:
    config = results.config
    return [
        ("methods", ", ".join(config.methods)),
        ("seeds", ", ".join(map(str, config.seeds))),
        ("iterations", str(config.steps)),
        ("per iteration", f"{config.groups} tasks x {config.group_size} episodes"),
        (
            "warm start",
            f"{config.clone_tasks} expert episodes x {config.clone_epochs} epochs" if config.clone_tasks else "none",
        ),
        ("model", f"{config.model}, adapters of rank {config.lora}" if config.lora else config.model),
        ("prompt", "the whole conversation" if config.transcript else f"{config.history} earlier steps"),
        ("test tasks", str(config.eval_tasks)),
    ]


def _about(results: Results) -> list[tuple[str, str]]:
    machine, config = results.machine, results.config
    settings = ", ".join(f"{name} {value}" for name, value in config.training.items())
    return [
        ("written", results.created),
        ("machine", machine.hardware),
        ("software", machine.software),
        ("training", f"{settings}; on top of these come a method's own settings, see baselines.recipes"),
        *([] if results.data is None else [("data", results.data.words)]),
        ("files", "results.json beside this page holds every number, success task by task included"),
    ]
