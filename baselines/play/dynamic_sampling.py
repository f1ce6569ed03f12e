"""Dynamic sampling: groups without contrast are replaced by groups of newly drawn tasks (Yu et al. 2025).

As many new tasks are played as should fill the gaps, by the share of groups with contrast so far; the rest in another
round, up to a limit. The batch keeps its size: later groups are dropped first, and when the rounds run out, groups
without contrast fill it. verl raises an error then; verl-agent cuts nothing, so that its batches grow.
"""

import dataclasses
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, StepTable, Trajectory
from wrappers.credit.group import has_contrast

_ROUND = re.compile(r", round \d+$")

Play = Callable[[Sequence[Mapping[str, Any]], int], StepTable]


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Groups to train on.

    Attributes:
        table: as many groups as requested; those of later rounds are named `"task 7, round 2"`.
        first: all episodes of the first round, for the learning curve.
        resampled: number of groups played after the first round.
        flat: number of groups without contrast in `table`.
    """

    table: StepTable
    first: StepTable
    played: int
    resampled: int
    flat: int


def sample_groups(
    play: Play, tasks: Sequence[Mapping[str, Any]], groups: int, generator: np.random.Generator, *, rounds: int = 0,
    contrast: Callable[[StepTable], Bools] = has_contrast,
) -> Sample:  # fmt: skip
    """Play groups of randomly drawn tasks; the result is a function of the arguments.

    Args:
        play: plays one group for each of the given tasks, in order, from a seed.
        tasks: reset options to draw from, without repetition if there are enough.
        rounds: number of further draws; 0: no group is replaced.
        contrast: bool (n_groups,) of a table, True = keep.
    """
    chosen = _draw(np.arange(len(tasks)), groups, generator)
    first = play([tasks[i] for i in chosen], int(generator.integers(2**63)))
    if not rounds:
        return Sample(first, first, len(first), 0, 0)
    tables, kept = [first], [contrast(first)]
    seen = set(chosen.tolist())
    for _ in range(rounds):
        found, drawn = sum(int(mask.sum()) for mask in kept), sum(map(len, kept))
        if found >= groups:
            break
        # As many as the share of contrast so far makes necessary, but no more than a whole batch.
        wanted = groups if not found else min(groups, -(-(groups - found) * drawn // found))
        fresh = np.array([i for i in range(len(tasks)) if i not in seen], np.int64)
        chosen = _draw(fresh if len(fresh) >= wanted else np.arange(len(tasks)), wanted, generator)
        seen.update(chosen.tolist())
        tables.append(play([tasks[i] for i in chosen], int(generator.integers(2**63))))
        kept.append(contrast(tables[-1]))
    return _join(tables, kept, groups)


def _draw(pool: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return pool[generator.choice(len(pool), count, replace=len(pool) < count)]


def _join(tables: list[StepTable], kept: list[Bools], groups: int) -> Sample:
    steps = sum(map(len, tables))
    resampled = sum(table.n_groups for table in tables[1:])
    order = [(number, group) for number, mask in enumerate(kept) for group in np.flatnonzero(mask)]
    flat = [(number, group) for number, mask in enumerate(kept) for group in np.flatnonzero(~mask)]
    missing = max(groups - len(order), 0)
    if len(tables) == 1:
        return Sample(tables[0], tables[0], steps, 0, missing)
    trajectories: list[Trajectory] = []
    by_round = [_by_group(table, number) for number, table in enumerate(tables)]
    for number, group in (order[:groups] + flat)[:groups]:
        trajectories += by_round[number][group]
    return Sample(StepTable.from_trajectories(trajectories), tables[0], steps, resampled, missing)


def task_of(label: Hashable) -> Hashable:
    """Return the original label of a group, without the round that distinguishes it from groups of other rounds.

    >>> task_of("level 7, round 2")
    'level 7'
    """
    return _ROUND.sub("", label) if isinstance(label, str) else label


def _by_group(table: StepTable, number: int) -> list[list[Trajectory]]:
    result: list[list[Trajectory]] = [[] for _ in table.groups]
    for group, trajectory in zip(table.trajectory_group, table.to_trajectories(), strict=True):
        if number:
            parent = trajectory.parent
            trajectory = dataclasses.replace(
                trajectory,
                group=f"{trajectory.group}, round {number}",  # see task_of
                trajectory=f"{trajectory.trajectory}, round {number}",
                parent=parent and (f"{parent[0]}, round {number}", parent[1]),
            )
        result[group].append(trajectory)
    return result
