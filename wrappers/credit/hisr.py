"""HISR: segments rewarded with their predicted share of the outcome, weighted by hindsight.

z_t   = exp( 1 / (beta |a_t|) * sum over the reply's tokens of (lp_hindsight - lp_policy) )     importance of a turn
p_k   = c_k * sum of z over segment k,   c_k predicted at the segment's last turn
R_k   = R * p_k / sum_j |p_j|                                                                     R the outcome
r_t   = (1 - alpha) * R_k on the last turn of segment k, 0 on the others, + alpha for an executable action

Use the rewards with any estimator of returns: `dataclasses.replace(table, reward=hisr(table, ...))`.
Source: the HISR paper, Eqs. 2 to 8 (no code); see docs/credit/hisr.md for open points.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import LARGEST
from agentgym.trajectory import Floats, Ints, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.method import NEEDS_MODEL, Method
from wrappers.credit.options import credit, option
from wrappers.credit.returns import outcomes
from wrappers.credit.scored_steps import BY_STEP
from wrappers.credit.scores import reply_tokens, step_scores, token_scores
from wrappers.credit.segments import checked_segments
from wrappers.credit.spa import GroundingOptions


class HISROptions(GroundingOptions, total=False):
    """Options of `hisr`."""

    alpha: Annotated[float, option(0.3, "weight of the grounding reward", low=0, high=1)]
    scale: Annotated[Literal["outcome", "one", "predicted"], option(
        "outcome", 'sum of the sizes of a trajectory\'s segment rewards: the "outcome"; "one", won or lost (Eq. 7 as '
        'printed); or "predicted", the sum of the contributions at the ends of its segments',
    )]  # fmt: skip
    place: Annotated[Literal["end", "spread"], option(
        "end", 'turns that get a segment\'s reward: the last one ("end"), or all evenly ("spread")',
    )]  # fmt: skip


def importance(
    policy_lp: ArrayLike, hindsight_lp: ArrayLike, mask: ArrayLike, *, beta: float = 0.3, clip: float | None = None
) -> Floats:
    """Return each reply's likelihood ratio in hindsight: `exp(mean over its tokens of the difference / beta)`.

    Args:
        policy_lp: float (N, K), log-probabilities of the reply tokens under the policy that played.
        hindsight_lp: float (N, K), the same under a model that knows the continuation.
        mask: bool (N, K), True at tokens of the reply; other entries are not read.
        beta: above 0; smaller values increase the differences.
        clip: bound of the exponent, above 0. With 5 (z between .007 and 148) a reply of one token cannot outweigh all
            others; `(np.abs(np.log(z)) > clip - 1e-9).mean()` is the share of clipped replies. None: no bound (paper).

    Returns:
        float64 (N,), above 0; nan if a reply has no token or one of its log-probabilities is nan.

    Raises:
        ValueError: when the shapes differ, beta or clip is not above 0, or a log-probability is infinite.

    >>> importance([[-1.0, -1.0], [-2.0, 0.0]], [[-0.4, -1.0], [-2.0, 0.0]], [[1, 1], [1, 0]]).round(3)
    array([2.718, 1.   ])
    """
    inside = reply_tokens(mask)
    if not 0 < beta <= LARGEST:
        raise ValueError(f"beta must be above 0, got {beta!r}")
    if clip is not None and not 0 < clip <= LARGEST:
        raise ValueError(f"clip must be above 0, or None, got {clip!r}")
    gain = token_scores("hindsight_lp", hindsight_lp, inside) - token_scores("policy_lp", policy_lp, inside)
    length = inside.sum(axis=1)
    with np.errstate(over="ignore"):  # infinite values are clipped
        exponent = np.where(length > 0, gain.sum(axis=1) / np.maximum(length, 1) / beta, np.nan)
    bound = np.log(LARGEST) if clip is None else min(clip, np.log(LARGEST))
    found: Floats = np.exp(np.clip(exponent, -bound, bound))
    return found


# No code was released, so one preset.
@credit(HISROptions, paper={"outcome": "won"})
@over_forks("contributions", "importance", "segments")
def hisr(
    table: StepTable, *, contributions: ArrayLike, importance: ArrayLike, segments: ArrayLike, preset: str = "paper",
    **options: Unpack[HISROptions],
) -> Floats:  # fmt: skip
    """Return the reward (not the advantage) of every step.

    Args:
        contributions: float (N,), prediction for the segment that a step ends; read only there. nan: none, the segment
            gets 0.
        importance: float (N,), at least 0, of each turn; see the function `importance`. nan: 0.
        segments: int (N,), 0, 1, .. inside each trajectory; see `wrappers.credit.segments`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a"] * 3, t=[0, 1, 2], state=["s", "u", "v"],
    ...     action=["left", "up", "up"], next_state=["u", "v", "goal"], reward=[0, 0, 1], won=[1, 1, 1])
    >>> hisr(table, contributions=[0.1, 0.6, 0.4], importance=[1, 1, 3], segments=[0, 0, 1], grounding="penalty")
    array([0.  , 0.35, 0.35])
    """
    predicted = np.nan_to_num(step_scores("contributions", contributions, len(table)))
    segment, owner = _numbered(table, segments)
    last = np.empty(len(owner), np.int64)
    last[segment[table.order]] = table.order  # of several assignments to a segment the last one stays
    product = predicted[last] * _mattered(table, importance, segment, owner)
    earned = _normed(product, owner) * _total(table, predicted[last], owner, options)[owner]
    if options["place"] == "end":
        rewards = np.zeros(len(table))
        rewards[last] = earned
    else:
        rewards = (earned / np.bincount(segment, minlength=len(owner)))[segment]
    executed = table.valid - 1.0 * (options["grounding"] == "penalty")
    return (1 - options["alpha"]) * rewards + options["alpha"] * executed


@over_forks("importance", "segments")
def importance_shares(table: StepTable, *, importance: ArrayLike, segments: ArrayLike) -> Floats:
    """Return the segment's share of its trajectory's importance for each step, float64 (N,), 0..1; arguments as `hisr`.

    The paper prints it as z; the rewards do not depend on its scale.
    """
    segment, owner = _numbered(table, segments)
    return _normed(_mattered(table, importance, segment, owner), owner)[segment]


def _numbered(table: StepTable, segments: ArrayLike) -> tuple[Ints, Ints]:
    numbers = checked_segments(table, segments)
    count = numbers[table.last] + 1
    segment = numbers + (np.cumsum(count) - count)[table.trajectory]
    return segment, np.repeat(np.arange(table.n_trajectories), count)


def _mattered(table: StepTable, importance: ArrayLike, segment: Ints, owner: Ints) -> Floats:
    turns = np.nan_to_num(step_scores("importance", importance, len(table)))
    if (turns < 0).any():
        row = int(np.argmax(turns < 0))
        raise ValueError(f"importance must be at least 0; row {row} has {turns[row]}")
    return np.bincount(segment, weights=turns, minlength=len(owner)).astype(np.float64)


def _normed(values: Floats, owner: Ints) -> Floats:
    norm = np.bincount(owner, weights=np.abs(values))
    return values / np.where(norm > 0, norm, 1.0)[owner]


def _total(table: StepTable, predicted: Floats, owner: Ints, options: HISROptions) -> Floats:
    """Float64 (M,): the amount that each trajectory's segments share."""
    if options["scale"] == "outcome":
        return outcomes(table, options)
    if options["scale"] == "one":
        return np.ones(table.n_trajectories)
    return np.bincount(owner, weights=predicted, minlength=table.n_trajectories).astype(np.float64)


METHOD = Method(
    notes="Sums of HISR's later segment rewards: contributions that a network learns, weighted by a hindsight model.",
    name="hisr", options={"horizon": "to_go", "gamma": 0.99, "alpha_trajectory": 0.0}, **BY_STEP,
    scorer="segmented_reward", unmeasured=NEEDS_MODEL,
)  # fmt: skip
