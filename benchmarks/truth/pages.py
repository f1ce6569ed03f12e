"""Pages of league and ranking: means over players by environment, or the players of one, over group sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.console import NONE
from benchmarks.options import REFERENCE
from benchmarks.report import assemble
from benchmarks.report.page import Cell, Figure, Page, Table, ruled
from benchmarks.report.panels import Panel, draw
from benchmarks.statistics import Interval
from benchmarks.truth.credits import BASELINE, RANDOM, WITHOUT_ROWS
from benchmarks.truth.episodes import LEAST
from benchmarks.truth.measures import EXPLAINED, decimals, estimate, explained, number
from wrappers.credit.method import EPISODE, FITTED

if TYPE_CHECKING:
    from benchmarks.truth.league import League, Score, Standing

_MAP = "Means over players, per environment; sorted by the mean over environments. Variants of credits are left out."
_LINES = "One panel per player and measure; one credit per method; 95 % intervals, bootstrap over tasks."
#: Measures of the means, which are also those of the picture of one environment.
SHOWN = ("within", "sign_all")
#: Of one environment's players, measures that are shown at the largest size only, besides the rank at every size.
_LARGEST = {"right": "sign_all", "same": "same", "overall": "overall", "sign": "sign", "covered": "coverage"}
_GROUPS = {
    "won": "episodes",
    "shared": "steps in a state that several episodes of the group visited",
    "once": "steps in a state that the group visited only once",
    "tied": "pairs of actions of a state with the same distance to success in the group's graph",
    "mixed": "groups with both outcomes",
    "known": "steps whose truth is known",
    "ceiling": "rank of a perfect credit against a truth with this error, slightly overestimated",
    "signs": "changes whose sign is the same in both halves of the continuations; a perfect credit "
    "reaches at least this share",
    "error": "mean standard error of a step's truth, in standard deviations of the truth",
    "for truth": "simulated steps of continuations per step of the episodes",
    "for vine": "the same for vine",
}


def page(found: League) -> Page:
    """Return tables and a picture: of means where several environments were played, else of every player."""
    config, last = found.config, max(found.config.sizes)
    several = len(config.players) > 1
    if several:
        tables = [_means(found, measure, last) for measure in SHOWN]
        tables += [_players(found, env, last) for env in config.players]
        figure = Figure("league.png", "Rank in groups of every size", lambda: heat_map(found), _MAP)
    else:
        tables = [_sizes(found, each) for each in found.standings]
        tables += [_players(found, env, last, minus) for env in config.players for minus in (False, True)]
        figure = Figure("ranking.png", "Over group size", lambda: draw(_panels(found)), _LINES)
    return Page(
        "Does step credit rank actions?",
        "Step credit of all methods compared with the true worth of the steps, for growing group sizes. Every group "
        "size credits the same steps.",
        [*tables, _groups(found, last)],
        chips=[
            ("environments", ", ".join(config.players)),
            ("tasks", ", ".join(map(str, config.tasks.values()))),
            ("episodes", f"{config.episodes} per task and player"),
            ("groups of", ", ".join(map(str, config.sizes))),
            ("credits", str(len(found.credits))),
            ("seed", str(config.seed)),
        ],
        about=[
            *([("without rows", "; ".join(f"{names}: {why}" for names, why in WITHOUT_ROWS.items()))] * several),
            *([] if several else [("players", ", ".join(
                f"{player}: expert's action {share:g}" for each in config.players.values()
                for player, share in each.items()
            ))]),
            ("seconds", f"{sum(standing.seconds for standing in found.standings):.0f}"),
        ],
        figures=[figure],
    )  # fmt: skip


def by_part(credits: Iterable[Score], cells: Callable[[Score], Sequence[Cell]]) -> list[Sequence[Cell] | None]:
    """Return a row per credit: its name, then its cells; a rule between parts."""
    return ruled((score.part, [score.credit, *cells(score)]) for score in credits)


def _means(found: League, measure: str, size: int) -> Table:
    envs, credits = list(found.config.players), found.credits
    values = {name: [found.mean(env, name, measure, size) for env in envs] for name in credits}
    best = [
        max((each for each in column if each is not None), default=None)
        for column in zip(*values.values(), strict=True)
    ]

    def cells(score: Score) -> list[Cell]:
        row = zip(values[score.credit], best, strict=True)
        return [(number(each, measure), "up" if each is not None and each == top else "") for each, top in row]

    rows = by_part(credits.values(), cells)
    caption = ""
    if measure == SHOWN[0]:
        exact = {each.env for each in found.standings if each.main.error == 0}
        ceilings = ["exact" if env in exact else number(found.ceiling(env, size), measure) for env in envs]
        rows += [None, ["ceiling", *ceilings]]
        caption = _caption(found)
    return Table(mean_title(measure, size), ["credit", *envs], rows, caption, explained([measure]))


def mean_title(measure: str, size: int) -> str:
    """Return the title of a table of means over players."""
    return f"{EXPLAINED[measure][0].capitalize()}, mean over players, groups of {size}"


def _players(found: League, env: str, size: int, minus: bool = False) -> Table:
    standings = [each for each in found.standings if each.env == env]
    heads = [f"{each.player}, {100 * each.success:.0f} % won" for each in standings]

    def cells(score: Score) -> list[Cell]:
        scores = [each.main.score(score.credit, size) for each in standings]
        shown = [None if each is None else (each.differences if minus else each.measures)[SHOWN[0]] for each in scores]
        return [estimate(each, sign="+" if minus else "") for each in shown]

    title = f"Rank{f' minus that of {BASELINE}, the same steps' if minus else ''}: {env}, groups of {size}"
    rows = by_part(found.credits.values(), cells)
    return Table(title, ["credit", *heads], rows, "95 % intervals, bootstrap over tasks.", aside=True)


def _sizes(found: League, standing: Standing) -> Table:
    sizes, held = found.config.sizes, standing.main
    columns = [(SHOWN[0], size) for size in sizes] + [(measure, sizes[-1]) for measure in _LARGEST.values()]
    heads = ["credit", *(f"{EXPLAINED[SHOWN[0]][0]} {size}" for size in sizes), *_LARGEST]

    def cells(score: Score) -> list[Cell]:
        style = "up" if is_main(score) and score.part != EPISODE else ""
        return [(number(held.measure(score.credit, measure, size), measure), style) for measure, size in columns]

    rows = by_part((score for score in held.scores if score.size == sizes[0]), cells)
    last = standing is found.standings[-1]
    caption = f"{_standing(standing, sizes)}{f' {_caption(found)}' if last else ''}"
    title = f"{standing.player}: credit against the true change of distance"
    shown = explained(SHOWN[:1]) | {head: EXPLAINED[measure][1] for head, measure in _LARGEST.items()} if last else {}
    return Table(title, heads, rows, caption, shown)


def _groups(found: League, size: int) -> Table:
    place = found.config.sizes.index(size)
    rows = []
    for each in found.standings:
        held, group = each.main, each.diagnoses[place]
        error = held.error / held.spread if held.spread else 0.0
        ceiling, signs = held.ceilings[place], held.signs[place]
        shares = (each.success, group.shared, group.singletons, group.ties, group.mixed, held.known)
        rows.append([
            f"{each.env}, {each.player}",
            *(NONE if share is None else f"{100 * share:.0f} %" for share in shares),
            number(ceiling, "within"), NONE if signs is None else f"{100 * signs.mean:.0f} %",
            f"{error:.2f}", f"{each.truth_cost:.1f}", f"{each.vine_cost:.1f}",
        ])  # fmt: skip
    return Table(f"What groups of {size} have to compare", ["episodes", *_GROUPS], rows, "", _GROUPS, aside=True)


def _standing(standing: Standing, sizes: Sequence[int]) -> str:
    held = standing.main
    kinds = held.steps or {}
    words = f"{standing.steps} steps, {100 * standing.success:.1f} % of episodes won. "
    if kinds:
        shares = {name: f"{100 * share:.0f} %" for name, share in kinds.items()}
        words += (
            f"True change: {shares['gained']} of steps gain, {shares['unchanged']} change nothing, {shares['lost']} "
            f"lose, {100 * kinds['dead']:.1f} % enter a dead end ({shares['stuck']} begin in one). "
        )
    mixed = ", ".join(f"{100 * each.mixed:.0f}" for each in standing.diagnoses)
    compared = ", ".join(f"{100 * share:.0f}" for share in held.comparable)
    return (
        f"{words}In groups of {', '.join(map(str, sizes))}: {mixed} % of groups have both outcomes, {compared} % of "
        "steps start in a state where the group took actions of different worth."
    )


def _caption(found: League) -> str:
    config = found.config
    words = [
        f"{config.words} Truth: change of the exact distance to success if the environment knows it, else Q - V of the "
        f"player, from {config.continuations} continuations each, discount {config.gamma:g}."
    ]
    if len(config.players) > 1:
        words.append(
            "Ceiling: rank of a perfect credit against a truth with this error. Means leave out players that win less "
            f"than {100 * LEAST:g} %."
        )
    if config.branches:
        words.append("vine also gets continuations of each state.")
    return " ".join(words)


def is_main(score: Score) -> bool:
    """Return whether a credit represents its method: its own step part, or all it has, with the paper's options.

    Methods whose only signal is the episode rank the steps of a state alike, so that one of them represents all.
    """
    return score.credit in (REFERENCE, f"{score.method} step", *[score.method] * (score.part == FITTED))


def heat_map(found: League) -> Any:
    """Draw the rank of credits by environments, one panel per group size."""
    envs, sizes = list(found.config.players), found.config.sizes
    names = [name for name in found.credits if "," not in name]
    means = [[[found.mean(env, name, SHOWN[0], size) for env in envs] for name in names] for size in sizes]
    values = np.array(means, float)  # None: nan
    best = np.argsort(-np.nan_to_num(values[-1]).mean(axis=1), kind="stable")
    width = 2.2 + (0.55 + 0.42 * len(envs)) * len(sizes)
    figure, grid = assemble.new_figure(1, len(sizes), (width, 1.6 + 0.235 * len(names)), 120, sharey=True)
    for panel, size, shown in zip(grid[0], sizes, values, strict=True):
        cells = np.vstack((shown[best], np.array([found.ceiling(env, size) for env in envs], float)))
        panel.imshow(cells, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(cells):
            last = row == len(names)
            text = decimals(value) if not np.isnan(value) else "exact" if last else ""
            dark = (last and np.isnan(value)) or value > 0.65
            panel.text(column, row, text, ha="center", va="center", fontsize=6, color="black" if dark else "white")
        panel.set_xticks(range(len(envs)), [assemble.label(env) for env in envs], rotation=60, ha="right", fontsize=8)
        panel.set_yticks(
            range(len(names) + 1), [*(assemble.label(names[i]) for i in best), "ceiling"], fontsize=8
        )  # fmt: skip
        panel.axhline(len(names) - 0.5, color="white", lw=2)
        panel.set_title(f"groups of {size}", fontsize=10)
        panel.grid(False)
    return figure


def _panels(found: League) -> list[Panel]:
    """Measures over group sizes: a panel per measure and player, a line per method, and random numbers."""
    panels = []
    for measure in SHOWN:
        for player in found.standings:
            lines: dict[str, dict[str, Interval]] = {}
            for score in player.main.scores:
                if (is_main(score) or score.credit == RANDOM) and (known := score.measures[measure]) is not None:
                    lines.setdefault(score.credit, {})[str(score.size)] = known
            title = f"{player.player}, {100 * player.success:.0f} % won"
            panels.append(Panel(title, "episodes per group", EXPLAINED[measure][0], lines))
    return panels
