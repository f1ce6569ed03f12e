"""Success of search players over their budgets, as a table."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from benchmarks.console import NONE, say, table
from benchmarks.search_players.results import SearchResults, SearchScore
from benchmarks.statistics import paired_difference, success_interval

#: Whose success the others are compared with.
BASE = "alone"


def rows(results: SearchResults) -> list[tuple[str, str, str, str, str, str, str]]:
    """Return player, budget, success, difference to the policy alone, steps and tokens spent, steps played."""
    base = next(score for score in results.scores if score.player == BASE)
    return [_row(score, base) for score in results.scores]


def _row(score: SearchScore, base: SearchScore) -> tuple[str, str, str, str, str, str, str]:
    found = success_interval([score.success])
    gain = NONE
    if score is not base and len(score.success) > 1:
        more = paired_difference([score.success], [base.success])
        gain = f"{100 * more.mean:+.1f} [{100 * more.low:+.1f}, {100 * more.high:+.1f}]"
    return (
        score.player,
        str(score.budget) if score.budget else NONE,
        f"{100 * found.mean:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]",
        gain,
        f"{score.steps:,.0f}" if score.budget else NONE,
        f"{score.tokens:,.0f}" if score.budget else NONE,
        f"{score.length:.1f}",
    )


HEADS = ("player", "budget", "success %", "minus the policy alone", "steps spent", "tokens written", "steps played")


def caption(results: SearchResults) -> str:
    """Say what was done, in one paragraph."""
    config = results.config
    rollout = {None: "played on from to the end of the episode by the policy", 0: "judged as they stand"}.get(
        config.rollout, f"played on from for {config.rollout} steps by the policy"
    )
    answers = "listed commands with the policy's probabilities" if config.listed else "drawn from the policy"
    chance = "random numbers of their own" if config.fresh else "the random numbers that the episode will see"
    return (
        f"{config.tasks} {config.split} tasks of {config.env}, policy {config.policy}. Budget: simulated steps per "
        f"episode, before and beside the steps that are played. Replies are {answers}; new states are {rollout}, by "
        f"{config.outcome}, gamma {config.gamma:g}; simulations see {chance}. Spent, written, played: means over the "
        "tasks. Intervals: 95 %, for new tasks; differences paired task by task."
    )


def print_search(results: SearchResults, console: Console) -> None:
    """Print the table."""
    shown: list[tuple[str | Text, ...] | None] = []
    last = ""
    for row in rows(results):
        if last and row[0] != last:
            shown.append(None)
        last = row[0]
        shown.append(row)
    console.print(table(HEADS, shown, title=f"Search players, {results.config.env}"))
    say(console, caption(results), "dim")
