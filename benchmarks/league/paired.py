"""`league --credits combinations`: combinations of step credit beside all methods, paired with the one that was chosen.

What the league measures of single players is averaged over the players of an environment here, and every credit is also
held against the chosen combination on the same steps: the bootstrap draws the same tasks for both, and for all players.
The folder then holds

    config.json       what was asked; another configuration needs another folder
    <env>.json        finished environments: the same command continues
    combinations.json everything that was found
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from agentgym.trajectory import Floats
from benchmarks.console import NONE, say, table
from benchmarks.json_files import claimed, created, load_or_make, write_json
from benchmarks.league.combinations import CHOSEN, MEASURED, PUBLISHED, graph_else_vine
from benchmarks.league.results import LEAST, LeagueConfig, enough
from benchmarks.league.study import Progress, known_rows, play, truths_of, vine_credit
from benchmarks.machine import Machine, describe_machine
from benchmarks.ranking.measures import MEASURES, Sample, bootstrap_weights, interval_of, measures
from benchmarks.ranking.rollouts import comparisons, split_groups
from benchmarks.statistics import Interval

RESULTS = "combinations.json"
#: What is shown, and how it is called.
SHOWN = {"within": "rank", "sign_all": "right"}


@dataclass(frozen=True)
class Place:
    """One credit in one environment, in groups of one size: means over the players.

    Attributes:
        credit: name.
        part: of the credit, see `wrappers.credit.method.Credit`.
        size: episodes per group.
        measures: "within" and "sign_all" with 95 % intervals over tasks; None: nothing to measure.
        less_than_chosen: the chosen combination's measure less this one's, paired.
    """

    credit: str
    part: str
    size: int
    measures: dict[str, Interval | None]
    less_than_chosen: dict[str, Interval | None]


@dataclass(frozen=True)
class Contest:
    """One environment.

    Attributes:
        env: its name.
        truth: see `benchmarks.league.results.Held`.
        success: share of episodes won, by player; those who never won do not count in means.
        places: of every credit at every group size.
        seconds: wall time.
    """

    env: str
    truth: str
    success: dict[str, float]
    places: list[Place]
    seconds: float

    def place(self, credit: str, size: int) -> Place:
        """Return the place of a credit.

        Raises:
            KeyError: there is none.
        """
        for place in self.places:
            if (place.credit, place.size) == (credit, size):
                return place
        raise KeyError(f"no {credit!r} at group size {size}")

    def best_published(self, measure: str, size: int) -> Place:
        """Return the published method with the largest estimate of a measure."""
        names = {credit.name for credit in PUBLISHED}
        places = [place for place in self.places if place.size == size and place.credit in names]
        return max(places, key=lambda place: -np.inf if (found := place.measures[measure]) is None else found.mean)


@dataclass(frozen=True)
class Contests:
    """The whole file; see the module."""

    created: str
    config: LeagueConfig
    machine: Machine
    contests: list[Contest]


def run_contests(config: LeagueConfig, folder: Path, progress: Progress = lambda env, player, words: None) -> Contests:
    """Measure the environments that are not finished yet, and write `combinations.json`.

    Raises:
        agentgym.outside.files.LockedError: another process works in the folder.
        benchmarks.json_files.OtherConfigurationError: the folder holds another configuration.
        benchmarks.json_files.ResultsError: a finished environment's file is damaged.
        KeyboardInterrupt: Ctrl-C; call again to continue.
    """
    with claimed(folder, config):
        contests = []
        for env in config.players:
            make = functools.partial(measure_env, config, env, functools.partial(progress, env))
            tell = functools.partial(progress, env, "all players")
            contests.append(load_or_make(Contest, folder / f"{env}.json", make, tell))
        found = Contests(created(), config, describe_machine(), contests)
        write_json(found, folder / RESULTS)
    return found


def measure_env(
    config: LeagueConfig, env: str, tell: Callable[[str, str], None] = lambda player, words: None
) -> Contest:
    """Let the players of one environment play, give every credit, and measure them over all players."""
    begin = time.perf_counter()
    sums: dict[tuple[str, int], list[Floats]] = {}
    parts, success, truth_name, n_tasks = {}, {}, "", 0
    for name in (*config.players[env], *config.models[env]):
        played = play(config, env, name, functools.partial(tell, name))
        episodes = played.table
        success[name] = float(episodes.trajectory_won.mean())
        if not enough(success[name]):
            continue
        truth = truths_of(config, played, functools.partial(tell, name))[0][0]
        truth_name, n_tasks = truth.name, episodes.n_groups
        credits = [credit for credit in MEASURED if credit.name in config.credits]
        if config.branches:
            vine = vine_credit(config, played)[0]
            credits += [vine, graph_else_vine(vine)]
        rows = np.flatnonzero(~np.isnan(truth.values))
        for size in config.sizes:
            part = split_groups(episodes, size)
            compared = known_rows(comparisons(part, episodes.group, truth.values), rows)
            sample = Sample(compared, compared)
            tell(name, f"{len(credits)} credits in groups of {size}")
            for credit in credits:
                parts[credit.name] = credit.part
                sums.setdefault((credit.name, size), []).append(sample.sums(credit.give(part)[rows]))
    drawn = bootstrap_weights(n_tasks, config.resamples, config.seed) if sums else np.zeros((0, 0))
    estimates = {key: _over_players(each, drawn) for key, each in sums.items()}
    places = [
        Place(name, parts[name], size, _intervals(found), _intervals(estimates[CHOSEN, size] - found))
        for (name, size), found in estimates.items()
    ]
    return Contest(env, truth_name, success, places, time.perf_counter() - begin)


def _over_players(sums: list[Floats], drawn: Floats) -> Floats:
    """Return float64 (1 + resamples, measures): estimates and drawn ones, means over players that can be measured."""
    found = np.stack([np.concatenate((measures(each.sum(0))[None], measures(drawn @ each))) for each in sums])
    known = ~np.isnan(found)
    mean: Floats = np.where(known, found, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    return mean


def _intervals(found: Floats) -> dict[str, Interval | None]:
    return {name: interval_of(float(found[0, i]), found[1:, i]) for i, name in enumerate(MEASURES) if name in SHOWN}


def print_contests(found: Contests, console: Console) -> None:
    """Print a table of all credits per group size, and what the chosen combination is worth above the best others."""
    contests = [contest for contest in found.contests if contest.places]
    for size in found.config.sizes if contests else ():
        console.print(_credits_table(contests, size))
        console.print(_differences_table(contests, size))
    for contest in found.contests:
        if not contest.places:
            say(console, f"{contest.env}: no player won {LEAST:.0%} of the episodes, nothing is compared")
    tasks = ", ".join(f"{env} {count}" for env, count in found.config.tasks.items())
    console.print(
        f"{found.config.split.capitalize()} tasks: {tasks}. Means over players who won {LEAST:.0%} at least; "
        f"95 % intervals, bootstrap over tasks. above: {CHOSEN} less the published method with the largest estimate on "
        "these tasks.",
        style="dim", markup=False, highlight=False,
    )  # fmt: skip


def _credits_table(contests: Sequence[Contest], size: int) -> Table:
    columns = [(contest, measure) for contest in contests for measure in SHOWN]
    heads = ["credit\n"]
    for contest, measure in columns:
        # The name of an environment stands over the first of its columns only.
        heads.append(f"{contest.env if measure == next(iter(SHOWN)) else ''}\n{SHOWN[measure]}")
    names = dict.fromkeys(place.credit for contest in contests for place in contest.places)
    rows: list[list[str] | None] = [
        [name, *(shown(contest.place(name, size).measures[measure]) for contest, measure in columns)] for name in names
    ]  # fmt: skip
    return table(heads, rows, title=f"groups of {size}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _differences_table(contests: Sequence[Contest], size: int) -> Table:
    rows: list[list[str] | None] = []
    for contest in contests:
        for measure, short in SHOWN.items():
            best = contest.best_published(measure, size)
            mine = contest.place(CHOSEN, size).measures[measure]
            rows.append([
                str(size), contest.env, short, shown(mine), f"{best.credit} {shown(best.measures[measure])}",
                signed(best.less_than_chosen[measure]),
            ])  # fmt: skip
    return table(["size", "environment", "measure", CHOSEN, "best published", "above"], rows)


def shown(interval: Interval | None) -> str:
    """An estimate in hundredths.

    >>> shown(Interval(0.512, 0.4, 0.6)), shown(None)
    ('51', '-')
    """
    return NONE if interval is None else f"{100 * interval.mean:.0f}"


def signed(interval: Interval | None) -> str:
    """A difference in hundredths, with its interval.

    >>> signed(Interval(0.051, -0.004, 0.101))
    '+5.1 [-0.4, +10.1]'
    """
    if interval is None:
        return NONE
    return f"{100 * interval.mean:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
