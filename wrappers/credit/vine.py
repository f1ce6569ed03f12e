"""Vine: the value of a state is the mean return of continuations that were played from it.

V(s_t) = mean of G over the K continuations from s_t,   V = 0 after the end of an episode
A_t    = r_t + gamma V(s_{t+1}) - V(s_t)

Continuations are the branches cut where the state was reached; of an episode's first state, the group's other episodes
that begin there; or a table of their own. A trajectory is never part of its own values. Only trajectories that were
played from their beginning are scored: branches are there to estimate, their rows are nan.

Source: Trust Region Policy Optimization (its vine procedure) and VinePPO; see docs/credit/vine.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Ending, Floats, StepTable
from wrappers.credit.forks import discounted_sums, first_rows, spread
from wrappers.credit.group import number_pairs, whitened
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import OutcomeOptions, credit, option
from wrappers.credit.returns import discounted_returns, penalties, step_rewards
from wrappers.credit.wrapper import CreditWrapper


class VineOptions(OutcomeOptions, total=False):
    """Options of `vine`."""

    gamma: Annotated[float, option(1.0, "discount of returns and values", low=0, high=1)]
    pool: Annotated[
        Literal["fork", "state"],
        option(
            "fork",
            'which continuations estimate a state: those cut at this "fork" of the trajectory, or all of the group '
            'that begin in the same "state", wherever they were cut (authors\' code asks once for equal prompts)',
            authors="state",
        ),
    ]
    gaps: Annotated[
        Literal["segment", "backwards"],
        option(
            "segment",
            'steps out of states without a value: "segment", they share the gain from the last state with a value to '
            'the next one, and those before the first such state are not scored; "backwards", their value is what '
            "followed, so that they score 0 and the step before them has all of the gain (authors' code)",
            authors="backwards",
        ),
    ]
    whiten: Annotated[
        bool, option(False, "bring all scores of the batch to mean 0 and variance 1 (authors' code)", authors=True)
    ]


# The authors' tasks know no invalid action.
@credit(VineOptions, paper={}, authors={"invalid_penalty": 0.0})
def vine(
    table: StepTable,
    *,
    continuations: StepTable | None = None,
    preset: str = "paper",
    **options: Unpack[VineOptions],
) -> Floats:
    """Return the advantage of every step of the trajectories that were played from their beginning.

    Args:
        table: N steps of finished groups, with branches such as `agentgym.rollout.collect_tree` plays. Without any, the
            whole episode is one segment: `wrappers.credit.rloo`, where all episodes of a group begin in one state.
        continuations: trajectories that estimate the states they begin in, for groups of the same name, in place of
            those of the table; `pool` then counts for nothing. They may know what a state is worth in which a time
            limit cut an episode off; without them that is 0, for nothing more followed.

    Returns:
        float64 (N,), in the order of the table's rows; nan: a row of a branch, or (with gaps="segment") before the
        first state whose value is known.

    Raises:
        ValueError: on an unknown preset, an option's value out of range, or a reward too large to be summed.

    >>> table = StepTable.from_arrays(group=["g"] * 4, trajectory=["a", "a", "b", "c"], t=[0, 1, 1, 0],
    ...     state=["s", "u", "u", "s"], action=["right", "up", "down", "left"], next_state=["u", "goal", "pit", "pit"],
    ...     reward=[0, 1, 0, 0], won=[1, 1, 0, 0], parent={"b": ("a", 0)})
    >>> vine(table)  # V(s) is 0 for a and 1 for c, of each other; V(u) is 0, of b
    array([ 0.,  1., nan, -1.])
    """
    result = np.full(len(table), np.nan)
    if len(table) == 0:
        return result
    reward, gamma = step_rewards(table, options), options["gamma"]
    after = np.zeros(table.n_trajectories)
    if continuations is None:
        value = _values(table, discounted_returns(table, gamma, reward), options["pool"])
    else:
        returns = discounted_returns(continuations, gamma, step_rewards(continuations, options))
        value, after = _values_elsewhere(table, continuations, returns)
    known = np.isfinite(value)
    # From a state with a value to the next one, or to the end: rewards, and the value there.
    order = table.order
    worth = reward.copy()
    worth[table.last] += gamma * after
    onward = known[order[1:]] & (table.trajectory[order[1:]] == table.trajectory[order[:-1]])
    worth[order[:-1][onward]] += gamma * value[order[1:][onward]]
    begins = known[order]
    begins[table.offsets[:-1]] = True
    gain = np.empty(len(table))
    gain[order] = discounted_sums(worth[order], np.flatnonzero(begins), gamma)
    gain[known] -= value[known]
    if options["gaps"] == "segment":
        scores = spread(table, gain, np.flatnonzero(known))
    else:
        scores = np.where(known, gain, 0.0)
    rows = np.flatnonzero((table.parent[table.trajectory] < 0) & np.isfinite(scores))
    scores = scores[rows] - penalties(table, options, "row")[rows]
    result[rows] = whitened(scores) if options["whiten"] else scores
    return result - penalties(table, options, "advantage")


def _values(table: StepTable, returns: Floats, pool: str) -> Floats:
    """Float64 (N,): mean return of the continuations from each row's state, nan without any."""
    first = first_rows(table)
    if pool == "state":
        place, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
        n_places = len(example)
    else:
        # A fork is named after the row before it, an episode's beginning after its group and state.
        before = table.previous
        begins = np.flatnonzero(before < 0)
        place = before.copy()
        beginnings, example = number_pairs(table.group[begins], table.n_groups, table.state[begins], len(table.states))
        place[begins] = len(table) + beginnings
        n_places = len(table) + len(example)
    count = np.bincount(place[first], minlength=n_places)[place]
    total = np.bincount(place[first], weights=returns[first], minlength=n_places)[place]
    own = place == place[first][table.trajectory]
    count = count - own
    total = total - np.where(own, returns[first][table.trajectory], 0.0)
    values: Floats = np.divide(total, count, out=np.full(len(table), np.nan), where=count > 0)
    return values


def _values_elsewhere(table: StepTable, continuations: StepTable, returns: Floats) -> tuple[Floats, Floats]:
    """The same from another table; and float64 (M,), the value where a time limit cut each trajectory off, else 0."""
    found: dict[tuple[Hashable, Hashable], list[float]] = {}
    for row in first_rows(continuations).tolist():
        place = continuations.groups[continuations.group[row]], continuations.states[continuations.state[row]]
        found.setdefault(place, []).append(float(returns[row]))
    mean = {place: float(np.mean(values)) for place, values in found.items()}
    ids, example = number_pairs(table.group, table.n_groups, table.state, len(table.states))
    there = [(table.groups[table.group[row]], table.states[table.state[row]]) for row in example.tolist()]
    values = np.array([mean.get(place, np.nan) for place in there])[ids]
    after = [
        mean.get((table.groups[table.group[row]], table.states[table.next_state[row]]), 0.0)
        if ending is Ending.TIME_LIMIT
        else 0.0
        for row, ending in zip(table.last.tolist(), table.endings, strict=True)
    ]
    return values, np.array(after)


class Vine(CreditWrapper, method=vine): ...


METHODS = (
    Method(
        "vine",
        vine,
        "What each step gained in value, values being mean returns of 4 continuations of each state of the group.",
        options={"pool": "state", **PENALTY},
        training={"rollout.branches": 4, "rollout.branch_at": "distinct"},
        # Continuations take most of the tokens: with fewer tasks per iteration there are more iterations.
        space={"groups": (4, 8)},
        contender="vine",
        colour="#6699CC",
    ),
)
