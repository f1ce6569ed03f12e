"""`combinations`: combinations of step credit beside all methods, each paired with the one that was chosen.

What the league measures of single players is averaged over the players of an environment here, and every credit is also
held against the chosen combination on the same steps: the bootstrap draws the same tasks for both, and for all players.
A part of the study is one environment.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from agentgym.trajectory import Floats
from benchmarks.processes import Progress
from benchmarks.report.page import Page, Table
from benchmarks.statistics import Interval
from benchmarks.study import Found, Study
from benchmarks.truth.credits import CHOSEN, OWN, SETS, credits_called, graph_else_vine, names_of
from benchmarks.truth.episodes import (
    FULL,
    QUICK,
    VALIDATION,
    Branches,
    Continuations,
    Envs,
    Gamma,
    Players,
    Seed,
    Sizes,
    Split,
    Tasks,
    TruthConfig,
    make_config,
    play,
)  # fmt: skip
from benchmarks.truth.league import LEAST, enough, vine_credit
from benchmarks.truth.measures import (
    EXPLAINED,
    MEASURES,
    bootstrap_weights,
    estimate,
    explained,
    interval_of,
    measures,
    number,
    samples,
)  # fmt: skip
from benchmarks.truth.pages import SHOWN
from benchmarks.truth.truths import truths_of

#: What the combinations are held against: what papers have published.
PUBLISHED = tuple(credit for credit in SETS["methods"] if credit.method not in OWN)


@dataclass(frozen=True)
class Place:
    """One credit in one environment, in groups of one size: means over the players, with intervals over tasks.

    `less_than_chosen` is the chosen combination's measure less this one's, paired.
    """

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
        """Return the place of a credit, or raise KeyError."""
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
class Contests(Found):
    """The whole file."""

    config: TruthConfig
    contests: list[Contest]


def run_contest(config: TruthConfig, env: str, context: Any, progress: Progress) -> Contest:
    """Let the players of one environment play, give every credit, and measure them over all players."""
    begin = time.perf_counter()
    sums: dict[tuple[str, int], list[Floats]] = {}
    parts, success, truth_name, n_tasks = {}, {}, "", 0
    for name in config.players[env]:
        played = play(config, env, name, progress)
        episodes = played.table
        success[name] = float(episodes.trajectory_won.mean())
        if not enough(success[name]):
            continue
        truth = truths_of(config, played, progress)[0][0]
        truth_name, n_tasks = truth.name, episodes.n_groups
        credits = credits_called(config.credits, learned=False)
        if config.branches:
            vine = vine_credit(config, played)[0]
            credits += [vine, graph_else_vine(vine)]
        for size, (part, sample) in samples(episodes, truth.values, config.sizes).items():
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
    found = np.stack([np.concatenate((measures(each.sum(0))[None], measures(drawn @ each))) for each in sums])
    known = ~np.isnan(found)
    mean: Floats = np.where(known, found, 0.0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    return mean


def _intervals(found: Floats) -> dict[str, Interval | None]:
    return {name: interval_of(float(found[0, i]), found[1:, i]) for i, name in enumerate(MEASURES) if name in SHOWN}


def page(found: Contests) -> Page:
    """Return a table of all credits per group size, and what the chosen combination is worth above the best others."""
    config = found.config
    contests = [contest for contest in found.contests if contest.places]
    sizes = config.sizes if contests else []
    tables = [_credits(contests, measure, size) for size in sizes for measure in SHOWN]
    tables += [_above(contests, size) for size in sizes]
    lost = [contest.env for contest in found.contests if not contest.places]
    words = f"{config.words} Means over players who won {LEAST:.0%} at least; 95 % intervals, bootstrap over tasks."
    if lost:
        words += f" In {', '.join(lost)} no player won that much, and nothing is compared."
    return Page(
        "Do combinations of step credit rank better than what was published?",
        f"{words} Above: {CHOSEN} less the published method with the largest estimate on these tasks.",
        tables,
        chips=[("environments", ", ".join(config.players)), ("split", config.split), ("seed", str(config.seed))],
        about=[("seconds", f"{sum(contest.seconds for contest in found.contests):.0f}")],
    )


def _credits(contests: Sequence[Contest], measure: str, size: int) -> Table:
    names = dict.fromkeys(place.credit for contest in contests for place in contest.places)
    rows = [
        [name, *(number(contest.place(name, size).measures[measure], measure) for contest in contests)]
        for name in names
    ]  # fmt: skip
    title = f"{EXPLAINED[measure][0].capitalize()}, mean over players, groups of {size}"
    heads = ["credit", *(contest.env for contest in contests)]
    return Table(title, heads, rows, explained=explained([measure]) if size == contests[0].places[-1].size else {})


def _above(contests: Sequence[Contest], size: int) -> Table:
    rows = []
    for contest in contests:
        for measure in SHOWN:
            best = contest.best_published(measure, size)
            mine = number(contest.place(CHOSEN, size).measures[measure], measure)
            published = f"{best.credit} {number(best.measures[measure], measure)}"
            above = estimate(best.less_than_chosen[measure], measure, "+")
            rows.append([contest.env, EXPLAINED[measure][0], mine, published, above])
    heads = ["environment", "measure", CHOSEN, "best published", "above"]
    return Table(f"{CHOSEN} above the best published method, groups of {size}", heads, rows)


def configure(
    quick: Annotated[bool, typer.Option("--quick", help="4 tasks of each environment and one player.")] = False,
    env: Envs = None,
    groups: Sizes = None,
    player: Players = None,
    tasks: Tasks = None,
    split: Split = VALIDATION,
    continuations: Continuations = None,
    branches: Branches = None,
    gamma: Gamma = 0.95,
    seed: Seed = 0,
) -> TruthConfig:
    """Hold combinations of step credit against all methods, in every environment, as the league holds methods."""
    return make_config(
        QUICK if quick else FULL, envs=env or (), groups=groups or (), players=player or (), gamma=gamma,
        tasks=tasks or 0, continuations=continuations or 0, branches=branches, seed=seed, split=split,
        credits=names_of("combinations"),
    )  # fmt: skip


STUDY = Study(
    name="combinations", file="combinations.json", version=1, part="environment", record=Contest, results=Contests,
    configure=configure, parts=lambda config: list(config.players), run=run_contest, page=page,
    summary=lambda config, contests, context: {"contests": contests},
)  # fmt: skip
