"""SDPO: the policy moves towards itself with a context in its prompt, in addition to or instead of the advantage.

    L = grpo L_outcome + weight mean over tokens of informed steps of w D(policy || informed policy)
    w = min(pi / pi_old, 2)        D: see `baselines.distillation`, on the policy's likeliest tokens and a tail

The divergence needs no advantage: groups of only lost episodes train too. This function gives the first term's
advantages; the second is the trainer's (`baselines.config.Distillation`), on the steps with a context.

Source: 2601.20802 and its release, which leaves the first term out (grpo=0). See docs/credit/privileged.md.
"""

from __future__ import annotations

from typing import Annotated, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import ASKS_POLICY, Method
from wrappers.credit.options import StatisticsOptions, credit, option
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.scores import step_scores


class SDPOOptions(StatisticsOptions, total=False):
    """Options of `sdpo`."""

    grpo: Annotated[float, option(1.0, "weight of the outcome's advantage; none in the release", authors=0.0, low=0)]


@credit(SDPOOptions)
def sdpo(table: StepTable, *, gates: ArrayLike, preset: str = "paper", **options: Unpack[SDPOOptions]) -> Floats:
    """Return the advantage of every step: its episode's in the group, times `grpo`.

    Args:
        gates: float (N,), a number where the step has a context, else nan. With an advantage of 0 and without a
            context, a step is not scored (nan): there is nothing to learn from it.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> gates = [1, np.nan, 1]
    >>> sdpo(table, gates=gates, std="none"), sdpo(table, gates=gates, grpo=0.0)
    (array([ 0.5,  0.5, -0.5]), array([ 0., nan,  0.]))
    """
    given = step_scores("gates", gates, len(table))
    level = episode_level(table, options) - penalties(table, options, "advantage")
    return options["grpo"] * level if options["grpo"] else np.where(np.isnan(given), np.nan, 0.0)


METHOD = Method(
    sdpo, "Group advantages, and the divergence to the policy that reads a context, also in groups without success.",
    training={"distillation.weight": 1.0}, scored="turn", argument="gates", scorer="privileged",
    settings={"level": "turn"}, colour="#BCBD22", unmeasured=ASKS_POLICY,
)  # fmt: skip
