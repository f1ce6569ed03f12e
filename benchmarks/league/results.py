"""`league.json`: what every credit method makes of every player's episodes, as dataclasses validated on load."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.ranking.results import Score
from benchmarks.statistics import Interval

VERSION = 1
#: Share of episodes that a player has to win to count in means over players.
LEAST = 0.02


@dataclass(frozen=True)
class LeagueConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        players: probability of the expert's action of each scripted player, by name, of each environment.
        models: job folders of learning benchmarks, by name, of each environment.
        tasks: number of tasks of each environment.
        episodes: per task.
        sizes: group sizes, each dividing `episodes` and the next larger size.
        continuations: of each state and each choice, for truth by Monte-Carlo; an even number.
        check: find out truth by Monte-Carlo too where distances are known.
        branches: continuations of each state that `vine` is given; 0: it does not take part.
        gamma: discount of Monte-Carlo values.
        credits: names of what is measured.
        resamples: of the bootstrap over tasks.
        seed: of episodes, continuations, bootstrap and random numbers.
        split: of the tasks, "validation" or "test".
        weights: fingerprints of these models, see `benchmarks.play.players.weights_of`; None: no model plays.
    """

    players: dict[str, dict[str, float]]
    models: dict[str, dict[str, str]]
    tasks: dict[str, int]
    episodes: int
    sizes: list[int]
    continuations: int
    check: bool
    branches: int
    gamma: float
    credits: list[str]
    resamples: int
    seed: int
    split: str = "validation"
    weights: dict[str, str] | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What groups of one size have to compare.

    Attributes:
        size: episodes per group.
        shared: share of steps in a state that several trajectories of the group visited.
        singletons: share of steps in a state that the group visited only this once.
        ties: of all pairs of actions that the group took in one state and of which at least one can lead to success in
            its graph, share that lead to the same distance; None: there is no such pair.
        mixed: share of groups with both won and lost episodes.
    """

    size: int
    shared: float
    singletons: float
    ties: float | None
    mixed: float


@dataclass(frozen=True)
class Held:
    """All credits held against one truth of one player's steps.

    Attributes:
        truth: "distance": exact change of the number of commands to success; "value": Q - V of the player at the
            discount of the configuration, by Monte-Carlo; "undiscounted value": the same without discount.
        known: share of steps whose truth is known; the others are left out.
        error: mean standard error of a step's truth, in units of `spread`; 0: it is exact.
        spread: standard deviation of the (finite) truth over steps.
        ceilings: per group size, rank correlation within states that a perfect credit would have with a truth of this
            error; None: it is exact, or nothing can be compared.
        signs: per group size, share of changes whose sign one half of the continuations has as the other half has it: a
            perfect credit gets at least that many right; None: as for `ceilings`.
        comparable: per group size, share of these steps in a state where the group took actions of different truth.
        scores: of every credit at every group size.
    """

    truth: str
    known: float
    error: float
    spread: float
    ceilings: list[Interval | None]
    signs: list[Interval | None]
    comparable: list[float]
    scores: list[Score]

    def score(self, credit: str, size: int) -> Score | None:
        """Return one score, None where this player's episodes do not have what the credit needs."""
        return next((score for score in self.scores if (score.credit, score.size) == (credit, size)), None)

    def measure(self, credit: str, measure: str, size: int) -> Interval | None:
        """Return one measure of a score, None also where there was nothing to measure."""
        score = self.score(credit, size)
        return None if score is None else score.measures[measure]


@dataclass(frozen=True)
class Standing:
    """One player in one environment, and what all credits made of its episodes.

    Attributes:
        env: name of the environment.
        player: name of the player.
        success: share of episodes won.
        worth: mean return of an episode.
        steps: number of rows.
        states, choices: distinct states of tasks, and distinct actions in them.
        truth_cost: steps of continuations for the truth, per step of the episodes.
        vine_cost: the same for `vine`.
        diagnoses: per group size.
        held: against each truth, the environment's main one first.
        seconds: wall time.
    """

    env: str
    player: str
    success: float
    worth: float
    steps: int
    states: int
    choices: int
    truth_cost: float
    vine_cost: float
    diagnoses: list[Diagnosis]
    held: list[Held]
    seconds: float

    @property
    def main(self) -> Held:
        """What counts: exact distance where the environment knows it."""
        return self.held[0]


@dataclass(frozen=True)
class League:
    """The whole file; see the module."""

    version: int
    created: str
    config: LeagueConfig
    machine: Machine
    standings: list[Standing]


def credits_of(league: League) -> dict[str, Score]:
    """An example of every credit, by name, in the order in which they were measured."""
    found: dict[str, Score] = {}
    for standing in league.standings:
        for score in standing.main.scores:
            found.setdefault(score.credit, score)
    return found


def counts(standing: Standing) -> bool:
    """Return whether a player counts in means: who hardly ever wins leaves nothing to methods that go by outcomes."""
    return enough(standing.success)


def enough(success: float) -> bool:
    """Return whether a player who wins this share of the episodes counts in means."""
    return success >= LEAST


def mean_measure(league: League, env: str, credit: str, measure: str, size: int) -> float | None:
    """Return a measure's mean over the players of an environment that count; None: nobody left anything to measure."""
    return _mean(
        standing.main.measure(credit, measure, size)
        for standing in league.standings
        if standing.env == env and counts(standing)
    )


def ceiling_mean(league: League, env: str, size: int) -> float | None:
    """Return the mean of the ceilings in the same way; None where the truth is exact.

    Args:
        league: what was found.
        env: name of the environment.
        size: place of the group size in the configuration.
    """
    return _mean(
        standing.main.ceilings[size] for standing in league.standings if standing.env == env and counts(standing)
    )


def _mean(intervals: Iterable[Interval | None]) -> float | None:
    found = [interval.mean for interval in intervals if interval is not None]
    return sum(found) / len(found) if found else None


def save(league: League, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(league, path)


def load(path: Path) -> League:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes.
    """
    league = json_files.load(League, path)
    if league.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {league.version}; run it again")
    return league
