"""Progress attribution in closed form: ridge regression of the group's outcomes on the actions taken; no network.

c = argmin |y - X c|^2 + damping |c|^2 = X' (X X' + damping I)^-1 y

per group: X[i, (s, a)] counts how often trajectory i took action a in state s, y_i is the worth of trajectory i. X X'
has a row per trajectory, whatever the number of states. Not published; see docs/credit/attribution.md.
"""

from __future__ import annotations

import functools
from typing import Annotated, Unpack

import numpy as np
from scipy.sparse import csr_array

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.group import choices_of, counting_sort, group_means
from wrappers.credit.method import FITTED, PENALTY, Credit, Method
from wrappers.credit.options import WorthOptions, credit, option
from wrappers.credit.returns import outcomes


class AttributionOptions(WorthOptions, total=False):
    """Options of `attribution`."""

    damping: Annotated[
        float, option(1.0, "weight of the squared contributions: a larger weight makes contributions smaller", low=1e-6)
    ]
    centred: Annotated[bool, option(
        False, "explain the outcome minus its group's mean, so that a group without contrast has no credit; otherwise "
        "all steps of a group with only won episodes contribute equally",
    )]  # fmt: skip


#: Most trajectories of a group: seconds, and tens of megabytes.
MOST_TRAJECTORIES = 2000


# There is no paper, so one preset.
@credit(AttributionOptions, default={"outcome": "won"})
@over_forks()
def attribution(table: StepTable, *, preset: str = "default", **options: Unpack[AttributionOptions]) -> Floats:
    """Return the contribution of every step to its outcome, equal for equal states and actions of a group.

    Time is cubic, memory quadratic in the number of trajectories of the largest group (at most `MOST_TRAJECTORIES`).

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> attribution(table).round(3)  # two steps share (2 + 1)^-1 * 2 of the success
    array([0.333, 0.333, 0.   ])
    """
    if len(table) == 0:
        return np.zeros(0)
    worth, group = outcomes(table, options), table.trajectory_group
    size = np.bincount(group, minlength=table.n_groups)
    if size.max() > MOST_TRAJECTORIES:
        largest = int(size.argmax())
        raise ValueError(
            f"attribution solves for a weight per trajectory of a group, in the cube of their number: at most "
            f"{MOST_TRAJECTORIES} trajectories, group {table.groups[largest]!r:.80} has {size[largest]}; divide its "
            "trajectories among several groups, or use a method that compares states"
        )
    if options["centred"]:
        worth = worth - group_means(worth, group, table.n_groups)[group]
    pairs, n_pairs = choices_of(table)
    shape = table.n_trajectories, n_pairs
    counts = csr_array((np.ones(len(table)), (table.trajectory, pairs)), shape=shape)
    weights = _weights(counts, worth, group, size, options["damping"])
    per_pair = np.bincount(pairs, weights=weights[table.trajectory], minlength=n_pairs)
    return per_pair[pairs].astype(np.float64)


def _weights(counts: csr_array, worth: Floats, group: Ints, size: Ints, damping: float) -> Floats:
    """Return (X X' + damping I)^-1 y, float64 (M,); groups of equal size are solved together."""
    order = counting_sort(group, len(size))
    begin = np.cumsum(size) - size
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - begin[group[order]]
    products = (counts @ counts.T).tocoo()  # trajectories of different groups have no pair in common
    row, column = products.row, products.col
    result = np.empty(len(group))
    for members in np.unique(size):
        chosen = np.flatnonzero(size == members)
        number = np.full(len(size), -1)
        number[chosen] = np.arange(len(chosen))
        inside = number[group[row]] >= 0
        blocks = np.zeros((len(chosen), members, members))
        blocks[number[group[row[inside]]], place[row[inside]], place[column[inside]]] = products.data[inside]
        trajectories = order[begin[chosen][:, None] + np.arange(members)]
        # By eigenvalues: never singular, even for equal trajectories.
        values, vectors = np.linalg.eigh(blocks)
        along = np.einsum("gij,gi->gj", vectors, worth[trajectories])
        along /= np.maximum(values, 0.0) + damping
        result[trajectories] = np.einsum("gij,gj->gi", vectors, along)
    return result


METHOD = Method(
    "wrappers.credit.spa:spa_advantages",
    "Group advantages, plus what each state and action contributed to the group's outcomes, by ridge regression.",
    name="attribution", options={"grounding_weight": 0.0, **PENALTY}, colour="#44AA99", ours=True,
    credits=(
        Credit("attribution", FITTED, "", attribution),
        # Explained above the mean of the group, a group without contrast has no credit.
        Credit("attribution", FITTED, "centred", functools.partial(attribution, centred=True)),
    ),
)  # fmt: skip
