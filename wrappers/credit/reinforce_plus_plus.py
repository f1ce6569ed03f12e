"""REINFORCE++: what is still to come of an episode, on the scale of the whole batch instead of a group.

    x_t = sum_{k >= t} gamma^(k - t) (r_k - KL_k)        A_t = (x_t - mean) / sqrt(variance + eps)

with mean and variance over all steps of the batch. The baseline form first takes off the mean of the task's group:
`x_i = R_i - mean(R)`, the same for all steps of an episode.

Source: the REINFORCE++ paper and verl-agent; see docs/credit/reinforce_plus_plus.md for where they differ.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, cast

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import Singleton, StatisticsOptions, episode_advantages, whitened
from wrappers.credit.options import choose, finite_numbers
from wrappers.credit.returns import discounted_returns, episode_scores, penalties
from wrappers.credit.wrapper import CreditWrapper


class WhiteningOptions(TypedDict, total=False):
    """Options of both forms.

    weights: float64 (N,), whole numbers: the statistics count a row this often, for instance once per token of its
        reply (the originals whiten over tokens: long replies weigh more). None: every row once.
    ddof: 1 sample, 0 population variance.
    eps: added to the variance.
    outcome: what episodes are worth: "return" (the rewards) or "won" (1 in the last step of a success).
    invalid_penalty: taken off for every step whose action was not valid; 0 for none.
    penalty: where, see `wrappers.credit.group.StatisticsOptions`.
    """

    weights: Floats | None
    ddof: Literal[0, 1]
    eps: float
    outcome: Literal["return", "won"]
    invalid_penalty: float
    penalty: Literal["row", "discounted", "advantage"]


class ReinforcePlusPlusOptions(WhiteningOptions, total=False):
    """Those of `WhiteningOptions`, and what a step is worth.

    score: "to_go", the discounted rewards from the step on (paper), or "episode": every step is a sequence of its own
        that is worth the whole undiscounted episode (authors' code).
    gamma: discount per step of "to_go", in 0..1.
    kl: float64 (N,), penalty of each row for leaving the reference policy, already weighted; None for none. "to_go"
        feels it on the steps before as well, "episode" on its row only.
    """

    score: Literal["to_go", "episode"]
    gamma: float
    kl: Floats | None


class ReinforcePlusPlusBaselineOptions(WhiteningOptions, total=False):
    """Those of `WhiteningOptions`, and the group's mean.

    over: what a group's mean is taken over: "trajectories" (paper) or "steps" (authors' code).
    singleton: a group of one keeps "zero", or its "raw" value (authors' code), before whitening.
    """

    over: Literal["trajectories", "steps"]
    singleton: Singleton


_WHITENING: WhiteningOptions = {
    "weights": None,
    "ddof": 1,
    "eps": 1e-8,
    "outcome": "return",
    "invalid_penalty": 0.0,
    "penalty": "row",
}
PRESETS: dict[str, ReinforcePlusPlusOptions] = {
    "paper": {**_WHITENING, "score": "to_go", "gamma": 1.0, "kl": None},
    "authors": {**_WHITENING, "score": "episode", "gamma": 1.0, "kl": None, "invalid_penalty": 0.1},
}
BASELINE_PRESETS: dict[str, ReinforcePlusPlusBaselineOptions] = {
    "paper": {**_WHITENING, "over": "trajectories", "singleton": "zero"},
    "authors": {**_WHITENING, "over": "steps", "singleton": "raw", "invalid_penalty": 0.1},
}


def reinforce_plus_plus(
    table: StepTable, *, preset: str = "paper", **options: Unpack[ReinforcePlusPlusOptions]
) -> Floats:
    """Return the advantage of every step.

    Args:
        table: N steps; the batch that is whitened, groups play no part.
        preset: "paper" or "authors".
        **options: any of `ReinforcePlusPlusOptions` (score, gamma, kl, weights, ddof, eps, outcome, invalid_penalty,
            penalty), instead of the preset's.

    Returns:
        float64 (N,), in the order of the table's rows; exactly 0 in a batch without contrast.

    Raises:
        ValueError: on an unknown preset, an option's value out of range, or a column of another length than N.
        TypeError: on an unknown option.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> reinforce_plus_plus(table).round(3)  # 1, 1 and 0: mean 2/3, sample variance 1/3
    array([ 0.577,  0.577, -1.155])
    """
    chosen = choose(ReinforcePlusPlusOptions, PRESETS, preset, options)
    statistics = cast(StatisticsOptions, chosen)
    kl = np.zeros(len(table)) if chosen["kl"] is None else finite_numbers("kl", chosen["kl"], len(table))
    if chosen["score"] == "episode":
        scores = episode_scores(table, statistics) - kl
    else:
        reward = _reward(table, chosen["outcome"]) - penalties(table, statistics, "discounted") - kl
        scores = discounted_returns(table, chosen["gamma"], reward) - penalties(table, statistics, "row")
    return _whitened(table, scores, chosen) - penalties(table, statistics, "advantage")


def reinforce_plus_plus_baseline(
    table: StepTable, *, preset: str = "paper", **options: Unpack[ReinforcePlusPlusBaselineOptions]
) -> Floats:
    """Return the advantage of every step: the episode's outcome against its group, on the scale of the batch.

    Args:
        table: N steps of finished groups.
        preset: "paper" or "authors".
        **options: any of `ReinforcePlusPlusBaselineOptions` (over, singleton, weights, ddof, eps, outcome,
            invalid_penalty, penalty), instead of the preset's.

    Returns:
        float64 (N,), in the order of the table's rows; exactly 0 in a batch without contrast.

    Raises:
        ValueError: on an unknown preset, an option's value out of range, or weights of another length than N.
        TypeError: on an unknown option.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> reinforce_plus_plus_baseline(table).round(3)  # 1/2, 1/2 and -1/2: mean 1/6, sample variance 1/3
    array([ 0.577,  0.577, -1.155])
    """
    chosen = choose(ReinforcePlusPlusBaselineOptions, BASELINE_PRESETS, preset, options)
    statistics = cast(StatisticsOptions, {**chosen, "std": "none"})
    centred = episode_advantages(table, episode_scores(table, statistics), statistics)
    return _whitened(table, centred, chosen) - penalties(table, statistics, "advantage")


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


def _reward(table: StepTable, outcome: str) -> Floats:
    if outcome == "return":
        return table.reward
    reward = np.zeros(len(table))
    reward[table.last] = table.trajectory_won
    return reward


class ReinforcePlusPlus(CreditWrapper):
    """Vector wrapper whose `advantages()` are `reinforce_plus_plus(table(), **options)`."""

    method = staticmethod(reinforce_plus_plus)


class ReinforcePlusPlusBaseline(CreditWrapper):
    """Vector wrapper whose `advantages()` are `reinforce_plus_plus_baseline(table(), **options)`."""

    method = staticmethod(reinforce_plus_plus_baseline)
