"""Vine: the value of a state is the mean return of continuations played from it.

V(s_t) = mean of G over the K continuations from s_t,   V = 0 after the end of an episode
A_t    = r_t + gamma V(s_{t+1}) - V(s_t)

Continuations are branches cut at the state, for an episode's first state the group's other episodes from it, or a
separate table. A trajectory never enters its own values. Branches only estimate: their rows are nan (not scored).
Source: Trust Region Policy Optimization (vine procedure) and VinePPO; see docs/credit/vine.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Ending, Floats, StepTable
from wrappers.credit.forks import discounted_sums, first_rows, spread
from wrappers.credit.group import number_pairs, states_of, whitened
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import OutcomeOptions, credit, option
from wrappers.credit.returns import discounted_returns, penalties, step_rewards
from wrappers.credit.wrapper import CreditWrapper


class VineOptions(OutcomeOptions, total=False):
    """Options of `vine`."""

    gamma: Annotated[float, option(1.0, "discount of returns and values", low=0, high=1)]
    pool: Annotated[Literal["fork", "state"], option(
        "fork", 'continuations that estimate a state: those cut at this "fork" of the trajectory, or all of the group '
        'from the same "state" (authors\' code, by equal prompts)', authors="state",
    )]  # fmt: skip
    gaps: Annotated[Literal["segment", "backwards"], option(
        "segment", 'steps out of states without a value: "segment", they share the gain from the last state with a '
        'value to the next one, and those before the first such state are not scored; "backwards", their value is '
        "their own return, so they score 0 and the step before them gets the gain (authors' code)", authors="backwards",
    )]  # fmt: skip
    whiten: Annotated[
        bool, option(False, "bring all scores of the batch to mean 0 and variance 1 (authors' code)", authors=True)
    ]


# The authors' tasks know no invalid action.
@credit(VineOptions, paper={}, authors={"invalid_penalty": 0.0})
def vine(
    table: StepTable, *, continuations: StepTable | None = None, preset: str = "paper", **options: Unpack[VineOptions]
) -> Floats:
    """Return the advantage of every step of the trajectories played from the beginning.

    Args:
        table: N steps of finished groups, with branches (`agentgym.rollout.collect_tree`). Without branches the whole
            episode is one segment, compared with the others, if all episodes of a group begin in one state.
        continuations: trajectories that estimate the states they begin in, for groups of the same name, in place of the
            table's; `pool` then has no effect. They also give the value of a state cut off by a time limit, 0
            otherwise.

    Returns:
        float64 (N,); nan: a row of a branch, or (with gaps="segment") before the first state whose value is known.

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
    # Segments from a state with a value to the next one or the end: rewards, and the value there.
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
    first = first_rows(table)
    if pool == "state":
        place, n_places = states_of(table)
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
    """The same from another table; and float64 (M,), the value where a time limit cut each trajectory, else 0."""
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


METHOD = Method(
    vine, "The gain in value of each step; values are mean returns of 4 continuations of each state of the group.",
    options={"pool": "state", **PENALTY}, training={"rollout.branches": 4, "rollout.branch_at": "distinct"},
    # Continuations use most of the tokens; fewer tasks per iteration allow more iterations.
    space={"groups": (4, 8)}, contender="vine", colour="#6699CC",
)  # fmt: skip
