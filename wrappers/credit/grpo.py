"""GRPO: an episode's outcome against the mean of its group, the same for all its steps.

    A_i = (R_i - mean(R)) / (std(R) + eps)

over the G episodes of a task. `std="none"` is the form without division (Dr. GRPO).
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.group import component_advantages
from wrappers.credit.method import EPISODE, Credit, Method
from wrappers.credit.options import StatisticsOptions, credit, option, presets
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.wrapper import CreditWrapper


class GRPOOptions(StatisticsOptions, total=False):
    """Options of `grpo`."""

    rewards: Annotated[Literal["sum", "components"], option(
        "sum", 'what is compared: the "sum", which is the reward, or each of the reward\'s "components" (GDPO)',
    )]  # fmt: skip


PRESETS: dict[str, GRPOOptions] = presets(GRPOOptions)


@credit(GRPOOptions, **PRESETS)
def grpo(
    table: StepTable, *, reward_components: ArrayLike | None = None, component_weights: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[GRPOOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every step.

    Args:
        reward_components: float (N, C), each step's part of each of several rewards, which are compared one by one
            (GDPO, see `wrappers.credit.group.component_advantages`). None: with `rewards="components"` those of the
            table, else its reward.
        component_weights: float (C,); None: 1 each.

    Raises:
        ValueError: components are requested, and the table has none.

    >>> table = StepTable.from_arrays(group=["g"] * 3, trajectory=["a", "a", "b"], t=[0, 1, 0], state=["s", "u", "s"],
    ...     action=["right", "up", "left"], next_state=["u", "goal", "pit"], reward=[0, 1, 0], won=[1, 1, 0])
    >>> grpo(table).round(3)
    array([ 0.707,  0.707, -0.707])
    """
    if reward_components is None and options["rewards"] == "components":
        if table.reward_components is None:
            raise ValueError(
                "rewards='components' needs a table with reward_components: let the environment put numbers by name "
                'into info["reward_components"] of its steps, or give them to StepTable.from_arrays'
            )
        reward_components = np.column_stack(list(table.reward_components.values()))
    if reward_components is None:
        level = episode_level(table, options)
    else:
        level = component_advantages(table, reward_components, component_weights, options)
    return level - penalties(table, options, "advantage")


class GRPO(CreditWrapper, method=grpo): ...


METHOD = Method(
    grpo, "An episode's return against its group, the same for every step.",
    # Known improvements: a wide clip range, dynamic sampling, and no standard deviation.
    space={"loss.clip_high": (0.2, 0.28), "rollout.resample_rounds": (0, 10), "std": ("group", "none")},
    contender="grpo", colour="#E69F00", credits=(Credit("grpo", EPISODE, "", grpo),),
)  # fmt: skip
