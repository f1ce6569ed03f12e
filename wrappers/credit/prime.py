"""PRIME: the log-ratio of a reward model per reply token, summed over the remaining tokens, plus the outcome.

    r_u = beta * log( pi_phi(y_u | y_<u) / pi_ref(y_u | y_<u) )                                          beta .05
    A_u^i = sum_{v >= u} gamma^(v - u) ( r_v^i - 1/(G-1) sum_{j != i} mean_v r_v^j ) + o_i - 1/(G-1) sum_{j != i} o_j

over the G trajectories of a task; the reply tokens of a trajectory, turn after turn, are one response.
Source: the PRIME paper and its recipe in verl; see docs/credit/prime.md for differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.evidence import GateOptions, trust, worth
from wrappers.credit.forks import discounted_sums, over_forks
from wrappers.credit.group import largest_of, others_factor
from wrappers.credit.method import NEEDS_MODEL, PENALTY, Method
from wrappers.credit.options import EpisodeOptions, credit, option
from wrappers.credit.returns import against_others, penalties
from wrappers.credit.scores import reply_tokens, token_scores, whiten, written_tokens


class PRIMEOptions(EpisodeOptions, GateOptions, total=False):
    """Options of `prime`; invalid steps are penalised in the outcome, not in the process rewards."""

    per: Annotated[Literal["token", "step"], option(
        "token", 'unit of reward and discount: each "token", or each "step" with the sum over its reply',
    )]  # fmt: skip
    gamma: Annotated[float, option(1.0, "discount per token or step of the process rewards", low=0, high=1)]
    whiten: Annotated[bool, option(
        False, "bring the result to mean 0 and variance 1 over the reply tokens of the batch", authors=True,
    )]  # fmt: skip
    alpha: Annotated[float, option(1.0, "weight of the process rewards", authors=5.0)]
    alpha_trajectory: Annotated[float, option(1.0, "weight of the outcome", authors=5.0)]
    baseline: Annotated[Literal["others", "scaled"], option(
        "others", 'process rewards minus the mean of the "others", or minus the mean of all, "scaled" by G/(G-1) '
        "(authors' code; the same for responses of one token)", authors="scaled",
    )]  # fmt: skip
    score_norm: Annotated[Literal["none", "group"], option(
        "none", 'process rewards are first divided by the largest magnitude of their remaining sums in the "group" '
        "(authors' code, there over all groups of a rank)", authors="group",
    )]  # fmt: skip
    lose_last: Annotated[
        bool, option(False, "the last token of a trajectory has reward 0 (authors' code)", authors=True)
    ]


# The recipe has no invalid steps and divides by 0 in groups of one, which score 0 here.
@credit(
    PRIMEOptions,
    paper={"outcome": "won"},
    authors={"outcome": "won", "invalid_penalty": 0.0, "over": "trajectories", "singleton": "zero"},
)
@over_forks("scores", "mask")
def prime(
    table: StepTable, *, scores: ArrayLike, mask: ArrayLike | None = None, preset: str = "paper",
    **options: Unpack[PRIMEOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every reply token.

    Args:
        scores: float (N, K), r of the tokens of each row's reply; nan: not scored; not read where masked.
        mask: bool (N, K), True = a token of the reply; None: from the table's replies.

    Returns:
        float64 (N, K), 0 where masked. A token (or step) that is not scored has no process part, does not enter means
        or sums, and keeps the outcome's part.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s"] * 2,
    ...     action=["right", "left"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
    >>> prime(table, scores=[[0.3, 0.1], [-0.2, 0.0]], mask=[[1, 1], [1, 0]])  # baselines -0.2 and 0.2; outcomes +-1
    array([[ 1.8,  1.3],
           [-1.4,  0. ]])
    """
    kept = written_tokens(table) if mask is None else reply_tokens(mask, len(table))
    given = token_scores("scores", scores, kept)
    reward = given[table.order]
    inside = kept[table.order]
    length = inside.sum(axis=1)
    process = np.zeros(kept.shape)
    if options["lose_last"]:
        _clear_last(reward, inside, table.offsets)
    if options["per"] == "token":
        process[inside] = _process_part(table, _per_trajectory(table, length), reward[inside], options)
    else:
        scored = (inside & ~np.isnan(reward)).any(axis=1)
        totals = np.where(scored, np.nan_to_num(reward).sum(axis=1), np.nan)
        some = length > 0
        process[some] = _process_part(table, _per_trajectory(table, some), totals[some], options)[:, None]
    process[table.order] = process.copy()
    outcome = against_others(table, options)
    alpha = options["alpha"] * trust(table, given.sum(axis=1), options["gate"])
    advantages = np.where(kept, alpha * process + options["alpha_trajectory"] * outcome[:, None], 0.0)
    if options["whiten"]:
        advantages = whiten(advantages, kept)
    return np.where(kept, advantages - penalties(table, options, "advantage")[:, None], 0.0)


