"""What scores of steps are worth, judged without a truth: by the outcomes of episodes, and by the state graph.

Scores that tell won trajectories from lost ones need not rank actions: a lost episode is often the longer one, and
whoever counts steps has seen that. `pair_accuracy(centred=True)` takes the length away. Where a group's state graph
speaks, its signs are nearly always right, which makes it an examiner that knows nothing but the rollouts: `agreement`.
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


class GateOptions(TypedDict, total=False):
    """How far a scorer is trusted.

    One that has learned nothing yet is noise, and standardised it is as large as the outcomes all the same.
    """

    gate: Annotated[
        Literal["none", "accuracy", "centred", "agreement"],
        option(
            "none",
            'what alpha is multiplied by: "none", 1; 2 a - 1 of the "accuracy" a with which the scores tell won from '
            'lost trajectories, or of the "centred" one, which does not see lengths; their "agreement" with the state '
            "graph; nothing below 0",
        ),
    ]


def trust(table: StepTable, scores: Floats, gate: str) -> float:
    """Return what alpha is multiplied by, 0..1, see `GateOptions`; scores as in `pair_accuracy`."""
    if gate == "none":
        return 1.0
    if gate == "agreement":
        return max(0.0, agreement(table, scores))
    return max(0.0, 2 * pair_accuracy(table, scores, centred=gate == "centred") - 1)


def worth(table: StepTable, scores: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    """Return what scores are worth on a table, for a log.

    Returns:
        "prm_pair_accuracy", "prm_centred_accuracy", "prm_agreement", "prm_scored" (share of steps with a score), and
        "prm_gate", what alpha is multiplied by, where there is a gate.
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
    """Return the share of pairs of a won and a lost trajectory of one group in which the won one scores higher.

    A trajectory's score is the sum of its steps'. Ties count half.

    Args:
        table: N steps of finished groups.
        scores: float (N,); nan: not scored, adds nothing.
        centred: take the mean score of a step of the group off every score first, so that no trajectory scores high
            or low by its length alone.

    Returns:
        0..1; .5 where no group has both.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "b", "b"], t=[0, 0, 1], state=["s", "s", "u"],
    ...     action=["up", "left", "left"], next_state=["goal", "u", "pit"], reward=[1, 0, 0], won=[1, 0, 0])
    >>> scores = [-1.0, -1.0, -1.0]  # every step the same: what is shorter scores higher
    >>> pair_accuracy(table, scores), pair_accuracy(table, scores, centred=True)
    (1.0, 0.5)
    """
    said = step_scores("scores", scores, len(table))
    known = ~np.isnan(said)
    said = np.nan_to_num(said)
    if centred:
        count = np.bincount(table.group[known], minlength=table.n_groups)
        mean = np.bincount(table.group, weights=said, minlength=table.n_groups) / np.maximum(count, 1)
        said = np.where(known, said - mean[table.group], 0.0)
    # Rounded, so that what is left of sums of equal scores decides nothing.
    total = (
        np.bincount(table.trajectory, weights=said, minlength=table.n_trajectories).astype(np.float64).round(_DIGITS)
    )
    won, group = table.trajectory_won, table.trajectory_group
    # A won trajectory beats as many lost ones as it is ranked above among both, less those won ones below it.
    above = _below(total, group, table.n_groups) - _below(total, np.where(won, group, -1), table.n_groups)
    lost = np.bincount(group[~won], minlength=table.n_groups)
    pairs = int(lost[group[won]].sum())
    return float(above[won].sum()) / pairs if pairs else 0.5


def agreement(table: StepTable, scores: ArrayLike) -> float:
    """Return how the scores rank the steps of a state, beside how the group's graph ranks them.

    Spearman's correlation of scores and GraphGPO's step level, over the scored steps for which the latter is not 0,
    ranked among those of the same state and group; all states in one correlation.

    Args:
        table: N steps of finished groups.
        scores: float (N,); nan: not scored.

    Returns:
        -1..1; 0 where the graph is silent, or the scores inside each state are all the same.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> agreement(table, [0.3, 0.0, 0.1]), agreement(table, [0.1, 0.0, 0.3])
    (1.0, -1.0)
    """
    said = step_scores("scores", scores, len(table))
    graph = graphgpo(table, beta_episode=0.0)
    rows = np.flatnonzero((graph != 0) & ~np.isnan(said))
    if len(rows) == 0:
        return 0.0
    sets, example = number_pairs(table.group[rows], table.n_groups, table.state[rows], len(table.states))
    mine, theirs = (centred_ranks(values[rows], sets, len(example)) for values in (said, graph))
    size = float(np.sqrt((mine @ mine) * (theirs @ theirs)))
    return float(mine @ theirs) / size if size > 0 else 0.0


def _below(values: Floats, groups: Ints, n_groups: int) -> Floats:
    """How many of its group each value is above, ties counted half; for group -1 anything."""
    count = np.bincount(groups[groups >= 0], minlength=n_groups)
    inside = np.where(groups >= 0, groups, n_groups)
    return centred_ranks(values, inside, n_groups + 1) + (np.append(count, len(values))[inside] - 1) / 2
