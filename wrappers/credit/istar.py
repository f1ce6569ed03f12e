"""iStar: scored steps, where the score is the log-ratio of a reward model to the policy.

r_t = beta * log( pi_phi(a_t | o_1:t) / pi_old(a_t | o_1:t) )      summed over the tokens of reply t; beta .05
A^S = (r_t - mean) / (std + eps)      over all steps of the group
A_t = A^E + alpha * A^S               A^E compares episodes in their group

Source: the iStar paper (Eqs. 1, 3-5) and its release; see docs/credit for differences.
"""

from typing import Unpack

from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import NEEDS_MODEL, Method
from wrappers.credit.options import WHOLE, credit
from wrappers.credit.scored_steps import BY_STEP, ScoredOptions, score_advantages
from wrappers.credit.scored_steps import PRESETS as COMMON

#: The release ships the estimator against the others' mean; "authors_grpo" is its other one, in its default mode.
PRESETS: dict[str, ScoredOptions] = {**COMMON, "authors_grpo": {**COMMON["authors"], "relative": WHOLE}}


@credit(ScoredOptions, **PRESETS)
def istar(table: StepTable, *, scores: ArrayLike, preset: str = "paper", **options: Unpack[ScoredOptions]) -> Floats:
    """Return the advantage of every step.

    Args:
        scores: float (N,), r_t of each row; nan: not scored, step level 0. Zeros (an untrained reward model) leave the
            episode level.
        preset: "paper", "authors" or "authors_grpo" (with `std="group"` its mode with a deviation).

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> istar(table, scores=[0.02, 0.05, -0.01]).round(3)  # the outcomes give +-0.707, the scores 0, 1 and -1
    array([ 0.707,  1.707, -1.707])
    """
    return score_advantages(table, scores, options)


METHOD = Method(
    notes="Group advantages, plus a log-ratio of a reward model to the policy, learned from pairs of won and lost.",
    name="istar", **BY_STEP | {"function": istar}, scorer="implicit_reward", space={"alpha": (0.5, 1.0)},
    contender="istar", colour="#AA4466", unmeasured=NEEDS_MODEL,
)  # fmt: skip