def _worth(table: StepTable, scores: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    return worth(table, np.where(written_tokens(table), scores, 0.0).sum(axis=1), options)


def _per_trajectory(table: StepTable, counts: Ints | Bools) -> Ints:
    before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return np.diff(before[table.offsets])


def _clear_last(reward: Floats, inside: Bools, offsets: Ints) -> None:
    row, column = np.nonzero(inside)
    trajectory = np.searchsorted(offsets, row, side="right")
    last = np.flatnonzero(np.diff(trajectory, append=-1))
    reward[row[last], column[last]] = 0.0


def _process_part(table: StepTable, length: Ints, value: Floats, options: PRIMEOptions) -> Floats:
    """Return the discounted sums of the process rewards minus their baseline, float64 (U,), 0 without a reward.

    `length`: int64 (M,), tokens or replies per trajectory; `value`: float64 (U,), rewards by trajectory, nan: none.
    """
    starts = (np.cumsum(length) - length)[length > 0]
    trajectory = np.repeat(np.arange(table.n_trajectories), length)
    group = table.trajectory_group
    scored = ~np.isnan(value)
    value = np.where(scored, value, 0.0)
    if options["score_norm"] == "group" and len(value):
        sizes = np.maximum.reduceat(np.abs(discounted_sums(value, starts, 1.0)), starts)
        largest = largest_of(sizes, group[length > 0], table.n_groups)
        value = value / np.where(largest > 0, largest, 1.0)[group][trajectory]
    count = np.bincount(trajectory, weights=scored, minlength=table.n_trajectories)
    mean = np.bincount(trajectory, weights=value, minlength=table.n_trajectories) / np.maximum(count, 1.0)
    n = np.bincount(group[count > 0], minlength=table.n_groups)
    total = np.bincount(group, weights=mean, minlength=table.n_groups)
    factor = np.ones(table.n_groups)
    if options["baseline"] == "others":
        level = (total[group] - mean) / np.maximum(n - 1, 1)[group]  # 0 for a group of one
    else:
        level = np.where(n == 1, 0.0, total / np.maximum(n, 1))[group]
        factor = others_factor(group[count > 0], table.n_groups)
    if options["singleton"] == "zero":
        factor = np.where(n == 1, 0.0, factor)
    value = np.where(scored, (value - level[trajectory]) * factor[group][trajectory], 0.0)
    return np.where(scored, discounted_sums(value, starts, options["gamma"]), 0.0)


METHOD = Method(
    prime, "Per token, the later log-ratios of a reward model that learns from outcomes; group advantages.",
    options={"whiten": True, **PENALTY}, scored="token", argument="scores", figures=_worth, scorer="implicit_reward",
    settings={"loss": "ce", "reduce": "sum", "reference": "start", "order": "before"}, unmeasured=NEEDS_MODEL,
)  # fmt: skip
