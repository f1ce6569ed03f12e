"""RLOO: an episode's outcome against the mean of the *other* episodes of its group.

A_i = R_i - sum_{j != i} R_j / (G - 1)  =  G / (G - 1) * (R_i - mean(R))

Source: the RLOO paper and verl-agent; see docs/credit/grpo.md for differences.
"""

from __future__ import annotations

from typing import Unpack

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import first_rows, over_forks
from wrappers.credit.group import episode_advantages, others_factor
from wrappers.credit.method import EPISODE, PENALTY, Credit, Method
from wrappers.credit.options import EpisodeOptions, StatisticsOptions, credit
from wrappers.credit.returns import episode_scores, penalties, shared_level
from wrappers.credit.wrapper import CreditWrapper


# The authors' family leaves one *step* out: the mean still holds the episode's own other steps.
@credit(EpisodeOptions)
def rloo(table: StepTable, *, preset: str = "paper", **options: Unpack[EpisodeOptions]) -> Floats:
    """Return the advantage of every step, the same for all steps of an episode with equal scores.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "b", "c"], t=[0, 0, 0], state=["s"] * 3,
    ...     action=["right", "up", "left"], next_state=["goal", "pit", "pit"], reward=[1, 0, 0], won=[1, 0, 0])
    >>> rloo(table)
    array([ 1. , -0.5, -0.5])
    """
    return against_others(table, options) - penalties(table, options, "advantage")


def _shared_against_others(table: StepTable, options: EpisodeOptions) -> Floats:
    centred, members, times = shared_level(table, _mean_only(options))
    return centred * others_factor(table.group[members], table.n_groups, times)[table.group]


@over_forks(shared=_shared_against_others)
def against_others(table: StepTable, options: EpisodeOptions) -> Floats:
    """Return float64 (N,): `rloo` before the penalty "advantage"."""
    centred = episode_advantages(table, episode_scores(table, options), _mean_only(options))
    members = table.group[first_rows(table)] if options["over"] == "trajectories" else table.group
    return centred * others_factor(members, table.n_groups)[table.group]


def _mean_only(options: EpisodeOptions) -> StatisticsOptions:
    return {**options, "std": "none", "ddof": 1, "eps": 0.0}


class RLOO(CreditWrapper, method=rloo): ...


METHODS = (
    Method(
        "rloo",
        rloo,
        "An episode's return against the mean of the group's other episodes.",
        options=PENALTY,
        colour="#CC79A7",
        credits=(Credit("rloo", EPISODE, "", rloo),),
    ),
)
