"""`study combinations`: combinations of step credit and all methods, each paired with the chosen combination.

A part is one environment: the league's measures, averaged over its players. The bootstrap draws the same tasks for all.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from agentgym.trajectory import Floats
from benchmarks.console import option
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.statistics import Interval, bootstrap_weights, interval_of
from benchmarks.study import Found, Study
from benchmarks.truth import episodes as playing
from benchmarks.truth import measures as measuring
from benchmarks.truth.credits import CHOSEN, OWN, SETS, graph_else_vine, names_of
from benchmarks.truth.league import credits_of
from benchmarks.truth.pages import SHOWN, mean_title
from benchmarks.truth.truths import truths_of

#: What the combinations are compared with: published methods.
PUBLISHED = tuple(credit for credit in SETS["methods"] if credit.method not in OWN)


@dataclass(frozen=True)
class Place:
    """One credit in groups of one size: means over the players; and the chosen combination's minus these, paired."""

    credit: str
    part: str
    size: int
    measures: dict[str, Interval | None]
    less_than_chosen: dict[str, Interval | None]


@dataclass(frozen=True)
class Contest:
    """One environment: shares of episodes won, by player, and the places of every credit at every group size."""

    env: str
    truth: str
    success: dict[str, float]
    places: list[Place]
    seconds: float

    def place(self, credit: str, size: int) -> Place:
        found = {(place.credit, place.size): place for place in self.places}
        if (credit, size) not in found:
            raise KeyError(f"no {credit!r} at group size {size}")
        return found[credit, size]

    def best_published(self, measure: str, size: int) -> Place:
        names = {credit.name for credit in PUBLISHED}
        places = [place for place in self.places if place.size == size and place.credit in names]
        return max(places, key=lambda place: -np.inf if (found := place.measures[measure]) is None else found.mean)


@dataclass(frozen=True)
class Contests(Found):
    """The whole file."""

    config: playing.TruthConfig
    contests: list[Contest]


def run_contest(config: playing.TruthConfig, env: str, context: Any, progress: Progress) -> Contest:
    """Let the players of one environment play, give every credit, and measure them over all players."""
    begin = time.perf_counter()
    sums: dict[tuple[str, int], list[Floats]] = {}
    parts, success, truth_name, n_tasks = {}, {}, "", 0
    for name in config.players[env]:
        played = playing.play(config, env, name, progress)
        episodes = played.table
        success[name] = float(episodes.trajectory_won.mean())
        if success[name] < playing.LEAST:
            continue
        truth = truths_of(config, env, played, progress)[0][0]
        truth_name, n_tasks = truth.name, episodes.n_groups
        credits = credits_of(config, env, name, played)[0]
        if config.branches:
            credits.append(graph_else_vine(credits[-1]))
        for size, (part, sample) in measuring.samples(episodes, truth.values, config.sizes).items():
            progress(len(success), len(config.players[env]), f"players, {len(credits)} credits in groups of {size}")
            for credit in credits:
                parts[credit.name] = credit.part
                sums.setdefault((credit.name, size), []).append(sample.sums(credit.give(part)))
    drawn = bootstrap_weights(n_tasks, config.resamples, config.seed) if sums else np.zeros((0, 0))
    estimates = {key: _over_players(each, drawn) for key, each in sums.items()}
    places = [
        Place(name, parts[name], size, _intervals(found), _intervals(estimates[CHOSEN, size] - found))
        for (name, size), found in estimates.items()
    ]
    return Contest(env, truth_name, success, places, time.perf_counter() - begin)


def _over_players(sums: list[Floats], drawn: Floats) -> Floats:
    """Return float64 (1 + resamples, measures): estimates and drawn ones, means over players that can be measured."""
    found = np.stack(
        [np.concatenate((measuring.measures(each.sum(0))[None], measuring.measures(drawn @ each))) for each in sums]
    )
    known = ~np.isnan(found)
    mean: Floats = np.where(known, found, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    return mean


def _intervals(found: Floats) -> dict[str, Interval | None]:
    places = {name: measuring.MEASURES.index(name) for name in measuring.MEASURES if name in SHOWN}
    return {name: interval_of(float(found[0, i]), found[1:, i]) for name, i in places.items()}


def page(found: Contests) -> Page:
    """Return a table of all credits per group size, and the chosen combination's advantage over the best others."""
    config = found.config
    contests = [contest for contest in found.contests if contest.places]
    sizes = config.sizes if contests else []
    tables = [_credits(contests, measure, size) for size in sizes for measure in SHOWN]
    tables += [_above(contests, size) for size in sizes]
    lost = [contest.env for contest in found.contests if not contest.places]
    words = (
        f"{config.words} Means over players that win {playing.LEAST:.0%} or more; 95 % intervals, bootstrap over tasks."
    )
    if lost:
        words += f" In {', '.join(lost)} no player wins that often, so nothing is compared."
    return Page(
        "Do combinations of step credit rank actions better than published methods?",
        f"{words} Above: {CHOSEN} minus the published method with the largest estimate on these tasks.",
        tables,
        chips=[("environments", ", ".join(config.players)), ("split", config.split), ("seed", str(config.seed))],
        about=[("seconds", f"{sum(contest.seconds for contest in found.contests):.0f}")],
    )


def _credits(contests: Sequence[Contest], measure: str, size: int) -> Table:
    names = dict.fromkeys(place.credit for contest in contests for place in contest.places)
    rows = [
        [name, *(measuring.number(contest.place(name, size).measures[measure], measure) for contest in contests)]
        for name in names
    ]  # fmt: skip
    explained = measuring.explained([measure]) if size == contests[0].places[-1].size else {}
    return Table(mean_title(measure, size), ["credit", *(contest.env for contest in contests)], rows, "", explained)


def _above(contests: Sequence[Contest], size: int) -> Table:
    rows = []
    for contest in contests:
        for measure in SHOWN:
            best = contest.best_published(measure, size)
            mine = measuring.number(contest.place(CHOSEN, size).measures[measure], measure)
            published = f"{best.credit} {measuring.number(best.measures[measure], measure)}"
            above = measuring.estimate(best.less_than_chosen[measure], measure, "+")
            rows.append([contest.env, measuring.EXPLAINED[measure][0], mine, published, above])
    heads = ["environment", "measure", CHOSEN, "best published", "above"]
    return Table(f"{CHOSEN} above the best published method, groups of {size}", heads, rows)


def configure(
    quick: Annotated[bool, option("4 tasks of each environment and one player.", "--quick")] = False,
    env: playing.Envs = None,
    groups: playing.Sizes = None,
    player: playing.Players = None,
    tasks: playing.Tasks = None,
    split: playing.Split = playing.VALIDATION,
    continuations: playing.Continuations = None,
    branches: playing.Branches = None,
    gamma: playing.Gamma = 0.95,
    seed: playing.Seed = 0,
) -> playing.TruthConfig:
    """Compare combinations of step credit with all methods, in every environment, by the league's measures."""
    return playing.make_config(
        playing.QUICK if quick else playing.FULL, envs=env, groups=groups, players=player, gamma=gamma, tasks=tasks,
        continuations=continuations, branches=branches, seed=seed, split=split, credits=names_of("combinations"),
    )  # fmt: skip


STUDY = Study(
    name="combinations", file="combinations.json", version=1, part="environment", record=Contest, results=Contests,
    configure=configure, parts=lambda config: list(config.players), run=run_contest, page=page,
)  # fmt: skip
