"""IGPO: each turn rewarded with the gain in the policy's belief in the right answer, plus the outcome at the end.

r_t = p(answer | before step t+1) - p(answer | before step t)      the last step of an episode: its outcome instead
A_t = sum_k gamma^k z_{t+k}      z = (r - mean) / (std + eps) over all steps of the group

Source: the IGPO paper's equations, second hand, and its release; see docs/credit/igpo.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import along, following, over_forks
from wrappers.credit.group import visit_advantages
from wrappers.credit.method import ASKS_POLICY, Method
from wrappers.credit.options import StatisticsOptions, credit, finite_numbers, option
from wrappers.credit.returns import outcomes, penalties


class IGPOOptions(StatisticsOptions, total=False):
    """Options of `igpo`; `over` and `singleton` have no effect, "row" and "discounted" penalties are the same."""

    gamma: Annotated[float, option(1.0, "discount per step", low=0, high=1)]
    compare: Annotated[Literal["joint", "separate"], option(
        "joint", 'gains and outcomes are standardised together in the group ("joint"), or separately ("separate")',
    )]  # fmt: skip


@credit(IGPOOptions, paper={}, authors={"ddof": 0, "invalid_penalty": 0.0})
@over_forks("beliefs")
def igpo(table: StepTable, *, beliefs: ArrayLike, preset: str = "paper", **options: Unpack[IGPOOptions]) -> Floats:
    """Return the advantage of every step.

    Args:
        beliefs: float (N,), belief in the right answer before each step, such as exp(mean log p) of the answer's tokens
            after the step's prompt.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["look", "say", "say"], next_state=["u", "right", "wrong"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> igpo(table, beliefs=[0.1, 0.6, 0.1], std="none")  # .5 gained, then outcomes 1 and 0, about their mean .5
    array([ 0.5,  0.5, -0.5])
    """
    before = finite_numbers("beliefs", beliefs, len(table))
    gained = following(table, before) - before
    gained[table.last] = outcomes(table, options)
    gained -= penalties(table, options, "row") + penalties(table, options, "discounted")
    sets, n_sets = table.group, table.n_groups
    if options["compare"] == "separate":
        ends = np.zeros(len(table), np.int64)
        ends[table.last] = 1
        sets, n_sets = 2 * sets + ends, 2 * n_sets
    compared = visit_advantages(gained, sets, n_sets, options)
    return along(table, compared, options["gamma"]) - penalties(table, options, "advantage")


def _figures(table: StepTable, beliefs: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    found = (beliefs.mean(), beliefs[table.last].mean()) if len(beliefs) else (0.0, 0.0)
    return {"belief": float(found[0]), "belief_last": float(found[1])}


METHOD = Method(
    igpo, "Sums of later gains in the policy's belief in the right answer, with the outcome at the end.",
    scored="turn", argument="beliefs", figures=_figures, scorer="answer_belief", unmeasured=ASKS_POLICY,
)  # fmt: skip
