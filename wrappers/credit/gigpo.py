"""GiGPO: episodes compared in their group, plus steps compared with the other steps from the same state.

R_t = sum_{k >= t} gamma^(k - t) r_k
A_t = A^E + omega * A^S,   A^S = (R_t - mean) / (std + eps) over all visits of the same state in the group

Source: the GiGPO paper (R_t is its Eq. 5) and verl-agent; see docs/credit/gigpo.md for differences.
"""

from __future__ import annotations

from typing import Annotated, Unpack

from agentgym.trajectory import Floats, StepTable
from wrappers.canonical import observation_key
from wrappers.credit.forks import over_forks
from wrappers.credit.group import episode_advantages, states_of, visit_advantages
from wrappers.credit.method import PENALTY, TOTAL, Credit, Method, steps_of
from wrappers.credit.options import StatisticsOptions, credit, option, options_of
from wrappers.credit.returns import discounted_returns, episode_scores, penalties
from wrappers.credit.wrapper import CreditWrapper


class GiGPOOptions(StatisticsOptions, total=False):
    """Options of `gigpo`."""

    gamma: Annotated[float, option(0.95, "discount of the returns compared at a state", low=0, high=1)]
    omega: Annotated[float, option(1.0, "weight of the step level")]


# The authors' configuration leaves the standard deviation out at both levels; their ALFWorld script switches it on.
@credit(GiGPOOptions, paper={}, authors={"std": "none"})
@over_forks()
def gigpo(table: StepTable, *, preset: str = "paper", **options: Unpack[GiGPOOptions]) -> Floats:
    """Return the advantage of every step.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> gigpo(table).round(3)  # only "s" was visited twice
    array([ 1.414,  0.707, -1.414])
    """
    steps = visit_advantages(step_returns(table, options), *states_of(table), options)
    episodes = episode_advantages(table, episode_scores(table, options), options)
    return episodes + options["omega"] * steps - penalties(table, options, "advantage")


def step_returns(table: StepTable, options: GiGPOOptions) -> Floats:
    """Return float64 (N,): discounted returns minus penalties, compared at a state; needs full options."""
    reward = table.reward - penalties(table, options, "discounted")
    return discounted_returns(table, options["gamma"], reward) - penalties(table, options, "row")


class GiGPO(CreditWrapper, method=gigpo): ...


@options_of(gigpo)
def step_level(table: StepTable, *, preset: str = "paper", **options: Unpack[GiGPOOptions]) -> Floats:
    """Return float64 (N,): `gigpo` without its episode level."""
    return visit_advantages(step_returns(table, options), *states_of(table), options)


METHOD = Method(
    gigpo, "Group advantages, plus discounted returns compared among visits of the same state.",
    options={"gamma": 0.95, **PENALTY}, space={"gamma": (0.9, 0.95)}, contender="gigpo", colour="#56B4E9",
    credits=(*steps_of("gigpo", step_level), Credit("gigpo", TOTAL, "", gigpo)),
    key=("observation (GiGPO)", observation_key),
)  # fmt: skip
