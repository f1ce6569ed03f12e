"""The page of the search study: the table, and the searches of one task as graphs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.learning.layout import layered_positions
from benchmarks.learning.report import tile_names
from benchmarks.learning.results import Graph
from benchmarks.report import assemble
from benchmarks.search_players.results import SearchResults
from benchmarks.search_players.table import HEADS, caption, rows

PAGE = "report.html"


def write_search_report(results: SearchResults, folder: Path) -> Path:
    """Write `report.html` into the folder and return its path."""
    page = folder / PAGE
    assemble.write_page(render(results), page)
    return page


def drawn(results: SearchResults) -> list[Graph]:
    """Return the graphs of the budgets at which every method's search can be drawn, the largest budget first."""
    graphs = [score.graph for score in results.scores if score.graph is not None]
    methods = {score.player for score in results.scores if score.budget}
    stages = [stage for stage in _distinct(graphs) if {one.method for one in graphs if one.stage == stage} == methods]
    return [graph for stage in stages[::-1] for graph in graphs if graph.stage == stage]


def render(results: SearchResults) -> str:
    """Return the page."""
    config, graphs = results.config, drawn(results)
    return assemble.page(
        "search.html.j2",
        styles=["report.css"],
        scripts=["board.js", "graph.js"] if graphs else [],
        data={"tiles": tile_names(config.env), "played": "simulations", "graphs": [_graph(graph) for graph in graphs]},
        title=f"Search players on {config.env}",
        chips=[
            ("policy", Path(config.policy).name),
            ("tasks", f"{config.tasks} ({config.split})"),
            ("methods", ", ".join(config.methods)),
            ("budgets", ", ".join(map(str, config.budgets))),
            ("seed", str(config.seed)),
        ],
        heads=HEADS,
        rows=rows(results),
        caption=caption(results),
        stages=_distinct(graphs),
        gamma=f"{config.gamma:g}",
        about=[
            ("written", results.created),
            ("machine", results.machine.hardware),
            ("software", results.machine.software),
            ("policy", config.policy),
            ("seconds", ", ".join(f"{one.player} {one.budget}: {one.seconds:.0f}" for one in results.scores)),
            ("data", "search.json beside this page holds every number, success task by task included"),
        ],
    )


def _distinct(graphs: list[Graph]) -> list[str]:
    return list(dict.fromkeys(graph.stage for graph in graphs))


def _graph(graph: Graph) -> dict[str, Any]:
    plain = dataclasses.asdict(graph)
    for node, (x, y) in zip(plain["nodes"], layered_positions(graph), strict=True):
        node["x"], node["y"] = round(x, 4), round(y, 4)
    return plain
