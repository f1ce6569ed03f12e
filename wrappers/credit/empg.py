"""EMPG: advantages weighted by the certainty of the reply, plus a bonus for steps that lead to certain replies.

H~   = (H - min) / (max - min + eps)                        H: mean token entropy of a reply; over the batch
A'_t = A_t exp(-k H~_t) / mean(exp(-k H~)) + zeta exp(-k_next H~_{t+1})        minus its mean over the batch

Source: pseudocode on the EMPG paper's project page, and a port of it; see docs/credit/group_filters.md.
"""

from __future__ import annotations

from typing import Annotated, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import following, over_forks
from wrappers.credit.method import ENTROPY, Credit, Method
from wrappers.credit.options import StatisticsOptions, credit, option
from wrappers.credit.returns import given_or_episode_level, penalties
from wrappers.credit.scores import known_entropies, min_max


class EMPGOptions(StatisticsOptions, total=False):
    """Options of `empg`."""

    k: Annotated[float, option(1.0, "decrease of the weight with the entropy of the reply", low=0)]
    k_next: Annotated[float, option(1.0, "decrease of the bonus with the entropy of the next reply", low=0)]
    zeta: Annotated[float, option(0.05, "largest bonus for a certain next reply", low=0)]
    range_eps: Annotated[float, option(1e-8, "added to the range of entropies", low=0)]


@credit(EMPGOptions, paper={})
def empg(
    table: StepTable, *, advantages: ArrayLike | None = None, entropies: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[EMPGOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step; nan: not scored.

    Args:
        advantages: float (N,), of another method; nan: not scored, stays nan. None: the group's.
        entropies: float (N,), mean token entropy of every reply; nan: unknown, weight 1 and no bonus for the step
            before. None: estimated by `wrappers.credit.scores.reply_entropies`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> empg(table, entropies=[1.0, 0.0, 1.0], zeta=0.0, std="none").round(3)  # weights e^-1, 1, e^-1 over their mean
    array([ 0.03 ,  0.576, -0.606])
    """
    base = given_or_episode_level(table, advantages, options)
    together = np.zeros(len(table), np.int64)
    unsure, _, known = min_max(known_entropies(table, entropies), together, 1, options["range_eps"])
    weight = np.exp(-options["k"] * unsure)
    weight = np.where(known, weight / weight[known].mean() if known.any() else 1.0, 1.0)
    ahead = _ahead(table, values=np.where(known, np.exp(-options["k_next"] * unsure), 0.0))
    total = weight * base + options["zeta"] * ahead
    scored = ~np.isnan(total)
    mean = total[scored].mean() if scored.any() else 0.0
    return total - mean - penalties(table, options, "advantage")


@over_forks("values")
def _ahead(table: StepTable, *, values: Floats) -> Floats:
    return following(table, values)


METHOD = Method(
    empg, "Group advantages, with more weight on replies of low entropy, plus a small bonus before low entropy.",
    credits=(Credit("empg", ENTROPY, "", empg),),
    unmeasured="weight steps by the entropy of replies, which only learned players have",
)  # fmt: skip
