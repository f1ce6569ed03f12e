"""Controls: a method's credit is moved to other steps, or spread over whole episodes.

    shuffled   A = pi(A of the method), pi: a random permutation of the steps of each group
    broadcast  A = mean of the method's A over the steps of the episode

Both keep the amount of credit of a group or an episode. A method whose gain comes from *which* steps get it loses it.
"""

from __future__ import annotations

import zlib
from typing import Annotated, TypedDict, Unpack

import numpy as np

from agentgym.checks import suggest
from agentgym.trajectory import Floats, StepTable
from wrappers.credit.evidence import GRAPH
from wrappers.credit.forks import over_forks
from wrappers.credit.method import Method, methods
from wrappers.credit.options import credit, option


class ControlOptions(TypedDict, total=False):
    """Options of the controls."""

    of: Annotated[str, option(GRAPH, "name of the method, with the options of its recipe")]


@credit(ControlOptions)
def shuffled(table: StepTable, *, preset: str = "paper", **options: Unpack[ControlOptions]) -> Floats:
    """Return a method's advantages, permuted among the scored steps of each group.

    The permutation depends only on the table. Steps that are not scored (nan) keep their place.

    Raises:
        ValueError: there is no such method, or it needs scores.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> sorted(map(float, shuffled(table).round(3))), (shuffled(table) == shuffled(table)).all()
    ([-1.414, 0.707, 1.414], np.True_)
    """
    advantages = _advantages(table, options["of"])
    seeds = [zlib.crc32(column.tobytes()) for column in (table.state, table.action, table.trajectory, table.t)]
    generator = np.random.default_rng(seeds)
    found = advantages.copy()
    for group in range(table.n_groups):
        rows = np.flatnonzero((table.group == group) & ~np.isnan(advantages))
        found[rows] = advantages[generator.permutation(rows)]
    return found


@credit(ControlOptions)
def broadcast(table: StepTable, *, preset: str = "paper", **options: Unpack[ControlOptions]) -> Floats:
    """Return for every step the mean of a method's advantages over the scored steps of its episode.

    Raises:
        ValueError: there is no such method, or it needs scores.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> broadcast(table).round(3)  # its method's: 1.414, .707, -1.414
    array([ 1.061,  1.061, -1.414])
    """
    return _means(table, advantages=_advantages(table, options["of"]))


@over_forks("advantages")
def _means(table: StepTable, *, advantages: Floats) -> Floats:
    scored = ~np.isnan(advantages)
    sums = np.bincount(table.trajectory[scored], advantages[scored], table.n_trajectories)
    counts = np.bincount(table.trajectory[scored], minlength=table.n_trajectories)
    return np.where(scored, (sums / np.maximum(counts, 1))[table.trajectory], np.nan)


def _advantages(table: StepTable, of: str) -> Floats:
    known = methods()
    method = known.get(of)
    if method is None:
        raise ValueError(f"unknown method {of!r}; {suggest(of, known)}")
    if method.scored is not None or isinstance(method.function, str):
        raise ValueError(f"{of!r} needs scores: expected a method that needs only the table, such as {GRAPH!r}")
    found: Floats = method.function(table, **{"preset": "paper", **method.options})
    return found


METHODS = (
    Method(
        shuffled, "A control: a method's advantages, permuted among the steps of each group.",
        options={"of": GRAPH}, colour="#999999",
    ),
    Method(
        broadcast, "A control: every step gets the mean of a method's advantages over its episode.",
        options={"of": GRAPH}, colour="#666666",
    ),
)  # fmt: skip
