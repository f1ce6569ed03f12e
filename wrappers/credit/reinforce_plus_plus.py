"""REINFORCE++: returns standardised over the whole batch instead of the group.

    x_t = sum_{k >= t} gamma^(k - t) (r_k - KL_k)        A_t = (x_t - mean) / sqrt(variance + eps)

with mean and variance over all steps of the batch. The baseline form uses `x_i = R_i - mean(R)` of the task's group,
the same for all steps of an episode.
Source: the REINFORCE++ paper and verl-agent; see docs/credit for differences.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import whitened
from wrappers.credit.method import EPISODE, PENALTY, Credit, Method
from wrappers.credit.options import EpisodeOptions, OutcomeOptions, StatisticsOptions, credit, finite_numbers, option
from wrappers.credit.returns import episode_level, episode_scores, mean_returns, penalties, step_rewards
from wrappers.credit.wrapper import CreditWrapper


class WhiteningOptions(OutcomeOptions, total=False):
    """Options of both forms."""

    weights: Annotated[Floats | None, option(
        None, "float64 (N,), whole numbers: counts of a row in the statistics, such as the tokens of its reply (the "
        "originals whiten over tokens: long replies weigh more); None: 1",
    )]  # fmt: skip
    ddof: Annotated[Literal[0, 1], option(1, "1 sample, 0 population variance")]
    eps: Annotated[float, option(1e-8, "added to the variance", low=0)]


class ReinforcePlusPlusOptions(WhiteningOptions, total=False):
    """Options of `reinforce_plus_plus`."""

    score: Annotated[Literal["to_go", "episode"], option(
        "to_go", 'worth of a step: "to_go", the discounted rewards from it on (paper; an outcome "won" is 1 in the '
        'last step of a success), or "episode", the whole undiscounted episode (authors\' code: every step is a '
        "sequence)", authors="episode",
    )]  # fmt: skip
    gamma: Annotated[float, option(1.0, 'discount per step of "to_go"', low=0, high=1)]
    kl: Annotated[Floats | None, option(
        None, "float64 (N,), weighted penalty of each row for its divergence from the reference policy; None for "
        'none; "to_go" also subtracts it from earlier steps, "episode" from its row only',
    )]  # fmt: skip


class ReinforcePlusPlusBaselineOptions(WhiteningOptions, EpisodeOptions, total=False):
    """Options of `reinforce_plus_plus_baseline`; `singleton` applies before whitening."""


@credit(ReinforcePlusPlusOptions)
def reinforce_plus_plus(
    table: StepTable, *, preset: str = "paper", **options: Unpack[ReinforcePlusPlusOptions]
) -> Floats:
    """Return the advantage of every step, whitened over the table; groups have no effect; 0 without contrast.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> reinforce_plus_plus(table).round(3)  # 1, 1 and 0: mean 2/3, sample variance 1/3
    array([ 0.577,  0.577, -1.155])
    """
    kl = np.zeros(len(table)) if options["kl"] is None else finite_numbers("kl", options["kl"], len(table))
    if options["score"] == "episode":
        scores = episode_scores(table, options) - kl
    else:
        reward = step_rewards(table, options) - kl
        scores = mean_returns(table, gamma=options["gamma"], reward=reward) - penalties(table, options, "row")
    return _whitened(table, scores, options) - penalties(table, options, "advantage")


@credit(ReinforcePlusPlusBaselineOptions)
def reinforce_plus_plus_baseline(
    table: StepTable, *, preset: str = "paper", **options: Unpack[ReinforcePlusPlusBaselineOptions]
) -> Floats:
    """Return the advantage of every step: outcomes against their group, whitened over the table; 0 without contrast.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> reinforce_plus_plus_baseline(table).round(3)  # 1/2, 1/2 and -1/2: mean 1/6, sample variance 1/3
    array([ 0.577,  0.577, -1.155])
    """
    mean_only: StatisticsOptions = {
        "outcome": options["outcome"], "invalid_penalty": options["invalid_penalty"], "penalty": options["penalty"],
        "over": options["over"], "singleton": options["singleton"], "std": "none", "ddof": 1, "eps": 0.0,
    }  # fmt: skip
    centred = episode_level(table, mean_only)
    return _whitened(table, centred, options) - penalties(table, options, "advantage")


def _whitened(table: StepTable, scores: Floats, options: WhiteningOptions) -> Floats:
    given = options["weights"]
    weights = np.ones(len(table)) if given is None else finite_numbers("weights", given, len(table))
    bad = (weights < 0) | (weights != np.floor(weights))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"weights must be whole numbers of at least 0, such as tokens; row {row} has {weights[row]}")
    if len(table) and not weights.any():
        raise ValueError("weights are 0 in every row: leave out rows without tokens, or pass no weights")
    return whitened(scores, weights, ddof=options["ddof"], eps=options["eps"])


class ReinforcePlusPlus(CreditWrapper, method=reinforce_plus_plus): ...


class ReinforcePlusPlusBaseline(CreditWrapper, method=reinforce_plus_plus_baseline): ...


METHODS = (
    Method(
        reinforce_plus_plus, "The sum of later rewards, on the scale of the whole batch.",
        options={"gamma": 1.0, **PENALTY}, colour="#882255",
        credits=(Credit("reinforce_plus_plus", EPISODE, "", reinforce_plus_plus),),
    ),
    Method(
        reinforce_plus_plus_baseline, "An episode's return against its group, on the scale of the whole batch.",
        colour="#AA4499",
    ),
)  # fmt: skip
