"""The tables of the ranking study for a terminal, and the words that explain its numbers."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.console import NONE, table
from benchmarks.ranking.results import PlayerResult, Ranking, credit_names, is_main, score_of
from benchmarks.statistics import Interval

#: Title and explanation of every measure.
EXPLAINED = {
    "within": (
        "rank correlation within states",
        "Spearman's rank correlation of credit and true change over the steps of a group out of one state, where "
        "these changes differ; mean over such states, weighted by steps. A state whose credits are all the same "
        "counts 0.",
    ),
    "same": (
        "the same, on the comparisons of groups of two",
        "The same mean over the states and steps that groups of two can compare, whatever the size of the group that "
        "the credit was given in: the same comparisons at every size.",
    ),
    "overall": (
        "rank correlation over all steps",
        "Spearman's rank correlation of credit and true change over all steps of all tasks.",
    ),
    "sign": (
        "sign accuracy",
        "Share of steps whose credit has the sign of the true change, of those where neither is 0.",
    ),
    "coverage": ("coverage", "Share of all steps whose credit is not 0."),
    "sign_all": (
        "sign accuracy over all changes",
        "Share of steps whose credit has the sign of the true change, of all steps whose true change is not 0; a "
        "credit of 0 counts half.",
    ),
}  # fmt: skip
#: Measures that are correlations; the others are shares.
CORRELATIONS = ("within", "same", "overall")
#: Measures shown at every group size, and those shown at the largest only.
_ALL_SIZES, _LARGEST = ("within", "sign_all"), ("same", "overall", "sign", "coverage")
#: Columns that the full table needs.
_FULL_WIDTH = 116
_SHORT = {
    "within": "rank", "same": "same", "overall": "overall", "sign": "sign", "coverage": "covered",
    "sign_all": "right",
}  # fmt: skip


def number(interval: Interval | None, measure: str) -> str:
    """An estimate: a correlation with two decimals, a share in percent.

    >>> number(Interval(0.512, 0.4, 0.6), "within"), number(Interval(0.512, 0.4, 0.6), "sign")
    ('.51', '51')
    """
    if interval is None:
        return NONE
    if measure not in CORRELATIONS:
        return f"{100 * interval.mean:.0f}"
    return f"{interval.mean:.2f}".replace("0.", ".", 1)


def player_words(player: PlayerResult, ranking: Ranking) -> str:
    """What one player's episodes are made of."""
    sizes = ranking.config.sizes
    compared = ", ".join(f"{100 * share:.0f}" for share in player.comparable)
    mixed = ", ".join(f"{100 * share:.0f}" for share in player.contrast)
    return (
        f"{player.steps} steps, {100 * player.success:.1f} % of episodes solved. True change: "
        f"{100 * player.gained:.0f} % of steps gain a move, {100 * player.unchanged:.0f} % change nothing, "
        f"{100 * player.lost:.0f} % lose moves, {100 * player.dead:.1f} % enter a dead end "
        f"({100 * player.stuck:.0f} % of steps begin in one). In groups of {', '.join(map(str, sizes))}: "
        f"{mixed} % of groups have both outcomes, {compared} % of steps start in a state where the group took "
        "actions of different worth."
    )


def caption(ranking: Ranking) -> str:
    """What was done, in one paragraph."""
    config = ranking.config
    return (
        f"{config.tasks} {config.split} levels of {config.env}, {config.episodes} episodes each, cut into groups. True "
        "change: moves to the solution before less after a step, exact; into a dead end is worse than anything, within "
        "one nothing changes. Intervals: 95 %, bootstrap over levels."
    )


def print_ranking(ranking: Ranking, console: Console) -> None:
    """Print one table per player."""
    narrow = console.width < _FULL_WIDTH
    for player in ranking.players:
        console.print(player_table(ranking, player, narrow))
        console.print(player_words(player, ranking), style="dim", markup=False, highlight=False)
        console.print()
    console.print(caption(ranking), style="dim", markup=False, highlight=False)
    for measure, (title, words) in EXPLAINED.items():
        console.print(Text.assemble((f"{_SHORT[measure]}: ", "bold"), f"{title}. {words}"), style="dim")


def player_table(ranking: Ranking, player: PlayerResult, narrow: bool = False) -> Table:
    """One row per credit; a narrow table holds two measures, the second at the largest size only."""
    sizes = ranking.config.sizes
    columns = [(measure, size) for measure in (_ALL_SIZES[:1] if narrow else _ALL_SIZES) for size in sizes]
    columns += [(measure, sizes[-1]) for measure in (_ALL_SIZES[1:] if narrow else _LARGEST)]
    heads = ["credit\nin groups of"]
    for i, (measure, size) in enumerate(columns):
        # The name of a measure stands over the first of its columns only.
        again = i > 0 and columns[i - 1][0] == measure
        heads.append(f"{'' if again else _SHORT[measure]}\n{size}")
    rows: list[list[str | Text] | None] = []
    last = ""
    for name in credit_names(ranking):
        first = score_of(player, name, sizes[0])
        if last and first.part != last:
            rows.append(None)
        last = first.part
        cells = [number(score_of(player, name, size).measures[measure], measure) for measure, size in columns]
        style = "bold" if is_main(first) and first.part != "episode" else ""
        rows.append([Text(cell, style) for cell in (name, *cells)])
    title = f"{player.name}: credit against the true change of distance"
    shown = table(heads, rows, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in shown.columns[1:]:
        column.no_wrap = True
    return shown
