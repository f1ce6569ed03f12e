"""The credits whose ranking of actions is measured, and two references."""

from __future__ import annotations

import numpy as np

from agentgym.trajectory import Floats
from wrappers.credit.method import ENTROPY, Credit
from wrappers.credit.method import credits as declared

REFERENCE = "reference"
#: What differences are taken to: the step part of the method that needs no graph.
BASELINE = "gigpo step"
#: Of the methods before 2026, those that stand beside the recent ones.
_BESIDE = ("grpo", BASELINE, "rewardflow step", "graphgpo step")

METHODS = tuple(credit for credit in declared() if credit.part != ENTROPY and not credit.recent)
#: Step credit of the methods of 2026, as far as a table is all they need; each without its episode level.
RECENT = (
    *(credit for credit in METHODS if credit.name in _BESIDE),
    *(credit for credit in declared() if credit.recent),
)


def credits(truth: Floats, seed: int, methods: tuple[Credit, ...] = METHODS) -> tuple[Credit, ...]:
    """Return all credits of a study: those of methods, and two references.

    Args:
        truth: float64 (N,), what the reference "oracle" answers: it ranks without error.
        seed: of the reference "random", normally distributed numbers, drawn once: it ranks by chance.
        methods: credits of methods.
    """
    noise = np.random.default_rng(seed).standard_normal(len(truth))
    return (
        *methods,
        Credit("oracle", REFERENCE, "", lambda table: truth),
        Credit("random", REFERENCE, "", lambda table: noise),
    )
