"""The page and the picture of the league: credits by environments, a table that sorts, what groups have to compare."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league.registry import WITHOUT_ROWS
from benchmarks.league.results import League, Standing, ceiling_mean, counts, credits_of, mean_measure
from benchmarks.league.table import caption
from benchmarks.ranking.credit import REFERENCE
from benchmarks.ranking.measures import MEASURES
from benchmarks.ranking.table import CORRELATIONS, EXPLAINED
from benchmarks.report import assemble
from benchmarks.report.assemble import colour_of
from benchmarks.statistics import Interval

PICTURE, PAGE = "league.png", "report.html"
_PLAIN = "#8a94a3"
_CEILING = "ceiling"
#: Columns of the second table, and whether they are shares.
_GROUP_HEADS = (
    ("won", True), ("shared", True), ("once", True), ("tied", True), ("mixed", True), ("known", True),
    ("ceiling", False), ("signs", True), ("error", False), ("steps for truth", False), ("for vine", False),
)  # fmt: skip


def write_league_report(league: League, folder: Path) -> tuple[Path, Path]:
    """Write `league.png` and `report.html` into the folder and return their paths."""
    picture, page = folder / PICTURE, folder / PAGE
    draw_league(league, picture)
    assemble.write_page(render(league, picture), page)
    return picture, page


def render(league: League, picture: Path) -> str:
    """Return the page, with the picture inside."""
    config = league.config
    return assemble.page(
        "league.html.j2",
        styles=["report.css"],
        scripts=["board.js", "sorted_table.js", "league.js"],
        data=page_data(league),
        chips=[
            ("environments", ", ".join(config.players)),
            ("tasks", ", ".join(map(str, config.tasks.values()))),
            ("episodes", f"{config.episodes} per task and player"),
            ("groups of", ", ".join(map(str, config.sizes))),
            ("credits", str(len(credits_of(league)))),
            ("seed", str(config.seed)),
        ],
        measures={name: EXPLAINED[name][0] for name in MEASURES},
        sizes=config.sizes,
        envs=list(config.players),
        picture=_inside(picture),
        caption=caption(league),
        about=[
            ("written", league.created),
            ("machine", league.machine.hardware),
            ("software", league.machine.software),
            ("without rows", "; ".join(f"{names}: {reason}" for names, reason in WITHOUT_ROWS.items())),
            ("seconds", f"{sum(standing.seconds for standing in league.standings):.0f}"),
            ("data", "league.json beside this page holds every number"),
        ],
    )


def _inside(picture: Path) -> Any:
    import markupsafe

    return markupsafe.Markup(f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}")


def page_data(league: League) -> dict[str, Any]:
    """What the scripts of the page show: per player, measure, size and credit an estimate with its interval."""
    credits = credits_of(league)
    return {
        "tiles": None,
        "sizes": league.config.sizes,
        "envs": list(league.config.players),
        "measures": {name: {"words": EXPLAINED[name][1], "share": name not in CORRELATIONS} for name in MEASURES},
        "credits": [
            {"name": name, "part": score.part, "colour": colour_of(score.method) if score.part != REFERENCE else _PLAIN}
            for name, score in credits.items()
        ],
        "group_heads": _GROUP_HEADS,
        "standings": [_standing(standing, league.config.sizes, list(credits)) for standing in league.standings],
    }  # fmt: skip


def _standing(standing: Standing, sizes: list[int], credits: list[str]) -> dict[str, Any]:
    held = standing.main
    found = {(score.credit, score.size): score.measures for score in held.scores}
    error = held.error / held.spread if held.spread else 0.0
    return {
        "env": standing.env,
        "player": standing.player,
        "success": standing.success,
        "counts": counts(standing),
        "measures": {
            name: [[_plain(found.get((credit, size), {}).get(name)) for credit in credits] for size in sizes]
            for name in MEASURES
        },
        "groups": [
            [
                standing.success, each.shared, each.singletons, each.ties, each.mixed, held.known,
                _estimate(ceiling), _estimate(signs), error, standing.truth_cost, standing.vine_cost,
            ]
            for each, ceiling, signs in zip(standing.diagnoses, held.ceilings, held.signs, strict=True)
        ],
    }  # fmt: skip


def _plain(interval: Any) -> list[float] | None:
    return None if interval is None else [round(value, 4) for value in dataclasses.astuple(interval)]


def _estimate(interval: Interval | None) -> float | None:
    return None if interval is None else interval.mean


def draw_league(league: League, path: Path, dpi: int = 120) -> None:
    """Write the heat map as a PNG: credits by environments, best first, one panel per group size.

    Colours and numbers are rank correlations within states, means over players. Variants of credits are left out; the
    order is that of the mean over environments at the largest size.
    """
    envs, sizes = list(league.config.players), league.config.sizes
    names = [name for name, score in credits_of(league).items() if "," not in name]
    values = {
        size: np.array([[_or_nan(mean_measure(league, env, name, "within", size)) for env in envs] for name in names])
        for size in sizes
    }
    best = np.argsort(-np.nan_to_num(values[sizes[-1]]).mean(axis=1), kind="stable")
    ceilings = {size: [ceiling_mean(league, env, i) for env in envs] for i, size in enumerate(sizes)}
    width = 2.2 + (0.55 + 0.42 * len(envs)) * len(sizes)
    figure, grid = assemble.new_figure(1, len(sizes), (width, 1.6 + 0.235 * len(names)), dpi, sharey=True)
    for panel, size in zip(grid[0], sizes, strict=True):
        cells = np.vstack((values[size][best], [_or_nan(value) for value in ceilings[size]]))
        panel.imshow(cells, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(cells):
            last = row == len(names)
            text = shown_rank(value) if not np.isnan(value) else "exact" if last else ""
            dark = (last and np.isnan(value)) or value > 0.65
            panel.text(column, row, text, ha="center", va="center", fontsize=6, color="black" if dark else "white")
        panel.set_xticks(range(len(envs)), [assemble.label(env) for env in envs], rotation=60, ha="right", fontsize=8)
        panel.set_yticks(
            range(len(names) + 1), [*(assemble.label(names[i]) for i in best), _CEILING], fontsize=8
        )  # fmt: skip
        panel.axhline(len(names) - 0.5, color="white", lw=2)
        panel.set_title(f"groups of {size}", fontsize=10)
        panel.grid(False)
    figure.suptitle(
        "Rank correlation of step credit with the true advantage, within states, mean over players", fontsize=11
    )
    assemble.write_picture(figure, path)


def shown_rank(value: float) -> str:
    """A correlation as cells have room for it.

    >>> shown_rank(0.512), shown_rank(-0.31), shown_rank(-0.001), shown_rank(1.0)
    ('.51', '-.31', '.00', '1.00')
    """
    return f"{value:.2f}".replace("-0.00", "0.00").replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.2f}"


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
