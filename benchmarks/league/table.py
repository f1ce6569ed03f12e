"""The league as one table for a terminal, and the words that explain its numbers."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.console import NONE, table
from benchmarks.league.results import LEAST, League, Standing, ceiling_mean, credits_of, mean_measure
from benchmarks.ranking.table import EXPLAINED, number
from benchmarks.statistics import Interval

#: Columns that rank and right take beside each other.
_FULL_WIDTH = 130


def print_league(league: League, console: Console) -> None:
    """Print one row per credit, and a line per player."""
    console.print(league_table(league, both=console.width >= _FULL_WIDTH))
    for standing in league.standings:
        console.print(standing_words(standing), style="dim", markup=False, highlight=False)
    console.print(caption(league), style="dim", markup=False, highlight=False)
    for measure, short in (("within", "rank"), ("sign_all", "right")):
        title, words = EXPLAINED[measure]
        console.print(Text.assemble((f"{short}: ", "bold"), f"{title}. {words}"), style="dim")


def league_table(league: League, both: bool = True) -> Table:
    """One row per credit, one column per environment: means over its players, in groups of the largest size.

    Args:
        league: what was found.
        both: show the share of right signs beside the rank correlation.
    """
    size = max(league.config.sizes)
    measures = [("within", "rank"), ("sign_all", "right")][: 1 + both]
    columns = [(env, measure) for env in league.config.players for measure, _ in measures]
    heads = ["credit\n"] + [f"{env if i == 0 else ''}\n{short}" for env in league.config.players
                            for i, (_, short) in enumerate(measures)]  # fmt: skip
    examples = credits_of(league)
    values = {
        name: [mean_measure(league, env, name, measure, size) for env, measure in columns] for name in examples
    }  # fmt: skip
    best = [
        max((value for row in values.values() if (value := row[i]) is not None), default=None)
        for i in range(len(columns))
    ]
    rows: list[list[str | Text] | None] = []
    last = ""
    for name, score in examples.items():
        if last and score.part != last:
            rows.append(None)
        last = score.part
        rows.append([name, *(
            Text(shown(value, measure), "bold" if value is not None and value == top else "")
            for value, top, (_, measure) in zip(values[name], best, columns, strict=True)
        )])  # fmt: skip
    rows += [None, ["ceiling", *(_ceiling(league, env, measure) for env, measure in columns)]]
    title = f"Credit against the true advantage of steps, mean over players, groups of {size}"
    found = table(heads, rows, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in found.columns[1:]:
        column.no_wrap = True
    return found


def shown(value: float | None, measure: str) -> str:
    """A mean as `benchmarks.ranking.table.number` shows an estimate.

    >>> shown(0.512, "within"), shown(0.512, "sign_all"), shown(None, "within")
    ('.51', '51', '-')
    """
    return number(None if value is None else Interval(value, value, value), measure)


def _ceiling(league: League, env: str, measure: str) -> str:
    if measure != "within":
        return ""
    if all(standing.main.error == 0 for standing in league.standings if standing.env == env):
        return "exact"
    return shown(ceiling_mean(league, env, -1), measure)


def standing_words(standing: Standing) -> str:
    """What one player's episodes are made of."""
    held, last = standing.main, standing.diagnoses[-1]
    ties = NONE if last.ties is None else f"{100 * last.ties:.0f} %"
    truth = "exact" if held.error == 0 else f"standard error {held.error:.3f} of a spread of {held.spread:.3f}"
    return (
        f"{standing.env}, {standing.player}: {standing.steps} steps, {100 * standing.success:.0f} % won. Truth: "
        f"{held.truth}, {truth}, known of {100 * held.known:.0f} % of steps. Groups of {last.size}: "
        f"{100 * last.shared:.0f} % of steps in shared states, {100 * last.singletons:.0f} % visited once, {ties} of "
        f"pairs of actions tied, {100 * last.mixed:.0f} % of groups with both outcomes."
    )


def caption(league: League) -> str:
    """What was done, in one paragraph."""
    config = league.config
    tasks = ", ".join(f"{env} {count}" for env, count in config.tasks.items())
    return (
        f"{config.split.capitalize()} tasks: {tasks}; {config.episodes} episodes each, cut into groups. Truth: change "
        "of the exact distance to success where the environment knows it; else Q - V of the player, discounted by "
        f"{config.gamma:g}, of {config.continuations} continuations each. Ceiling: rank that a perfect credit would "
        "have with a truth of this error. Means leave out players "
        f"who won less than {100 * LEAST:g} %. vine is given continuations of each state beside the episodes."
    )
