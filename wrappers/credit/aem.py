"""AEM: advantages weighted by the certainty of the reply, relative to the other replies of the group.

H~  = (H - min) / (max - min)                          H: mean token entropy of a reply; over the group's replies
A_t = A_t^base exp(-lam H~_t) / mean(exp(-lam H~))     the mean over the group; 1 where H spans less than `least_range`

Source: notes on the AEM paper (no public code); see docs/credit/group_filters.md.
"""

from __future__ import annotations

from typing import Annotated, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import group_means
from wrappers.credit.method import ENTROPY, Credit, Method
from wrappers.credit.options import StatisticsOptions, credit, option
from wrappers.credit.returns import given_or_episode_level, penalties
from wrappers.credit.scores import known_entropies, min_max


class AEMOptions(StatisticsOptions, total=False):
    """Options of `aem`."""

    lam: Annotated[float, option(1.0, "decrease of the weight with the entropy of the reply", low=0)]
    least_range: Annotated[
        float, option(0.1, "smallest range of a group's entropies, in nats; below it all weights are 1", low=0)
    ]


@credit(AEMOptions, paper={})
def aem(
    table: StepTable, *, advantages: ArrayLike | None = None, entropies: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[AEMOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step; nan: not scored.

    Args:
        advantages: float (N,), of another method; nan: not scored, stays nan. None: the group's.
        entropies: float (N,), mean token entropy of every reply; nan: unknown, weight 1. None: estimated by
            `wrappers.credit.scores.reply_entropies`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> aem(table, entropies=[1.0, 0.0, 1.0], std="none").round(3)  # weights e^-1, 1, e^-1 over their mean
    array([ 0.318,  0.864, -0.318])
    """
    base = given_or_episode_level(table, advantages, options)
    unsure, width, known = min_max(known_entropies(table, entropies), table.group, table.n_groups, 0.0)
    weight = np.exp(-options["lam"] * unsure)
    mean = group_means(weight[known], table.group[known], table.n_groups)[table.group]
    modulated = known & (width >= options["least_range"])[table.group]
    factor = np.where(modulated, weight / np.where(mean > 0, mean, 1.0), 1.0)
    return factor * base - penalties(table, options, "advantage")


METHOD = Method(
    aem, "Group advantages, with more weight on replies of low entropy among those of the task.",
    credits=(Credit("aem", ENTROPY, "", aem),),
    unmeasured="weight steps by the entropy of replies, which only learned players have",
)  # fmt: skip
