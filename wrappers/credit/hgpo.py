"""HGPO: steps from the same state, compared in nested groups that also share the previous states.

A_j = (R_t - mean) / (std + eps)   over the steps that agree in the current and the j previous states, j = 0..k
A_t = sum_j w_j A_j,   w_j = (j + 1)^alpha / sum_i (i + 1)^alpha

Source: the HGPO paper and its recipe in verl-agent; see docs/credit/gigpo.md for differences.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.gigpo import GiGPOOptions, step_returns
from wrappers.credit.group import contexts, episode_advantages, visit_advantages
from wrappers.credit.method import PENALTY, Method, steps_of
from wrappers.credit.options import StatisticsOptions, credit, option
from wrappers.credit.returns import episode_scores, penalties
from wrappers.credit.wrapper import CreditWrapper

#: Weights of contexts beyond 1e100 or below 1e-100 are refused.
_LARGEST_LOG_WEIGHT = 100 * math.log(10)
#: Longest context: no episode of a text environment has more steps, and every context costs a pass over the table.
_LONGEST = 1000


class HGPOOptions(StatisticsOptions, total=False):
    """Options of `hgpo`."""

    k: Annotated[int, option(2, "number of previous states in the longest context; 0 is GiGPO's step level", low=0)]
    alpha: Annotated[float, option(1.0, "growth of the weights with the length of the context; 0: equal weights")]
    gamma: Annotated[float, option(0.95, "discount of the returns compared at a state", low=0, high=1)]
    first_weight: Annotated[Literal[1, 2], option(
        1, "the weights are (j + first_weight)^alpha: 1:2:3, or 2:3:4 (authors' code) for k = 2", authors=2,
    )]  # fmt: skip
    divide_by: Annotated[Literal["all", "has", "contrast"], option(
        "all", 'divisor, the sum of the weights of "all" k + 1 contexts (paper), of those the row "has" (first rows '
        'of a trajectory lack the long ones), or of those with "contrast", an advantage other than 0 (authors\' code)',
        authors="contrast",
    )]  # fmt: skip
    step_ddof: Annotated[
        Literal[0, 1], option(1, "1 sample, 0 population standard deviation of the contexts' groups", authors=0)
    ]
    base_group: Annotated[
        bool, option(False, "the episode's advantage counts with weight 1, as a further group above the contexts")
    ]


@credit(HGPOOptions)
@over_forks()
def hgpo(table: StepTable, *, preset: str = "paper", **options: Unpack[HGPOOptions]) -> Floats:
    """Return the advantage of every step, in O(k N); a state visited once scores 0 (without `base_group`).

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> hgpo(table, k=0).round(3)
    array([ 0.707,  0.   , -0.707])
    >>> hgpo(table, k=1).round(3)  # no state before "s": its longer context counts 0, with weight 2 of 1 + 2
    array([ 0.236,  0.   , -0.236])
    """
    _check(options)
    returns: GiGPOOptions = {
        "gamma": options["gamma"], "invalid_penalty": options["invalid_penalty"], "penalty": options["penalty"],
    }  # fmt: skip
    values = step_returns(table, returns)
    inside: StatisticsOptions = {"std": options["std"], "ddof": options["step_ddof"], "eps": options["eps"]}
    total, weights = np.zeros(len(table)), np.zeros(len(table))

    def add(advantages: Floats, weight: float, has: Bools) -> None:
        nonlocal total, weights
        total = total + weight * advantages
        counts = {"all": np.ones_like(has), "has": has, "contrast": advantages != 0}[options["divide_by"]]
        weights = weights + weight * counts

    if options["base_group"]:
        add(episode_advantages(table, episode_scores(table, options), options), 1.0, np.ones(len(table), np.bool_))
    for j, (groups, n_groups) in enumerate(contexts(table, options["k"])):
        has = groups >= 0
        weight = float(j + options["first_weight"]) ** options["alpha"]
        add(visit_advantages(values, groups, n_groups, inside, scored=has), weight, has)
    mean = np.divide(total, weights, out=np.zeros(len(table)), where=weights > 0)
    return mean - penalties(table, options, "advantage")


def _check(options: HGPOOptions) -> None:
    k = options["k"]
    if k > _LONGEST:
        raise ValueError(f"k must be at most {_LONGEST}, got {k}")
    if abs(options["alpha"]) * math.log(k + options["first_weight"]) > _LARGEST_LOG_WEIGHT:
        most = _LARGEST_LOG_WEIGHT / math.log(k + options["first_weight"])
        raise ValueError(
            f"alpha must be within +-{most:.4g} with k={k}, as weights must be within 1e-100 and 1e100, got "
            f"{options['alpha']}"
        )


class HGPO(CreditWrapper, method=hgpo): ...


METHOD = Method(
    hgpo, "Discounted returns compared among visits of the same state, also with the same previous states.",
    options={"k": 2, "alpha": 1.0, "gamma": 0.95, **PENALTY}, space={"gamma": (0.9, 0.95)}, contender="hgpo",
    colour="#0072B2", credits=steps_of("hgpo", hgpo),  # it has no episode level unless asked
)  # fmt: skip
