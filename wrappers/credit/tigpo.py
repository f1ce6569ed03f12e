"""TIGPO: distances on a graph kept per task, and episodes also compared with earlier ones of the task.

q   = success_value gamma^d(s')           d: fewest steps to success in everything observed of the task
A_t = alpha_step (q - mean) / (std + eps) + alpha_episode A^E

The mean is over this table's steps out of the state: earlier steps only give distances, and are not trained on. A^E
compares an episode with its group and, if known, the scores of an earlier group of the task. Source: notes on the TIGPO
paper (no public code); see docs/credit.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Annotated, Any, Unpack

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import first_rows, over_forks
from wrappers.credit.group import number_pairs, standardise, states_of, statistics_of, visit_advantages
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import StatisticsOptions, credit, finite_numbers, option, options_of
from wrappers.credit.returns import episode_scores, penalties
from wrappers.credit.scored_steps import BY_STEP
from wrappers.credit.state_graph import discounted
from wrappers.credit.task_graph import TaskGraphs
from wrappers.credit.wrapper import CreditWrapper

#: Discount of the distances of recorded steps where they are scores of another method.
GAMMA = 0.8


class TIGPOOptions(StatisticsOptions, total=False):
    """Options of `tigpo`."""

    gamma: Annotated[
        float, option(0.1, "share of the value kept per step of distance; by environment .1 or .2", above=0, high=1)
    ]
    success_value: Annotated[float, option(1.0, "value at success")]
    alpha_step: Annotated[float, option(1.0, "weight of the step level")]
    alpha_episode: Annotated[float, option(1.0, "weight of the episode level")]


@credit(TIGPOOptions, paper={"outcome": "won"})
def tigpo(
    table: StepTable, *, history: TaskGraphs | None = None, earlier: Mapping[Hashable, ArrayLike] | None = None,
    preset: str = "paper", **options: Unpack[TIGPOOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step.

    Args:
        table: N steps of finished groups, each named after its task.
        history: earlier observations of the tasks; not changed. Call `TaskGraphs.add_table` after the advantages are
            used.
        earlier: scores of an earlier group's episodes by task (`task_scores`); they enter mean and deviation.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s", "s"],
    ...     action=["right", "left"], next_state=["u", "pit"], reward=[0, 0], won=[0, 0])
    >>> tigpo(table).round(3), tigpo(table, earlier={"g": [1, 0]}, std="none")
    (array([0., 0.]), array([-0.25, -0.25]))
    >>> history = TaskGraphs()
    >>> history.add("g", "u", "goal", success=True)  # an earlier policy won from u
    >>> tigpo(table, history=history).round(3)
    array([ 0.707, -0.707])
    """
    value = options["success_value"] * discounted(distances_with(table, history), options["gamma"])
    steps = visit_advantages(value - penalties(table, options, "row"), *states_of(table), options)
    episodes = _episodes(table, earlier or {}, options)
    total = options["alpha_step"] * steps + options["alpha_episode"] * episodes
    return total - penalties(table, options, "advantage")


def distances_with(table: StepTable, history: TaskGraphs | None) -> Floats:
    """Return float64 (N,): steps to success from each next state, by the table and the history; inf without a path."""
    graphs = (history or TaskGraphs()).copy_of(table.groups)
    graphs.add_table(table, valid_only=False)
    cell = number_pairs(table.group, table.n_groups, table.next_state, len(table.states))
    found = [graphs.distance(table.groups[table.group[row]], table.states[table.next_state[row]]) for row in cell[1]]
    return np.array(found, np.float64)[cell[0]]


def gains_with(table: StepTable, history: TaskGraphs | None, gamma: float = GAMMA) -> Floats:
    """Return float64 (N,): each step's gain in gamma^distance, by the table and the history; 0 without a path.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "s"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> gains_with(table, None, 0.5)  # success is two steps from s, one from u
    array([0.25, 0.5 , 0.  ])
    """
    after, graphs = distances_with(table, history), history or TaskGraphs()
    pairs, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    before = np.full(len(example), np.inf)
    np.minimum.at(before, pairs, 1.0 + after)
    earlier = [graphs.distance(table.groups[table.group[row]], table.states[table.state[row]]) for row in example]
    return discounted(after, gamma) - discounted(np.minimum(before, earlier), gamma)[pairs]


@options_of(tigpo)
def task_scores(table: StepTable, *, preset: str = "paper", **options: Unpack[TIGPOOptions]) -> dict[Hashable, Floats]:
    """Return the worths of each group's episodes by group name, to be `earlier` for a later table."""
    table, _ = table.unfolded()
    scores, group = episode_scores(table, options)[first_rows(table)], table.trajectory_group
    return {name: scores[group == i] for i, name in enumerate(table.groups)}


@over_forks()
def _episodes(table: StepTable, earlier: Mapping[Hashable, ArrayLike], options: TIGPOOptions) -> Floats:
    scores, members = episode_scores(table, options), first_rows(table)
    if options["over"] == "steps":
        members = np.arange(len(table))
    before = [
        finite_numbers(f"earlier[{name!r:.80}]", earlier[name], np.size(earlier[name]), "episode")
        if name in earlier
        else np.zeros(0)
        for name in table.groups
    ]
    # Earlier episodes enter the statistics of their groups only.
    group = np.repeat(np.arange(table.n_groups), [len(found) for found in before])
    values = np.concatenate((scores, *before))
    groups = np.concatenate((table.group, group))
    members = np.concatenate((members, len(table) + np.arange(len(group))))
    return standardise(values, groups, table.n_groups, members=members, **statistics_of(options))[: len(table)]


class TIGPO(CreditWrapper, method=tigpo):
    """Vector wrapper that remembers the graphs of its tasks, starting with `history`; see `CreditWrapper`."""

    def __init__(
        self,
        env: gym.vector.VectorEnv[Any, Any, Any],
        *,
        history: TaskGraphs | None = None,
        preset: str = "paper",
        **options: Any,
    ) -> None:
        super().__init__(env, preset=preset, **options)
        #: Observations of every task before the present table.
        self.history = TaskGraphs() if history is None else history
        #: Scores of the last group of every task before it.
        self.earlier: dict[Hashable, Floats] = {}

    def advantages(self) -> Floats:
        """Return float64 (len(table()),), by the table and everything remembered before it; errors as `table`."""
        return tigpo(self.table(), history=self.history, earlier=self.earlier, **self._options)

    def remember(self) -> None:
        """Add the finished table to the memory; call it once, after its advantages are used. Errors as `table`."""
        table = self.table()
        self.history.add_table(table)
        self.earlier.update(task_scores(table, **self._options))


METHOD = Method(
    notes="Discounted distances to success over all recorded steps of the task.", name="tigpo",
    options={"compare": "state", "outcome": "won", **PENALTY}, **BY_STEP, scorer="task_distance",
)  # fmt: skip
