"""Turn credit: each turn's gain in a score of the state, distributed over it and earlier turns, with sum zero.

    p_k = score(after turn k) - score(before it)       0 if one of the two is unknown
    c_j = sum_{k >= j} p_k gamma^(k-j) / Z_k           Z_k = sum_{d < k} gamma^d, turns counted from 1: sum c = sum p
    A_j = (R + sum p - mean of the group) + beta (c_j - mean of c over the episode's tokens)

The state of the reset is scored too: otherwise the first turn has no gain and lowers its episode's level.

Source: prime-rl, pull request 3282. See docs/credit/privileged.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import along, over_forks
from wrappers.credit.group import group_means
from wrappers.credit.method import TOTAL, Credit, Method
from wrappers.credit.options import OutcomeOptions, credit, option
from wrappers.credit.returns import episode_scores, outcomes, penalties
from wrappers.credit.scores import reply_lengths, step_scores
from wrappers.credit.segments import by_turn
from wrappers.credit.tigpo import gains_with

_SCORES = (
    'what scores are: "solver", each step\'s exact gain, known by the environment; "distance", its gain by all '
    'recorded steps of the task; "values", a critic\'s, of the state before it; "judge", of the state after it'
)
_WORTH = 'score by which episodes are compared: outcome and net "progress", or only the "outcome"'


class TurnCreditOptions(OutcomeOptions, total=False):
    """Options of `turn_credit`."""

    scores: Annotated[Literal["solver", "distance", "values", "judge"], option("solver", _SCORES)]
    gamma: Annotated[float, option(0.9, "share of a gain that reaches the previous turn", low=0, high=1)]
    beta: Annotated[float, option(1.0, "weight of turns within their episode", low=0)]
    worth: Annotated[Literal["progress", "outcome"], option("progress", _WORTH)]


@credit(TurnCreditOptions, paper={})
@over_forks("given", "first", "tokens")
def turn_credit(
    table: StepTable, *, given: ArrayLike, first: ArrayLike | None = None, tokens: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[TurnCreditOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step.

    Args:
        given: float (N,), see the option `scores`; nan: not known.
        first: float (N,), for "judge", the score of the state that each row's episode began in; None: not known.
        tokens: int (N,), tokens of each reply; None: by the table's replies, or 1 each where it has none.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "s"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> turn_credit(table, given=[1, 1, 0], gamma=0.0)  # levels 3 and 0; both turns of a gained one step
    array([ 1.5,  1.5, -1.5])
    """
    score = step_scores("given", given, len(table))
    if tokens is None:
        tokens = np.ones(len(table)) if table.replies is None else reply_lengths(table)
    lengths = np.asarray(tokens, np.float64)
    gained = progress(table, score, first, options)
    spent = smeared(table, gained, options["gamma"])
    total = np.bincount(table.trajectory, lengths, minlength=table.n_trajectories)
    mean = np.bincount(table.trajectory, lengths * spent, minlength=table.n_trajectories) / np.maximum(total, 1)
    worth = episode_scores(table, options)
    if options["worth"] == "progress":
        worth = worth + np.bincount(table.trajectory, gained, minlength=table.n_trajectories)[table.trajectory]
    level = worth - group_means(worth[table.last], table.trajectory_group, table.n_groups)[table.group]
    return level + options["beta"] * (spent - mean[table.trajectory]) - penalties(table, options, "advantage")


def progress(table: StepTable, score: Floats, first: ArrayLike | None, options: TurnCreditOptions) -> Floats:
    """Return each step's gain in score, float64 (N,), across steps without a score."""
    if options["scores"] in ("solver", "distance"):
        return np.nan_to_num(score)
    gained, values = np.zeros(len(table)), options["scores"] == "values"
    start = np.full(len(table), np.nan) if first is None else step_scores("first", first, len(table))
    for i, worth in enumerate(outcomes(table, options).tolist()):
        rows = table.order[table.offsets[i] : table.offsets[i + 1]]
        known = [score[rows[0]] if values else start[rows[0]], *(score[rows[1:]] if values else score[rows])]
        scores = np.array([*known, worth] if values else known)
        last = np.maximum.accumulate(np.where(np.isnan(scores), -1, np.arange(len(scores))))
        gained[rows] = np.where(last[:-1] >= 0, scores[last[1:]] - scores[last[:-1]], 0.0)
    return gained


def smeared(table: StepTable, gained: Floats, gamma: float) -> Floats:
    """Return c, float64 (N,): each step's gain, divided among it and the steps before it."""
    turn = by_turn(table) + 1.0
    z = turn if gamma == 1 else (1 - gamma**turn) / (1 - gamma)
    return along(table, gained / z, gamma)


def _outcome(table: StepTable, options: Mapping[str, Any]) -> Floats:
    """Return what the value of each step's state should be, float64 (N,): the outcome of its episode."""
    return outcomes(table, {"outcome": options["outcome"]})[table.trajectory]


def by_gains(table: StepTable, gains: Floats) -> Floats:
    """Return the advantage by the gains of steps, float64 (N,); every reply counts as one token."""
    return turn_credit(table, given=gains, tokens=np.ones(len(table)))


def by_distance(table: StepTable) -> Floats:
    """Return it by gains in the table's own graph."""
    return by_gains(table, gains_with(table, None))


METHOD = Method(
    turn_credit,
    "Each turn's gain in a score of the state, with sum zero over an episode, plus outcome and progress.",
    scored="turn", argument="given", targets=_outcome, scorer="exact_gain",
    scorers={"solver": ("exact_gain", {}), "distance": ("task_distance", {"of": "gain"}), "values": ("critic", {})},
    space={"gamma": (0.0, 0.9), "beta": (0.3, 1.0)}, colour="#17BECF",
    credits=(Credit("turn_credit", TOTAL, "distance", by_distance, recent=True),),
)  # fmt: skip
