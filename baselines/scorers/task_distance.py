"""Distance to success after each step, by all steps recorded for its task (TIGPO's graphs).

    score = gamma^d(s')        d: fewest steps to success over the steps of this table and of all earlier ones

There is no network; the scorer stores the state graph of every task (`wrappers.credit.task_graph.TaskGraphs`). This
helps if tasks are played repeatedly; a task that is played once has the distances of its own group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from agentgym.checks import Range, Size, fields_checked
from agentgym.trajectory import Floats, StepTable
from baselines.play.dynamic_sampling import task_of
from baselines.scorers.scorer import ScorerConfig, StepScorer
from wrappers.credit.state_graph import discounted
from wrappers.credit.task_graph import TaskGraphs
from wrappers.credit.tigpo import GAMMA, distances_with, gains_with


@fields_checked
@dataclass(frozen=True)
class TaskDistanceConfig(ScorerConfig):
    """Settings of the scorer; those of `baselines.scorers.scorer.ScorerConfig` are for networks and have no effect.

    Attributes:
        of: "next", the distance after each step, or "gain", the step's gain: gamma^d(s') - gamma^d(s).
        gamma: discount per step of distance.
        max_tasks: number of tasks that are stored; the least recently played are dropped first; None: all.
    """

    level: Literal["turn"] = "turn"
    of: Literal["next", "gain"] = "next"
    gamma: Annotated[float, Range(above=0, high=1)] = GAMMA
    max_tasks: Size | None = None

    def make(self, policy: Any) -> TaskDistance:
        return TaskDistance(self)


class TaskDistance(StepScorer):
    """Discounted distances on the stored graph of every task."""

    takes_forks = True

    def __init__(self, config: TaskDistanceConfig | None = None) -> None:
        self.config = config or TaskDistanceConfig()
        self.graphs = TaskGraphs(max_tasks=self.config.max_tasks)

    def scores(self, table: StepTable) -> Floats:
        """Return float64 (N,), gamma^d of each row's next state, or its gain; 0 if no path to success is known."""
        table = by_task(table)
        if self.config.of == "gain":
            return gains_with(table, self.graphs, self.config.gamma)
        return discounted(distances_with(table, self.graphs), self.config.gamma)

    def update(
        self, table: StepTable, scores: Floats, targets: Floats | None, rng: np.random.Generator, learning_rate: float
    ) -> dict[str, float]:
        """Store the table's steps; return the number of stored tasks, and of their states."""
        table = by_task(table)
        seen = sum(task in self.graphs for task in table.groups) / max(table.n_groups, 1)
        self.graphs.add_table(table)
        return {
            "tasks_seen_before": seen,
            "tasks_known": float(len(self.graphs)),
            "states_known": float(self.graphs.n_nodes),
        }

    def state_dict(self) -> dict[str, Any]:
        return self.graphs.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.graphs.load_state_dict(state)

    def describe(self) -> dict[str, Any]:
        gain = {} if self.config.of == "next" else {"of": self.config.of}
        return {"scorer": "task_distance", "gamma": self.config.gamma, "max_tasks": self.config.max_tasks, **gain}


def by_task(table: StepTable) -> StepTable:
    """Return the table whose groups are named after their tasks, also those of later rounds of dynamic sampling."""
    return replace(table, groups=tuple(map(task_of, table.groups)))
