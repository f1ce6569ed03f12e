"""Dynamic sampling as in DAPO: only groups whose episodes differ in outcome are scored; the others can be replaced.

    A_i = (R_i - mean(R)) / (std(R) + eps)   in groups with 0 < #won < G, else nan: not scored

Source: the DAPO paper and verl-agent; see docs/credit/group_filters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.group import has_contrast
from wrappers.credit.method import Method
from wrappers.credit.options import StatisticsOptions, credit, option, options_of
from wrappers.credit.returns import episode_level, penalties
from wrappers.credit.wrapper import CreditWrapper


class DAPOOptions(StatisticsOptions, total=False):
    """Options of `dapo`."""

    contrast: Annotated[Literal["won", "return"], option(
        "won", 'a group has contrast if: "won", some but not all episodes succeed (paper), or "return", not all '
        "returns are equal (authors' code: partial rewards count, penalties do not)", authors="return",
    )]  # fmt: skip


@credit(DAPOOptions, paper={"outcome": "won"}, authors={})
def dapo(table: StepTable, *, preset: str = "paper", **options: Unpack[DAPOOptions]) -> Floats:
    """Return the advantage of every step: its episode's in the group, nan (not scored) in groups without contrast.

    >>> table = StepTable.from_arrays(group=["g", "g", "h", "h"], trajectory=[0, 1, 2, 3], t=[0] * 4, state=["s"] * 4,
    ...     action=["up"] * 4, next_state=["goal", "pit", "pit", "pit"], reward=[1, 0, 0, 0], won=[1, 0, 0, 0])
    >>> dapo(table).round(3)
    array([ 0.707, -0.707,    nan,    nan])
    """
    scores = episode_level(table, options) - penalties(table, options, "advantage")
    return np.where(contrasting_groups(table, **options)[table.group], scores, np.nan)


@options_of(dapo)
def contrasting_groups(table: StepTable, *, preset: str = "paper", **options: Unpack[DAPOOptions]) -> Bools:
    """Return bool (n_groups,): the group's episodes differ in outcome; arguments as `dapo`."""
    return has_contrast(table, options["contrast"])


def overlong_penalty(lengths: ArrayLike, *, max_length: int, buffer: int, floor: float | None = -1.0) -> Floats:
    """Return the soft punishment of long replies: 0 up to `max_length - buffer`, then linear, -1 at `max_length`.

    Args:
        buffer: width of the linear part, in tokens, 1 to `max_length`.
        floor: smallest value, for replies above `max_length` (paper: -1); None: linear without end (verl's code).

    Returns:
        float64 of the same shape, to be added to rewards.

    Raises:
        ValueError: on a buffer outside 1..max_length, a floor that is not finite, or a negative or missing length.

    >>> overlong_penalty([10, 80, 90, 100, 120], max_length=100, buffer=20)
    array([ 0. ,  0. , -0.5, -1. , -1. ])
    >>> overlong_penalty([90, 120], max_length=100, buffer=20, floor=None)
    array([-0.5, -2. ])
    """
    if not 1 <= buffer <= max_length:
        raise ValueError(f"buffer must be between 1 and max_length={max_length} tokens, got {buffer}")
    if floor is not None and not np.isfinite(floor):
        raise ValueError(f"floor must be a finite number, or None, got {floor!r}")
    given = np.asarray(lengths, np.float64)
    if not (given >= 0).all():
        raise ValueError(f"lengths must be numbers of tokens, at least 0, got {given[~(given >= 0)].flat[0]}")
    over = np.maximum(given - (max_length - buffer), 0.0)
    penalty: Floats = 0.0 - over / buffer
    return penalty if floor is None else np.maximum(penalty, floor)


class DAPO(CreditWrapper, method=dapo):
    """Vector wrapper whose `advantages()` are `dapo(table(), **options)`; it reports groups without contrast."""

    def sub_envs_without_contrast(self) -> Bools:
        """Return bool (num_envs,): sub-environments whose last episode belongs to a group without contrast.

        Reset these with new tasks, `reset(options={"reset_mask": mask, "per_env": [...]})`, and continue: the table
        then holds the new groups too; rows of the old ones stay, not scored. A task that is drawn again adds to its old
        group.

        Raises:
            ValueError: as `table`.
        """
        table = self.table()
        contrast = dict(zip(table.groups, contrasting_groups(table, **self._options), strict=True))
        return np.array([not contrast[task] for task in self.tasks], np.bool_)


def _keeps(table: StepTable, options: Mapping[str, Any]) -> Bools:
    return has_contrast(table, options["contrast"])


METHOD = Method(
    dapo, "Success of episodes, in groups that solve their task sometimes; tasks of other groups are drawn anew.",
    training={"loss.clip_high": 0.28, "loss.kl": 0.0, "rollout.resample_rounds": 10}, keeps=_keeps,
    space={"loss.kl": (0.0, 0.01)}, contender="dapo", colour="#332288",
)  # fmt: skip
