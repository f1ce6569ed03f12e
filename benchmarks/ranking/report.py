"""`report.html` of the ranking study: all measures, players, credits and sizes on one self-contained page."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import markupsafe

from benchmarks.ranking.credit import BASELINE
from benchmarks.ranking.picture import draw_ranking, main_scores
from benchmarks.ranking.results import Ranking, credit_names
from benchmarks.ranking.table import CORRELATIONS, EXPLAINED, caption, player_words
from benchmarks.report.curves import colour_of

PICTURE, PAGE = "ranking.png", "report.html"
_SCRIPTS = ("board.js", "ranking.js")
_STYLES = ("report.css", "ranking.css")
_PLAIN = "#8a94a3"


def write_ranking_report(ranking: Ranking, folder: Path) -> tuple[Path, Path]:
    """Write `ranking.png` and `report.html` into the folder and return their paths."""
    picture, page = folder / PICTURE, folder / PAGE
    draw_ranking(ranking, picture)
    page.write_text(render(ranking), encoding="utf-8")
    return picture, page


def render(ranking: Ranking) -> str:
    """Return the page."""
    files = resources.files("benchmarks.report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string((files / "ranking.html.j2").read_text(encoding="utf-8"))
    # No "<" may be read as the end of the script element that holds the data.
    data = json.dumps(page_data(ranking), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    config, machine = ranking.config, ranking.machine
    return template.render(
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
            ("machine", f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}"),
            ("software", ", ".join([f"Python {machine.python}", *(f"{k} {v}" for k, v in machine.versions.items())])),
            ("players", ", ".join(f"{name}: optimal move {share:g}" for name, share in config.optimal.items())),
            ("seconds", ", ".join(f"{player.name} {player.seconds:.0f}" for player in ranking.players)),
            ("data", "ranking.json beside this page holds every number"),
        ],
        style=markupsafe.Markup("\n".join((files / name).read_text(encoding="utf-8") for name in _STYLES)),
        scripts=[markupsafe.Markup((files / name).read_text(encoding="utf-8")) for name in _SCRIPTS],
        data=markupsafe.Markup(data),
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
