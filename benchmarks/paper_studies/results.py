"""What a study found: one JSON file, from which its tables, its picture and its page are made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.league.results import LeagueConfig
from benchmarks.machine import Machine
from benchmarks.statistics import Interval
from benchmarks.training.records import Trainings, check

VERSION = 1


@dataclass(frozen=True)
class AgainstConfig:
    """What the part without training was asked; a folder holds the results of one configuration.

    Attributes:
        study: its name.
        league: who plays what, and how the truth is found; `credits` are names of credits, `sizes` of groups.
        keys: labellings, see `benchmarks.paper_studies.description.Labels`.
    """

    study: str
    league: LeagueConfig
    keys: list[str]


@dataclass(frozen=True)
class Cell:
    """One credit under one labelling, in groups of one size, held against the truth.

    Attributes:
        env: name of the environment.
        credit, variant: see `benchmarks.paper_studies.description.Compared`.
        key, noise: of the labelling; "own" and "0 %" where there is one only.
        size: episodes per group.
        measures: by name in `benchmarks.ranking.measures`, with 95 % intervals over tasks; None: nothing to measure.
        less_base: the measures less those of the cell that this one is compared with, paired; empty where there is
            none.
    """

    env: str
    credit: str
    variant: str
    key: str
    noise: str
    size: int
    measures: dict[str, Interval | None]
    less_base: dict[str, Interval | None]


@dataclass(frozen=True)
class GraphCell:
    """What a group's graphs are like under one labelling: ratios of `benchmarks.league.diagnostics.GRAPHS`.

    Beside them "aliased", share of steps in a state that stands for different ones of the environment's own.
    """

    env: str
    key: str
    noise: str
    size: int
    measures: dict[str, Interval | None]


@dataclass(frozen=True)
class Episodes:
    """Who played an environment, and what the steps were truly worth.

    Attributes:
        env: name of the environment.
        player: name of the player.
        tasks, episodes: numbers, of all tasks together.
        success: share of episodes won.
        steps: per episode.
        truth: "distance" or "value", see `benchmarks.league.results.Held`.
        known: share of steps whose truth is known.
        gained_in_lost: of the steps of lost episodes whose truth is known, the share that was worth something.
        idle_in_won: of those of won episodes, the share that was worth nothing, or less.
        seconds: wall time.
    """

    env: str
    player: str
    tasks: int
    episodes: int
    success: float
    steps: float
    truth: str
    known: float
    gained_in_lost: Interval | None
    idle_in_won: Interval | None
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One environment."""

    episodes: Episodes
    cells: list[Cell]
    graphs: list[GraphCell]


@dataclass(frozen=True)
class AgainstFound:
    """All environments of the part without training."""

    config: AgainstConfig
    machine: Machine
    measured: list[Measured]


@dataclass(frozen=True)
class Found:
    """The whole file.

    Attributes:
        version: of the format.
        study: its name.
        against: the part without training; None: not run.
        trained: the part with training, per environment; without settings that belong to other studies.
    """

    version: int
    study: str
    against: AgainstFound | None
    trained: list[Trainings]


def save(found: Found, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(found, path)


def load(path: Path) -> Found:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes; names the file.
    """
    found = json_files.load(Found, path)
    if found.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {found.version}; run the study again")
    for trained in found.trained:
        try:
            check(trained)
        except ResultsError as error:
            raise ResultsError(f"{path}: {error}") from None
    return found
