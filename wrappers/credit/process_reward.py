"""Step scores of any scorer (a model or a judge) plus the episode's outcome.

    A_t = alpha_trajectory * A^E + alpha * A^S        A^S = (score - mean) / (std + eps) over the steps compared

Which scores are comparable depends on their kind; see docs/credit/process_reward.md.
"""

from __future__ import annotations

from typing import Unpack

from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import credit
from wrappers.credit.scored_steps import BY_STEP, PRESETS, ScoredOptions, score_advantages


@credit(ScoredOptions, **PRESETS)
def process_reward(
    table: StepTable, *, scores: ArrayLike, preset: str = "paper", **options: Unpack[ScoredOptions]
) -> Floats:
    """Return the advantage of every step.

    Args:
        scores: float (N,), on any scale. nan: not scored; the row has step level 0, does not enter statistics or sums,
            and keeps its episode level.
        preset: "paper" or "authors" (of the only release of this form).

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> process_reward(table, scores=[0.25, 0.75, float("nan")]).round(3)  # outcomes +-0.707, scores the same
    array([ 0.   ,  1.414, -0.707])
    """
    return score_advantages(table, scores, options)


METHODS = (
    Method(
        process_reward,
        "Episodes compared, plus a judge's scores of the steps, compared inside the group; the trainer is given it.",
        name="judge", **BY_STEP,
    ),
    Method(
        process_reward, "The exact gain of every step, known by the environment: the upper bound of all credit.",
        name="oracle", options={"alpha_trajectory": 0.0, **PENALTY}, scorer="exact_gain", colour="#7E2F8E", **BY_STEP,
    ),
)  # fmt: skip
