"""RLOO: an episode's outcome against the mean of the *other* episodes of its group.

A_i = R_i - sum_{j != i} R_j / (G - 1)  =  G / (G - 1) * (R_i - mean(R))

Source: the RLOO paper and verl-agent; see docs/credit for differences.
"""

from typing import Unpack

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import EPISODE, Credit, Method
from wrappers.credit.options import EpisodeOptions, credit
from wrappers.credit.returns import against_others, penalties
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


class RLOO(CreditWrapper, method=rloo): ...


METHOD = Method(
    rloo, "An episode's return against the mean of the group's other episodes.", colour="#CC79A7",
    credits=(Credit("rloo", EPISODE, "", rloo),),
)  # fmt: skip
