"""Step scores of a judge, or exact gains, plus the episode's outcome, by `wrappers.credit.scored_steps`.

Which scores are comparable depends on their kind; see docs/credit/process_reward.md.
"""

from wrappers.credit.method import PENALTY, Method
from wrappers.credit.scored_steps import BY_STEP, PRESETS, process_reward

__all__ = ["METHODS", "PRESETS", "process_reward"]

METHODS = (
    Method(
        notes="Group advantages, plus a judge's scores of the steps, compared too; the trainer is given the judge.",
        name="judge", **BY_STEP,
    ),
    Method(
        notes="The exact gain of every step, known by the environment: the upper bound of all credit.",
        name="oracle", options={"alpha_trajectory": 0.0, **PENALTY}, scorer="exact_gain", colour="#7E2F8E", **BY_STEP,
    ),
)  # fmt: skip
