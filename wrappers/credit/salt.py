"""SALT: a step that several episodes took gets the mean of their episode advantages.

A_t = mean of A_i over the trajectories i that took the edge (s, a, s'); A_i where only its own did

A_i is the episode's advantage in its group. Source: the SALT paper, second hand; see docs/credit.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.forks import over_forks
from wrappers.credit.group import episode_advantages, group_means, number_pairs
from wrappers.credit.method import STEP, Credit, Method
from wrappers.credit.options import OTHERS, WHOLE, Relative, StatisticsOptions, credit, option
from wrappers.credit.returns import against_others, episode_scores, penalties
from wrappers.credit.state_graph import StateGraph
from wrappers.credit.wrapper import CreditWrapper


class SALTOptions(StatisticsOptions, total=False):
    """Options of `salt`."""

    relative: Annotated[Relative, option(
        WHOLE, f'an episode is compared with the mean of its whole group ("{WHOLE}"), or of the others ("{OTHERS}": no '
        "division; std, ddof and eps have no effect)",
    )]  # fmt: skip
    unit: Annotated[Literal["trajectory", "visit"], option(
        "trajectory", 'members of a mean: every "trajectory" that took the edge once, or every "visit"',
    )]  # fmt: skip


@credit(SALTOptions, paper={"outcome": "won"})
@over_forks()
def salt(table: StepTable, *, preset: str = "paper", **options: Unpack[SALTOptions]) -> Floats:
    """Return the advantage of every step.

    >>> table = StepTable.from_arrays(group=["g"] * 4, trajectory=["a", "a", "b", "b"], t=[0, 1, 0, 1],
    ...     state=["s", "u", "s", "u"], action=["right", "up", "right", "down"], next_state=["u", "goal", "u", "pit"],
    ...     reward=[0, 1, 0, 0], won=[1, 1, 0, 0])
    >>> salt(table).round(3)  # both went right: what is good and what is bad of it cancels
    array([ 0.   ,  0.707,  0.   , -0.707])
    """
    if options["relative"] == OTHERS:
        own = against_others(table, options)
    else:
        own = episode_advantages(table, episode_scores(table, options), options)
    edge, example = StateGraph.from_table(table).edges
    pair, first = number_pairs(edge, len(example), table.trajectory, table.n_trajectories)
    took = np.bincount(edge[first], minlength=len(example))
    if options["unit"] == "visit":
        mean = group_means(own, edge, len(example))
    else:
        mean = group_means(group_means(own, pair, len(first)), edge[first], len(example))
    return np.where(took[edge] > 1, mean[edge], own) - penalties(table, options, "advantage")


class SALT(CreditWrapper, method=salt): ...


METHOD = Method(
    salt, "Group advantages, averaged over the episodes that took the same step.",
    credits=(Credit("salt", STEP, "", salt, recent=True),),
)  # fmt: skip
