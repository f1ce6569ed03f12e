"""`ranking.json`: how well step credit ranks actions, as documented dataclasses that are validated on load.

A `Ranking` holds what was asked (`config`), where it ran (`machine`), and one `PlayerResult` per policy whose episodes
were credited, each with one `Score` per credit and group size: every measure with its interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine
from benchmarks.ranking.measures import MEASURES
from benchmarks.statistics import Interval

VERSION = 1


@dataclass(frozen=True)
class RankingConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        env: Gymnasium id of a Sokoban environment.
        split: of the tasks.
        tasks: number of tasks.
        episodes: per task.
        sizes: group sizes, each dividing `episodes` and the next larger size.
        optimal: probability of an optimal move of each scripted player, by name.
        models: model folders that the learning benchmark wrote, by the name of their job.
        credits: names of what is measured.
        resamples: of the bootstrap over tasks.
        seed: of episodes, bootstrap and random numbers.
        weights: fingerprints of these models, see `benchmarks.panels.players.weights_of`; None: no model plays.
    """

    env: str
    split: str
    tasks: int
    episodes: int
    sizes: list[int]
    optimal: dict[str, float]
    models: dict[str, str]
    credits: list[str]
    resamples: int
    seed: int
    weights: dict[str, str] | None = None


@dataclass(frozen=True)
class Score:
    """One credit in groups of one size.

    Attributes:
        credit: name of the credit.
        part: "episode", "step", "fitted", "total" or "reference", see `wrappers.credit.method.Credit`.
        method: credit method, "oracle" or "random".
        size: episodes per group.
        measures: estimate and 95 % interval of every measure of `benchmarks.ranking.measures`; None: not measurable.
        differences: the same for the measure minus that of `BASELINE` in groups of the same size.
    """

    credit: str
    part: str
    method: str
    size: int
    measures: dict[str, Interval | None]
    differences: dict[str, Interval | None]


@dataclass(frozen=True)
class PlayerResult:
    """Episodes of one policy and what all credits made of them.

    Attributes:
        name: of the player.
        success: share of episodes solved.
        steps: number of rows N.
        gained, unchanged, lost, dead: shares of rows whose true change is positive, 0, negative and finite, and
            infinite (into a dead end); they add up to 1.
        stuck: share of rows that begin in a dead end (counted in `unchanged`).
        comparable: per group size, share of rows in a state where the group took actions of different true worth.
        contrast: per group size, share of groups with both won and lost episodes.
        scores: of every credit at every group size.
        seconds: wall time.
    """

    name: str
    success: float
    steps: int
    gained: float
    unchanged: float
    lost: float
    dead: float
    stuck: float
    comparable: list[float]
    contrast: list[float]
    scores: list[Score]
    seconds: float


@dataclass(frozen=True)
class Ranking:
    """The whole file; see the module."""

    version: int
    created: str
    config: RankingConfig
    machine: Machine
    players: list[PlayerResult]


def file_stem(player: str) -> str:
    """Return the name of a player's file, without its ending."""
    return player.replace(" ", "-")


def job_of(folder: Path, taken: Iterable[str]) -> Path:
    """Return the job folder of a policy that plays beside others.

    Args:
        folder: the job folder, or the model folder in it.
        taken: names of the other players.

    Raises:
        ResultsError: its results would stand in another player's file.
    """
    job = folder.parent if folder.name == "model" else folder
    other = next((name for name in taken if file_stem(name) == file_stem(job.name)), None)
    if other is not None:
        raise ResultsError(f"{job}: the name {job.name!r} is taken by the player {other!r}; results are kept by name")
    return job


def score_of(player: PlayerResult, credit: str, size: int) -> Score:
    """Return one score of a player.

    Raises:
        KeyError: there is none.
    """
    for score in player.scores:
        if (score.credit, score.size) == (credit, size):
            return score
    raise KeyError(f"{player.name} has no score of {credit!r} at group size {size}")


def is_main(score: Score) -> bool:
    """Return whether a credit stands for its method: its own step part, or all it has, with the paper's options.

    Methods whose only signal is the episode rank the steps of a state alike, so that one of them stands for all.
    """
    return score.credit in ("grpo", f"{score.method} step") or (score.part == "fitted" and score.credit == score.method)


def credit_names(ranking: Ranking) -> list[str]:
    """Names of all credits, in the order in which they were measured."""
    return list(dict.fromkeys(score.credit for player in ranking.players for score in player.scores))


def save(ranking: Ranking, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(ranking, path)


def load(path: Path) -> Ranking:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes.
    """
    ranking = json_files.load(Ranking, path)
    if ranking.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {ranking.version}; run it again")
    sizes = ranking.config.sizes
    for player in ranking.players:
        found = {(score.credit, score.size) for score in player.scores}
        for credit in credit_names(ranking):
            missing = [size for size in sizes if (credit, size) not in found]
            if missing:
                raise ResultsError(f"{path}: {player.name} has no score of {credit!r} at group size {missing[0]}")
        for score in player.scores:
            if set(score.measures) != set(MEASURES) or set(score.differences) != set(MEASURES):
                raise ResultsError(f"{path}: {player.name}, {score.credit!r}: expected the measures {MEASURES}")
    return ranking
