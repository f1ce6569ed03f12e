"""Credit of one method where another gives exactly 0.

Comparing states is accurate but gives 0 to many steps; learned credit covers every step and is less accurate. The
second therefore fills the zeros of the first, at a smaller scale, and is not added elsewhere.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import LARGEST
from agentgym.trajectory import Floats, StepTable
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import graph_steps
from wrappers.credit.graphgpo import PRESETS as GRAPH_PRESETS
from wrappers.credit.graphgpo import GraphGPOOptions, advantages_of, graphgpo_values
from wrappers.credit.group import TOLERANCE
from wrappers.credit.method import FITTED, PENALTY, Credit, Method
from wrappers.credit.options import credit, option
from wrappers.credit.scored_steps import PRESETS as SCORED
from wrappers.credit.scored_steps import score_advantages
from wrappers.credit.scores import step_scores


def fill_silent(first: ArrayLike, second: ArrayLike, share: float = 0.01) -> Floats:
    """Return `first` where it is not exactly 0, elsewhere `share` times `second`.

    Args:
        first: float (N,), such as `graphgpo`'s step level; nan counts as 0.
        second: float (N,), such as `attribution`'s; nan counts as 0.
        share: at least 0. A small one preserves the order of the steps that the first ranks.

    Raises:
        ValueError: when the lengths differ, a number is infinite, or share is below 0 or not finite.

    >>> fill_silent([2.0, 0.0, -1.0, 0.0], [9.0, 3.0, 9.0, float("nan")], 0.1)
    array([ 2. ,  0.3, -1. ,  0. ])
    """
    if not 0 <= share <= LARGEST:
        raise ValueError(f"share must be a number of at least 0, got {share!r}")
    length = len(np.atleast_1d(np.asarray(first, np.float64)))
    return filled(
        np.nan_to_num(step_scores("first", first, length)), np.nan_to_num(step_scores("second", second, length)), share
    )


def filled(first: Floats, second: Floats, share: float) -> Floats:
    """Return `fill_silent` of finite float64 (N,), without checks."""
    return np.where(first == 0, share * second, first)


def contributions(table: StepTable, outcome: Literal["return", "won"]) -> Floats:
    """Return what fills: contributions to the outcome above the group's mean, float64 (N,), see `attribution`."""
    return attribution(table, outcome=outcome, centred=True)


class FilledOptions(GraphGPOOptions, total=False):
    """Options of `graphgpo_filled`: those of `graphgpo`, and the share."""

    share: Annotated[
        float, option(0.1, "weight of attribution where the graph gives 0, in units of its standard deviation", low=0)
    ]


PRESETS: dict[str, FilledOptions] = {name: {**preset, "share": 0.1} for name, preset in GRAPH_PRESETS.items()}


@credit(FilledOptions, **PRESETS)
def graphgpo_filled(table: StepTable, *, preset: str = "paper", **options: Unpack[FilledOptions]) -> Floats:
    """Return GraphGPO's advantages, with attribution as step level where GraphGPO's is 0.

    Attribution is brought to mean 0 and variance 1 over the steps of its group; a group without contrast keeps 0. Time
    is cubic, memory quadratic in the number of trajectories of the largest group (at most 2,000).

    Args:
        preset: GraphGPO's "paper" or "authors".

    Raises:
        ValueError: as `graphgpo` and `attribution`.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> graphgpo_filled(table).round(3)  # only "up" is not compared: attributions 1/6, 1/6, -1/4 give it .577
    array([ 1.414,  0.765, -1.414])
    """
    given: Any = {name: value for name, value in options.items() if name != "share"}
    credit = graphgpo_values(table, **given)
    alone: GraphGPOOptions = given | {"beta_episode": 0.0, "invalid_penalty": 0.0}
    steps = advantages_of(table, credit, alone)
    # A difference of equal rewards may be off 0 by rounding.
    graded = np.where(np.abs(steps) <= TOLERANCE * np.abs(credit.step_reward), 0.0, steps)
    fitted = contributions(table, options["outcome"])
    scores = score_advantages(table, fitted, {**SCORED["paper"], "alpha_trajectory": 0.0})
    return advantages_of(table, credit, given) + (filled(graded, scores, options["share"]) - steps)


def raw_filled(table: StepTable, *, centred: bool = False, share: float = 0.01) -> Floats:
    """Return GraphGPO's step level, and where it is 0 a small share of the unscaled attribution, float64 (N,)."""
    return fill_silent(graph_steps(table), attribution(table, centred=centred), share)


METHOD = Method(
    graphgpo_filled, "GraphGPO, with attribution as step credit where the state graph has none.",
    options={"omega": 0.8, **PENALTY}, space={"omega": (0.5, 0.8)}, colour="#117733", ours=True,
    credits=(
        Credit("graphgpo_filled", FITTED, "", functools.partial(graphgpo_filled, beta_episode=0.0)),
        Credit("graphgpo_filled", FITTED, "raw", raw_filled),
        Credit("graphgpo_filled", FITTED, "raw centred", functools.partial(raw_filled, centred=True)),
    ),
)  # fmt: skip
