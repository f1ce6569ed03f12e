"""Which steps of a rollout are decided anew: selections for `agentgym.rollout.collect_tree`.

A selection is a function of a `StepTable` that returns the rows (int64) whose states are branched from. The action that
was taken there is not part of a branch: whoever continues chooses again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from agentgym.checks import suggest
from agentgym.trajectory import Ints, StepTable

Select = Callable[[StepTable], Ints]


def every(n: int) -> Select:
    """Return the selection of each episode's steps 0, n, 2n, ...

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"],
    ...     action=["x"] * 3, next_state=["u", "v", "end"], reward=[0] * 3, won=[0] * 3)
    >>> every(2)(table)
    array([0, 2])
    """
    if n < 1:
        raise ValueError(f"every(n) needs an n of at least 1, got {n}")
    return lambda table: np.flatnonzero(table.t % n == 0)


def highest_entropy(count: int) -> Select:
    """Return the selection of the `count` steps of each trajectory where the policy was least sure of its reply.

    Measured is `-mean(Reply.logprobs)`, in nats per token: what was written is one draw, and the mean of this number
    over draws is the policy's entropy per token, at the sampling temperature (and among the tokens that were allowed).
    Of equal steps the earlier ones are taken. Steps in which nothing was written are left out.

    Raises:
        ValueError: when the selection is made, where the replies have no log-probabilities.
    """
    if count < 1:
        raise ValueError(f"highest_entropy(count) needs a count of at least 1, got {count}")

    def select(table: StepTable) -> Ints:
        replies: list[Any] = [None] * len(table) if table.replies is None else table.replies.tolist()
        written = np.array([reply is None or reply.finish != "prompt-too-long" for reply in replies], np.bool_)
        bare = [row for row in np.flatnonzero(written).tolist() if not (replies[row] and replies[row].logprobs)]
        if bare:
            raise ValueError(
                f"row {bare[0]} has a reply without log-probabilities: entropy can only be selected by for a policy "
                "that returns them, such as policies.huggingface.HuggingFacePolicy"
            )
        unsure = np.array([-np.mean(reply.logprobs) if ok else 0.0 for reply, ok in zip(replies, written, strict=True)])
        rows = table.order[written[table.order]]
        rows = rows[np.lexsort((-unsure[rows], table.trajectory[rows]))]
        first = np.searchsorted(table.trajectory[rows], table.trajectory[rows])
        return np.sort(rows[np.arange(len(rows)) - first < count])

    return select


def at_random(count: int, seed: int) -> Select:
    """Return the selection of `count` steps of each trajectory, drawn without replacement; of shorter ones all.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"],
    ...     action=["x"] * 3, next_state=["u", "v", "end"], reward=[0] * 3, won=[0] * 3)
    >>> len(at_random(2, seed=0)(table)), len(at_random(5, seed=0)(table))
    (2, 3)
    """
    if count < 1:
        raise ValueError(f"at_random(count, seed) needs a count of at least 1, got {count}")

    def select(table: StepTable) -> Ints:
        drawn = np.random.default_rng(seed).random(len(table))
        rows = table.order[np.lexsort((drawn, table.trajectory[table.order]))]
        first = np.searchsorted(table.trajectory[rows], table.trajectory[rows])
        return np.sort(rows[np.arange(len(rows)) - first < count])

    return select


def _all(table: StepTable) -> Ints:
    return np.arange(len(table))


def _visits(table: StepTable) -> tuple[Ints, Ints]:
    """Row of the earliest visit of each state of a group, of equal ones the first, and how often it was visited."""
    order = np.argsort(table.t, kind="stable")
    places = (table.group * len(table.states) + table.state)[order]
    _, first, count = np.unique(places, return_index=True, return_counts=True)
    return order[first].astype(np.int64), count.astype(np.int64)


def _distinct(table: StepTable) -> Ints:
    return np.sort(_visits(table)[0])


def _visited_once(table: StepTable) -> Ints:
    first, count = _visits(table)
    return np.sort(first[count == 1])


def _first_disagreement(table: StepTable) -> Ints:
    """Nodes of the tree of histories (states and actions since the beginning) that were left by several actions."""
    node_of: dict[Hashable, int] = {}  # what came before, and the state now
    first: list[int] = []
    action_of: list[int] = []
    several: set[int] = set()
    node = np.empty(len(table), np.int64)
    begin = table.t[table.order[table.offsets[:-1]]]
    for i in np.argsort(begin, kind="stable").tolist():  # whoever another one was cut from begins earlier
        before = int(table.parent[i])
        for row in table.order[table.offsets[i] : table.offsets[i + 1]].tolist():
            came: Hashable = (
                ("g", int(table.group[row])) if before < 0 else (int(node[before]), int(table.action[before]))
            )
            node[row] = here = node_of.setdefault((came, int(table.state[row])), len(first))
            if here == len(first):
                first.append(row)
                action_of.append(int(table.action[row]))
            elif action_of[here] != table.action[row]:
                several.add(here)
            before = row
    return np.sort(np.array([first[here] for here in several], np.int64))


#: Selections that have a name.
SELECTIONS: dict[str, Select] = {
    "all": _all,
    "distinct": _distinct,
    "visited-once": _visited_once,
    "first-disagreement": _first_disagreement,
}


def selected(table: StepTable, select: str | Select) -> Ints:
    """Return the rows that a selection chooses, sorted and each once.

    Raises:
        ValueError: when there is no selection of that name, or a function returns something else than rows.
    """
    if isinstance(select, str):
        if select not in SELECTIONS:
            raise ValueError(f"unknown select {select!r}; {suggest(select, SELECTIONS)}, or a function of the table")
        return SELECTIONS[select](table)
    rows = np.asarray(select(table))
    if rows.ndim != 1 or (len(rows) and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(table))):
        raise ValueError(
            f"select must return row numbers, integers in 0..{len(table) - 1}, got {rows.dtype} of shape {rows.shape}"
            + (f" from {rows.min()} to {rows.max()}" if rows.size and rows.dtype.kind in "iuf" else "")
        )
    return np.unique(rows).astype(np.int64)
