"""`search.json`: what search players reached, as documented dataclasses that are validated on load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks import json_files
from benchmarks.json_files import ResultsError
from benchmarks.learning.results import Graph
from benchmarks.machine import Machine

VERSION = 1


@dataclass(frozen=True)
class SearchConfig:
    """What was asked for; a folder holds the results of one configuration.

    Attributes:
        env: Gymnasium id.
        policy: "random", or the job folder of a learning benchmark.
        split: of the tasks.
        tasks: number of tasks, each played once.
        methods: ways to search, names in `benchmarks.search_players.study.METHODS`.
        budgets: simulated steps per episode, ascending.
        listed: whether admissible commands are listed with the policy's probabilities; else it is asked for replies.
        rollout: steps that the policy plays on from a new state; None: to the end of the episode.
        outcome: what counts, see `policies.search.value.Value`.
        gamma: discount per step.
        fresh: whether simulations draw random numbers of their own.
        shown: index of the task whose searches are drawn.
        seed: of episodes, policies and searches.
    """

    env: str
    policy: str
    split: str
    tasks: int
    methods: list[str]
    budgets: list[int]
    listed: bool
    rollout: int | None
    outcome: Literal["score", "won", "return"]
    gamma: float
    fresh: bool
    shown: int
    seed: int


@dataclass(frozen=True)
class SearchScore:
    """One player on all tasks.

    Attributes:
        player: "alone" (the policy, sampled), "greedy" (the policy at temperature 0), or a method.
        budget: simulated steps per episode; 0 for the policy itself.
        success: one character per task, "1" solved.
        steps: mean number of simulated steps that were spent.
        tokens: mean number of tokens that were written in them.
        scored: mean number of tokens that were read for probabilities.
        length: mean number of steps of the episodes that were played.
        seconds: of wall time, for all tasks.
        graph: the search of the task that is drawn; None: there is none, or it is too large to be read.
    """

    player: str
    budget: int
    success: str
    steps: float
    tokens: float
    scored: float
    length: float
    seconds: float
    graph: Graph | None


@dataclass(frozen=True)
class SearchResults:
    """The whole file."""

    version: int
    created: str
    config: SearchConfig
    machine: Machine
    scores: list[SearchScore]


def save(results: SearchResults, path: Path) -> None:
    """Write; the file appears whole or not at all."""
    json_files.write_json(results, path)


def load(path: Path) -> SearchResults:
    """Read and check.

    Raises:
        ResultsError: no such file, not what `save` writes, another version, or a player without all tasks.
    """
    found = json_files.load(SearchResults, path)
    if found.version != VERSION:
        raise ResultsError(f"{path}: this code reads version {VERSION}, got {found.version}; run it again")
    for score in found.scores:
        if len(score.success) != found.config.tasks or set(score.success) - {"0", "1"}:
            raise ResultsError(
                f"{path}: {score.player!r} has no character 0 or 1 for each of {found.config.tasks} tasks"
            )
    return found
