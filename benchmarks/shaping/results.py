"""`shaping.json`: what the shaping study found, as documented dataclasses that are validated on load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from baselines.sb3.shaping import Point, SB3Config
from baselines.sb3.sokoban import Reward
from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.machine import Machine

VERSION = 1


@dataclass(frozen=True)
class ShapingConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        rewards: what is compared, see `baselines.sb3.sokoban`.
        seeds: training seeds; every reward is trained once per seed.
        training: numbers of a training, the same for all.
    """

    rewards: list[Reward]
    seeds: list[int]
    training: SB3Config


@dataclass(frozen=True)
class ShapingRun:
    """One training: its evaluations, in order of steps."""

    reward: str
    seed: int
    points: list[Point]


@dataclass(frozen=True)
class ShapingResults:
    """The whole file. `created` is a time in UTC; one run per reward and seed, in the order of the configuration."""

    version: int
    created: str
    config: ShapingConfig
    machine: Machine
    runs: list[ShapingRun]

    def of(self, reward: str) -> list[ShapingRun]:
        """The runs of a reward, one per seed in the order of the configuration."""
        return [run for run in self.runs if run.reward == reward]


def check(results: ShapingResults) -> None:
    """Check what types cannot say.

    Raises:
        ResultsError: wrong version; other runs than the configuration asks for; evaluations at other steps, or of
            other numbers of levels.
    """
    config, training = results.config, results.config.training
    if results.version != VERSION:
        raise ResultsError(f"version: this code reads version {VERSION}, got {results.version}; run it again")
    expected = [(reward, seed) for reward in config.rewards for seed in config.seeds]
    found = [(run.reward, run.seed) for run in results.runs]
    if found != expected:
        raise ResultsError(f"runs: expected {expected}, got {found}")
    steps = list(range(0, training.steps + 1, training.evaluate_every))
    for i, run in enumerate(results.runs):
        if [point.steps for point in run.points] != steps:
            raise ResultsError(f"runs[{i}].points: expected evaluations after {steps} steps")
        for point in run.points:
            for name, success, count in (
                ("training", point.training, training.levels.training),
                ("held_out", point.held_out, training.levels.held_out),
            ):
                if len(success) != count or set(success) - {"0", "1"}:
                    raise ResultsError(f"runs[{i}].points.{name}: expected {count} characters 0 or 1")


def save(results: ShapingResults, path: Path) -> None:
    """Check and write; the file appears whole or not at all."""
    check(results)
    json_files.write_json(results, path)


def load(path: Path) -> ShapingResults:
    """Read and check.

    Raises:
        ResultsError: no such file, not JSON, or not what `save` writes; names the file.
    """
    results = json_files.load(ShapingResults, path)
    try:
        check(results)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None
    return results
