"""Advantages from scores of steps, which methods share that get theirs from a scorer.

A_t = alpha_trajectory * A^E + alpha * A^S        A^S = (score - mean) / (std + eps) over the steps compared
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from agentgym.trajectory.forks import counts_so_far
from wrappers.credit.evidence import GateOptions, trust, worth
from wrappers.credit.group import largest_of, others_factor, states_of, visit_advantages
from wrappers.credit.options import OTHERS, WHOLE, Relative, StatisticsOptions, credit, option, presets
from wrappers.credit.returns import against_others, episode_level, mean_returns, penalties
from wrappers.credit.scores import step_scores


class ScoredOptions(StatisticsOptions, GateOptions, total=False):
    """Options of both levels; std, ddof and eps apply to both."""

    alpha: Annotated[float, option(1.0, "weight of the step level")]
    alpha_trajectory: Annotated[float, option(1.0, "weight of the episode level")]
    compare: Annotated[Literal["group", "first", "state"], option(
        "group", 'a step is compared with: all scored steps of its "group"; the "first" scored step of each '
        'trajectory of the group (authors\' code); or the scored steps of the group from the same "state", the only '
        "valid choice for levels", authors="first",
    )]  # fmt: skip
    horizon: Annotated[Literal["step", "to_go"], option(
        "step", 'compared quantity: the score of the "step", or the discounted sum of its and all later scores '
        '("to_go")',
    )]  # fmt: skip
    gamma: Annotated[float, option(1.0, 'discount per step of "to_go"; do not discount log-ratios', low=0, high=1)]
    relative: Annotated[Relative, option(
        WHOLE, f'both levels against the mean of all ("{WHOLE}") or of the others ("{OTHERS}": no division; std, ddof '
        "and eps have no effect)", authors=OTHERS,
    )]  # fmt: skip
    score_norm: Annotated[Literal["none", "group"], option(
        "none", 'scores are first divided by the largest magnitude of the "group" (authors\' code, there over all '
        "groups of a rank)", authors="group",
    )]  # fmt: skip
    penalised: Annotated[Literal["both", "episode"], option(
        "both", 'levels that the penalties "row" and "discounted" affect: "both", or the "episode" level alone '
        "(authors' code)", authors="episode",
    )]  # fmt: skip


#: The authors are those of the only release of this form.
PRESETS: dict[str, ScoredOptions] = presets(ScoredOptions, paper={}, authors={"std": "none", "over": "trajectories"})


@credit(ScoredOptions, **PRESETS)
def process_reward(
    table: StepTable, *, scores: ArrayLike, preset: str = "paper", **options: Unpack[ScoredOptions]
) -> Floats:
    """Return the advantage of every step.

    Args:
        scores: float (N,), on any scale. nan: not scored; the row has step level 0, does not enter statistics or sums,
            and keeps its episode level.
        preset: "paper" or "authors" (of the only release of this form).

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> process_reward(table, scores=[0.25, 0.75, float("nan")]).round(3)  # outcomes +-0.707, scores the same
    array([ 0.   ,  1.414, -0.707])
    """
    return score_advantages(table, scores, options)


def score_advantages(table: StepTable, scores: ArrayLike, options: ScoredOptions) -> Floats:
    """Return `process_reward` with full options, float64 (N,)."""
    given = step_scores("scores", scores, len(table))
    steps = _step_level(table, np.nan_to_num(given), ~np.isnan(given), options)
    if options["relative"] == OTHERS:
        episodes = against_others(table, options)
    else:
        episodes = episode_level(table, options)
    alpha = options["alpha"] * trust(table, given, options["gate"])
    advantages = options["alpha_trajectory"] * episodes + alpha * steps
    return advantages - penalties(table, options, "advantage")


def _step_level(table: StepTable, scores: Floats, scored: Bools, options: ScoredOptions) -> Floats:
    felt = options["penalised"] == "both"
    values = scores - penalties(table, options, "discounted") if felt else scores
    if options["horizon"] == "to_go":
        values = mean_returns(table, gamma=options["gamma"], reward=values)
    if options["score_norm"] == "group":
        largest = largest_of(np.abs(values[scored]), table.group[scored], table.n_groups)
        values = values / np.where(largest > 0, largest, 1.0)[table.group]
    if felt:
        values = values - penalties(table, options, "row")
    groups, n_groups = table.group, table.n_groups
    if options["compare"] == "state":
        groups, n_groups = states_of(table)
    first = options["compare"] == "first"
    members = _first_scored(table, scored) if first else np.flatnonzero(scored)
    others = options["relative"] == OTHERS
    statistics: StatisticsOptions = options
    if others:
        statistics = {**statistics, "std": "none"}
    centred = visit_advantages(
        values, groups, n_groups, statistics, scored=scored, members=members,
        singleton=options["singleton"] if first else "zero",
    )  # fmt: skip
    return centred * others_factor(groups[members], n_groups)[groups] if others else centred


def _first_scored(table: StepTable, scored: Bools) -> Ints:
    first = scored & (counts_so_far(table, scored) == 1)
    return np.flatnonzero(first) if table.has_forks else table.order[first[table.order]]


#: A method that reads a scorer of steps.
BY_STEP: Any = {"function": process_reward, "scored": "turn", "argument": "scores", "figures": worth}
