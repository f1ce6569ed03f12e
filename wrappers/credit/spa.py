"""SPA: a step rewarded with its estimated share of the outcome, plus a bonus for an executable action.

r_t = c_t + g_t / 2        sum_t c_t is fitted to the outcome R,   g_t = 1 for an executable action

Use the rewards with any estimator of returns: `dataclasses.replace(table, reward=spa(table, ...))`.
Source: the SPA paper and its release; see docs/credit/attribution.md for differences.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.attribution import attribution
from wrappers.credit.evidence import trust, worth
from wrappers.credit.forks import over_forks
from wrappers.credit.method import NEEDS_MODEL, Method
from wrappers.credit.options import WorthOptions, credit, option
from wrappers.credit.returns import outcomes
from wrappers.credit.scored_steps import ScoredOptions, score_advantages
from wrappers.credit.scores import step_scores
from wrappers.credit.segments import by_turn

#: Contributions with a smaller sum cannot be scaled to an outcome.
_NOTHING = 1e-6


class GroundingOptions(WorthOptions, total=False):
    """Recognition and reward of executable actions."""

    grounding: Annotated[Literal["bonus", "penalty"], option(
        "bonus", '"bonus" for every executed action, which rewards long episodes, or "penalty", the same amount '
        "subtracted for every refused one",
    )]  # fmt: skip


class SPAOptions(GroundingOptions, total=False):
    """Options of `spa`."""

    rescale: Annotated[bool, option(
        False, "scale the contributions of a trajectory to sum to its outcome; if their sum is 0, spread it evenly",
    )]  # fmt: skip
    grounding_weight: Annotated[float, option(0.5, "size of the grounding reward", low=0)]
    refusals: Annotated[tuple[str, ...], option(
        (), "texts that mark a refused action: the next state contains one of them, and a trajectory's last action is "
        "never refused (authors' code); (): by the table's column `valid`", authors=("Nothing happens",),
    )]  # fmt: skip
    share: Annotated[Literal["contribution", "outcome"], option(
        "contribution", 'reward of a step: its "contribution", or the whole "outcome" of its trajectory minus the '
        "mean of the group's other trajectories (authors' data script: contributions have no effect)",
        authors="outcome",
    )]  # fmt: skip
    times_left: Annotated[bool, option(
        False, "multiply each reward by the number of later steps, so that the last one gets 0 (authors' code)",
        authors=True,
    )]  # fmt: skip


@credit(SPAOptions, paper={"outcome": "won"}, authors={"outcome": "won"})
@over_forks("contributions")
def spa(
    table: StepTable, *, contributions: ArrayLike | Literal["ridge"], preset: str = "paper",
    **options: Unpack[SPAOptions],
) -> Floats:  # fmt: skip
    """Return the reward (not the advantage) of every step.

    Args:
        table: N steps of finished trajectories; of finished groups if `contributions` or `share` compares them.
        contributions: float (N,), estimated share of the outcome; nan: none, only the grounding reward. "ridge":
            `wrappers.credit.attribution`, no model.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> spa(table, contributions=[0.2, 0.6, 0.1])
    array([0.7, 1.1, 0.6])
    >>> spa(table, contributions=[0.2, 0.6, 0.1], rescale=True, grounding="penalty")
    array([0.25, 0.75, 0.  ])
    """
    worth = outcomes(table, options)
    if isinstance(contributions, str):
        if contributions != "ridge":
            raise ValueError(f'contributions must be one number per row or "ridge", got {contributions!r}')
        scores = attribution(table, outcome=options["outcome"])
    else:
        scores = step_scores("contributions", contributions, len(table))
    if options["share"] == "outcome":
        shares = _above_the_others(table, worth)
    else:
        shares = np.nan_to_num(scores)
        if options["rescale"]:
            shares = _rescaled(table, shares, worth)
    executed = _executed(table, options["refusals"])
    rewards = shares + options["grounding_weight"] * (executed - 1.0 * (options["grounding"] == "penalty"))
    if options["times_left"]:
        turn = by_turn(table)
        rewards = rewards * (turn[table.last][table.trajectory] - turn)
    return rewards


def _rescaled(table: StepTable, shares: Floats, worth: Floats) -> Floats:
    total = np.bincount(table.trajectory, weights=shares, minlength=table.n_trajectories)
    some = np.abs(total) > _NOTHING
    factor = np.where(some, worth / np.where(some, total, 1.0), 0.0)
    even = np.where(some, 0.0, worth / np.diff(table.offsets))
    return shares * factor[table.trajectory] + even[table.trajectory]


def _above_the_others(table: StepTable, worth: Floats) -> Floats:
    group = table.trajectory_group
    others = np.bincount(group, minlength=table.n_groups)[group] - 1
    rest = np.bincount(group, weights=worth, minlength=table.n_groups)[group] - worth
    return (worth - rest / np.maximum(others, 1))[table.trajectory]


def _executed(table: StepTable, refusals: tuple[str, ...]) -> Bools:
    if not refusals:
        return table.valid
    refused = np.array([any(text in str(state) for text in refusals) for state in table.states], np.bool_)
    executed = ~refused[table.next_state]
    executed[table.last] = True
    return executed


class SPAAdvantageOptions(ScoredOptions, SPAOptions, total=False):
    """Options of `spa_advantages`: of `spa` for the rewards, and for their use."""


@credit(SPAAdvantageOptions, paper={"outcome": "won"})
def spa_advantages(
    table: StepTable, *, contributions: ArrayLike | Literal["ridge"] = "ridge", preset: str = "paper",
    **options: Unpack[SPAAdvantageOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step: the rewards of `spa` as scores of steps.

    Args:
        contributions: as `spa`; with a gate, alpha is multiplied by their measured quality.
    """
    known: Any = contributions
    if isinstance(contributions, str):
        known = attribution(table, outcome=options["outcome"])
    rewarding: Any = {name: options[name] for name in SPAOptions.__annotations__}  # type: ignore[literal-required]
    alpha = options["alpha"] * trust(table, known, options["gate"])
    scores = spa(table, contributions=known, **rewarding)
    using: Any = {**options, "alpha": alpha, "gate": "none"}
    return score_advantages(table, scores, using)


METHODS = (
    Method(
        spa_advantages,
        "Group advantages, plus SPA's step rewards: contributions by ridge regression, -0.5 for a refused action.",
        name="spa", options={"grounding": "penalty"}, unmeasured=NEEDS_MODEL,
    ),
    Method(
        spa_advantages,
        "Group advantages, plus SPA's step rewards, with contributions that a network learns to sum to the outcome.",
        name="spa_network", options={"grounding": "penalty"}, scored="turn", argument="contributions", figures=worth,
        scorer="contribution",
    ),
)  # fmt: skip
