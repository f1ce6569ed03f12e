"""RAGEN-2's filter: only the groups whose returns spread most are scored, up to a share of the total spread.

    v_g = std of the returns of group g;  keep the largest until  sum of kept v >= top_p * sum of all v - margin

Episodes of kept groups are compared; the others, and groups without spread, are nan (not scored).
Source: RAGEN's rollout filter, its guide and its code; see docs/credit/group_filters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import numpy as np

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.group import TOLERANCE, group_means, has_contrast, largest_of
from wrappers.credit.method import Method
from wrappers.credit.options import StatisticsOptions, credit, option, options_of
from wrappers.credit.returns import episode_level, outcomes, penalties
from wrappers.credit.wrapper import CreditWrapper


class RAGEN2Options(StatisticsOptions, total=False):
    """Options of `ragen2`."""

    top_p: Annotated[float, option(0.9, "share of the summed spread that the kept groups hold", above=0, high=1)]
    margin: Annotated[float, option(0.01, "subtracted from that sum; a batch with less spread keeps no group", low=0)]
    spread: Annotated[Literal["std", "variance"], option(
        "std", 'of a group\'s returns: the sample "std" (the code, which calls it variance), or the "variance"',
    )]  # fmt: skip


@credit(RAGEN2Options, paper={})
def ragen2(table: StepTable, *, preset: str = "paper", **options: Unpack[RAGEN2Options]) -> Floats:
    """Return the advantage of every step: its episode's in the group, nan (not scored) in groups that are filtered out.

    >>> table = StepTable.from_arrays(group=["g", "g", "h", "h"], trajectory=[0, 1, 2, 3], t=[0] * 4, state=["s"] * 4,
    ...     action=["up"] * 4, next_state=["goal", "pit", "pit", "pit"], reward=[1, 0, 0.1, 0], won=[1, 0, 0, 0])
    >>> ragen2(table).round(3)  # spreads .707 and .071: the first alone is .91 of their sum
    array([ 0.707, -0.707,    nan,    nan])
    """
    kept = spread_groups(table, **options)
    scores = episode_level(table, options) - penalties(table, options, "advantage")
    return np.where(kept[table.group], scores, np.nan)


@options_of(ragen2)
def spread_groups(table: StepTable, *, preset: str = "paper", **options: Unpack[RAGEN2Options]) -> Bools:
    """Return bool (n_groups,): the groups that are kept; arguments as `ragen2`."""
    values, group, n_groups = outcomes(table, options), table.trajectory_group, table.n_groups
    count = np.bincount(group, minlength=n_groups)
    centred = values - group_means(values, group, n_groups)[group]
    largest = largest_of(np.abs(values), group, n_groups)
    spread = np.bincount(group, weights=centred**2, minlength=n_groups) / np.maximum(count - 1, 1)
    deviation = np.sqrt(spread)
    # Rounding is not spread.
    spread = np.where(deviation <= TOLERANCE * largest, 0.0, deviation if options["spread"] == "std" else spread)
    wanted = options["top_p"] * spread.sum() - options["margin"]
    falling = np.sort(spread)[::-1]
    reached = np.cumsum(falling)
    if n_groups == 0 or wanted <= 0 or reached[-1] <= 0:
        return np.zeros(n_groups, np.bool_)
    # Ties with the last kept group are kept; the release keeps one of them by its sort order.
    needed = min(int(np.searchsorted(reached, wanted * (1.0 - TOLERANCE))), n_groups - 1)
    kept: Bools = (spread > 0) & (spread >= falling[needed] * (1.0 - TOLERANCE))
    return kept


class RAGEN2(CreditWrapper, method=ragen2): ...


def _keeps(table: StepTable, options: Mapping[str, Any]) -> Bools:
    return has_contrast(table, options["outcome"])


METHOD = Method(
    ragen2, "Group advantages in the groups whose returns spread the most; the others are left out.", keeps=_keeps
)
