"""The page and the picture of the ranking study: measures, players, credits and sizes, over growing groups."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.ranking.credit import BASELINE
from benchmarks.ranking.results import PlayerResult, Ranking, Score, credit_names, is_main
from benchmarks.ranking.table import CORRELATIONS, EXPLAINED, caption, player_words
from benchmarks.report import assemble
from benchmarks.report.assemble import colour_of

PICTURE, PAGE = "ranking.png", "report.html"
#: Rows of the picture.
SHOWN = ("within", "sign_all")
_PLAIN = "#8a94a3"


def write_ranking_report(ranking: Ranking, folder: Path) -> tuple[Path, Path]:
    """Write `ranking.png` and `report.html` into the folder and return their paths."""
    picture, page = folder / PICTURE, folder / PAGE
    draw_ranking(ranking, picture)
    assemble.write_page(render(ranking), page)
    return picture, page


def render(ranking: Ranking) -> str:
    """Return the page."""
    config = ranking.config
    return assemble.page(
        "ranking.html.j2",
        styles=["report.css"],
        scripts=["board.js", "chart.js", "ranking.js"],
        libraries=assemble.chart_library(),
        data=page_data(ranking),
        chips=[
            ("levels", f"{config.tasks} ({config.split})"),
            ("episodes", f"{config.episodes} per level and policy"),
            ("groups of", ", ".join(map(str, config.sizes))),
            ("policies", ", ".join(player.name for player in ranking.players)),
            ("seed", str(config.seed)),
        ],
        measures={name: title for name, (title, _) in EXPLAINED.items()},
        players=[(player.name, player_words(player, ranking)) for player in ranking.players],
        baseline=BASELINE,
        caption=caption(ranking),
        about=[
            ("written", ranking.created),
            ("machine", ranking.machine.hardware),
            ("software", ranking.machine.software),
            ("players", ", ".join(f"{name}: optimal move {share:g}" for name, share in config.optimal.items())),
            ("seconds", ", ".join(f"{player.name} {player.seconds:.0f}" for player in ranking.players)),
            ("data", "ranking.json beside this page holds every number"),
        ],
    )


def page_data(ranking: Ranking) -> dict[str, Any]:
    """What the scripts of the page draw: per player and credit, estimates over group sizes."""
    main = {name for player in ranking.players for name in main_scores(player)}
    return {
        "tiles": None,
        "sizes": ranking.config.sizes,
        "baseline": BASELINE,
        "measures": {
            name: {"title": title, "words": words, "share": name not in CORRELATIONS}
            for name, (title, words) in EXPLAINED.items()
        },
        "players": [{"name": player.name, "success": player.success} for player in ranking.players],
        "credits": [_credit(ranking, name, name in main) for name in credit_names(ranking)],
    }


def _credit(ranking: Ranking, name: str, main: bool) -> dict[str, Any]:
    scores = [[score for score in player.scores if score.credit == name] for player in ranking.players]
    first = scores[0][0]
    return {
        "name": name,
        "part": first.part,
        "main": main,
        "colour": _PLAIN if first.part == "reference" else colour_of(first.method),
        **{
            kind: {
                measure: [[_plain(getattr(score, kind)[measure]) for score in of_player] for of_player in scores]
                for measure in EXPLAINED
            }
            for kind in ("measures", "differences")
        },
    }


def _plain(interval: Any) -> list[float] | None:
    """Estimate, low and high end, rounded to what is shown."""
    return None if interval is None else [round(value, 5) for value in dataclasses.astuple(interval)]


def main_scores(player: PlayerResult) -> dict[str, list[Score]]:
    """Scores of the credits that stand for a method, and of random numbers; over sizes, by credit."""
    found: dict[str, list[Score]] = {}
    for score in player.scores:
        if is_main(score) or score.credit == "random":
            found.setdefault(score.credit, []).append(score)
    return found


def draw_ranking(ranking: Ranking, path: Path, dpi: int = 120) -> None:
    """Write the picture as a PNG: one column per player, one row per measure, 95 % intervals over levels."""
    players, sizes = ranking.players, ranking.config.sizes
    size = (1.2 + 2.6 * len(players), 6.4)
    figure, grid = assemble.new_figure(len(SHOWN), len(players), size, dpi, sharex=True, sharey="row")
    for row, measure in enumerate(SHOWN):
        scale = 1 if measure in CORRELATIONS else 100
        for column, player in enumerate(players):
            panel = grid[row][column]
            shown = main_scores(player)
            for place, (name, scores) in enumerate(shown.items()):
                found = [(score.size, score.measures[measure]) for score in scores]
                # On the logarithmic axis intervals stand side by side, so that none hides another.
                aside = 2 ** (min(0.07, 0.45 / len(shown)) * (place - (len(shown) - 1) / 2))
                x = [aside * size for size, interval in found if interval is not None]
                bands = [interval for _, interval in found if interval is not None]
                colour = "#888888" if name == "random" else colour_of(scores[0].method)
                low, high = ([scale * value for value in ends] for ends in (
                    (band.low for band in bands), (band.high for band in bands)))  # fmt: skip
                panel.vlines(x, low, high, color=colour, lw=1.3)
                panel.plot(
                    x, [scale * band.mean for band in bands], color=colour, lw=1.8, label=assemble.label(name),
                    ls=":" if name == "random" else "-", marker="" if name == "random" else "o", ms=3.5,
                )  # fmt: skip
            panel.set_xscale("log", base=2)
            panel.set_xticks(sizes, [str(size) for size in sizes])
            panel.minorticks_off()
            if row == 0:
                panel.set_title(f"{assemble.label(player.name)}\n{100 * player.success:.0f} % solved", fontsize=10)
            if row == len(SHOWN) - 1:
                panel.set_xlabel("episodes per group")
        grid[row][0].set_ylim(bottom=min(0, grid[row][0].get_ylim()[0]))
        title = EXPLAINED[measure][0]
        grid[row][0].set_ylabel(title if scale == 1 else f"{title} [%]")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    assemble.write_picture(figure, path)
