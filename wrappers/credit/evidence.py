"""Measures of step scores that need no ground truth: outcomes of episodes (`pair_accuracy`), state graph (`agreement`).

Scores that separate won from lost trajectories need not rank actions, since lost episodes are often longer.
`pair_accuracy(centred=True)` removes the length. Where a group's state graph ranks steps, its signs are nearly always
right; `agreement` compares with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.graphgpo import graphgpo
from wrappers.credit.group import centred_ranks, number_pairs
from wrappers.credit.options import option
from wrappers.credit.scores import step_scores

#: Totals nearer than half of 10 ** -_DIGITS are ties.
_DIGITS = 12
#: The method whose step level others compare with, fill or add to: it reads the state graph.
GRAPH = graphgpo.__name__


def graph_steps(table: StepTable) -> Floats:
    """Return the step level of the method `GRAPH`, float64 (N,)."""
    return graphgpo(table, beta_episode=0.0)


class GateOptions(TypedDict, total=False):
    """Weight of a scorer by its quality. An untrained one is noise, and standardised noise is as large as outcomes."""

    gate: Annotated[Literal["none", "accuracy", "centred", "agreement"], option(
        "none", 'factor of alpha: "none", 1; 2 a - 1 of the "accuracy" a with which the scores separate won from lost '
        'trajectories, or of the "centred" one, which is independent of lengths; their "agreement" with the state '
        "graph; at least 0",
    )]  # fmt: skip


def trust(table: StepTable, scores: Floats, gate: str) -> float:
    """Return the factor of alpha, 0..1, by the option `gate` (see `GateOptions`)."""
    if gate == "none":
        return 1.0
    if gate == "agreement":
        return max(0.0, agreement(table, scores))
    return max(0.0, 2 * pair_accuracy(table, scores, centred=gate == "centred") - 1)


def worth(table: StepTable, scores: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    """Return measures of scores for a log.

    "prm_pair_accuracy", "prm_centred_accuracy", "prm_agreement", "prm_scored" (share of steps with a score) and, with a
    gate, "prm_gate" (the factor of alpha).
    """
    figures = {
        "prm_pair_accuracy": pair_accuracy(table, scores),
        "prm_centred_accuracy": pair_accuracy(table, scores, centred=True),
        "prm_agreement": agreement(table, scores),
        "prm_scored": 1.0 - float(np.isnan(scores).mean()) if len(scores) else 0.0,
    }
    if options["gate"] != "none":
        figures["prm_gate"] = trust(table, scores, options["gate"])
    return figures


def pair_accuracy(table: StepTable, scores: ArrayLike, *, centred: bool = False) -> float:
    """Return the share (0..1) of pairs of a won and a lost trajectory of a group in which the won one scores higher.

    A trajectory's score is the sum of its steps' scores. Ties count half; 0.5 if no group has both.

    Args:
        scores: float (N,); nan: not scored, adds nothing.
        centred: subtract the group's mean score per step first, so that the result does not depend on the length.
    """
    given = step_scores("scores", scores, len(table))
    known = ~np.isnan(given)
    given = np.nan_to_num(given)
    if centred:
        count = np.bincount(table.group[known], minlength=table.n_groups)
        mean = np.bincount(table.group, weights=given, minlength=table.n_groups) / np.maximum(count, 1)
        given = np.where(known, given - mean[table.group], 0.0)
    # Rounded, so that rounding errors of equal sums decide nothing.
    total = (
        np.bincount(table.trajectory, weights=given, minlength=table.n_trajectories).astype(np.float64).round(_DIGITS)
    )
    won, group = table.trajectory_won, table.trajectory_group
    # A won trajectory beats as many lost ones as it is ranked above among both, less those won ones below it.
    above = _below(total, group, table.n_groups) - _below(total, np.where(won, group, -1), table.n_groups)
    lost = np.bincount(group[~won], minlength=table.n_groups)
    pairs = int(lost[group[won]].sum())
    return float(above[won].sum()) / pairs if pairs else 0.5


def agreement(table: StepTable, scores: ArrayLike) -> float:
    """Return the rank correlation (-1..1) of scores with the step level of the state graph, `graph_steps`.

    Spearman's correlation over the scored steps (`scores`: float (N,), nan: not scored) whose step level is not 0,
    ranked within their state and group. 0 without such steps, or if the scores inside each state are equal.
    """
    given = step_scores("scores", scores, len(table))
    graph = graph_steps(table)
    rows = np.flatnonzero((graph != 0) & ~np.isnan(given))
    if len(rows) == 0:
        return 0.0
    sets, example = number_pairs(table.group[rows], table.n_groups, table.state[rows], len(table.states))
    ranks, reference = (centred_ranks(values[rows], sets, len(example)) for values in (given, graph))
    size = float(np.sqrt((ranks @ ranks) * (reference @ reference)))
    return float(ranks @ reference) / size if size > 0 else 0.0


def _below(values: Floats, groups: Ints, n_groups: int) -> Floats:
    count = np.bincount(groups[groups >= 0], minlength=n_groups)
    inside = np.where(groups >= 0, groups, n_groups)
    return centred_ranks(values, inside, n_groups + 1) + (np.append(count, len(values))[inside] - 1) / 2
