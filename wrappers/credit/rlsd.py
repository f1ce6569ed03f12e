"""RLSD and SERL: how much an informed teacher agrees with each token, as a bounded weight on the outcome's advantage.

    g = log p(token | context, prompt) - log p(token | prompt)          the same weights, with and without the context
    w = clip(exp(sign(A) g), 1 - band, 1 + band)      A_token = A ((1 - lam) + lam w)

The direction is the outcome's: where A is 0 nothing happens, and no token moves by more than lam band |A|. SERL is the
same weight on the tokens of the command alone (the scorer's `tokens="action"`).

Source: RLSD 2604.03128, as four ports have it; SERL 2605.19447 and its release. See docs/credit/privileged.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats, StepTable
from wrappers.credit.method import ASKS_POLICY, PENALTY, Method
from wrappers.credit.options import StatisticsOptions, credit, option, presets
from wrappers.credit.returns import given_or_episode_level, penalties
from wrappers.credit.scores import reply_tokens, token_scores, written_tokens


class FadeOptions(StatisticsOptions, total=False):
    """How strong a weight is, and when it ends."""

    lam: Annotated[float, option(0.5, "share of the advantage that is weighted, at the first update", low=0, high=1)]
    fade: Annotated[int, option(50, "updates in which lam falls linearly to 0; 0: it stays", authors=100, low=0)]
    update: Annotated[int, option(0, "number of finished updates; a trainer sets it", low=0)]


class RLSDOptions(FadeOptions, total=False):
    """Options of `rlsd`."""

    band: Annotated[float, option(0.2, "most that a weight differs from 1", low=0, high=1)]


PRESETS: dict[str, RLSDOptions] = presets(RLSDOptions)


@credit(RLSDOptions, **PRESETS)
def rlsd(
    table: StepTable,
    *,
    gaps: ArrayLike,
    advantages: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    preset: str = "paper",
    **options: Unpack[RLSDOptions],
) -> Floats:
    """Return the advantage of every reply token.

    Args:
        gaps: float (N, K), g of the tokens of each row's reply; nan: no weight, the token keeps the row's advantage;
            anything where masked.
        advantages: float (N,), of another method; None: GRPO's.
        mask: bool (N, K), True = a token of the reply; None: by the table's replies.

    Returns:
        float64 (N, K), 0 where masked.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s"] * 2,
    ...     action=["right", "left"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
    >>> rlsd(table, gaps=[[0.1, -3.0], [-3.0, 0.0]], mask=[[1, 1], [1, 0]], std="none", lam=1.0).round(3)
    array([[ 0.553,  0.4  ],
           [-0.6  ,  0.   ]])
    """
    kept = written_tokens(table) if mask is None else reply_tokens(mask, len(table))
    gap = token_scores("gaps", gaps, kept)
    level = given_or_episode_level(table, advantages, options)[:, None]
    lam = faded(options["lam"], options["fade"], options["update"])
    weighted = level * ((1 - lam) + lam * weights(gap, np.sign(level), options["band"]))
    return np.where(kept, weighted - penalties(table, options, "advantage")[:, None], 0.0)


def weights(gaps: Floats, signs: Floats, band: float) -> Floats:
    """Return `clip(exp(sign g), 1 - band, 1 + band)`, 1 where the gap is nan."""
    known = np.nan_to_num(np.clip(gaps, -20.0, 20.0))
    found: Floats = np.clip(np.exp(signs * known), 1 - band, 1 + band)
    return found


def faded(lam: float, fade: int, update: int) -> float:
    """Return what is left of `lam` after so many updates.

    >>> [faded(0.5, 50, update) for update in (0, 10, 80)], faded(0.5, 0, 80)
    ([0.5, 0.4, 0.0], 0.5)
    """
    return lam * max(0.0, 1.0 - update / fade) if fade else lam


def figures(table: StepTable, gaps: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    """Return for the log: mean gap, share of tokens with one, and share of those that the band clips."""
    found = gaps[written_tokens(table)]
    found = found[~np.isnan(found)]
    band = options.get("band", 0.2)
    clipped = (found < np.log(max(1 - band, 1e-12))) | (found > np.log1p(band))
    known = len(found) / max(int(written_tokens(table).sum()), 1)
    mean, share = (float(each.mean()) if len(found) else 0.0 for each in (found, clipped))
    return {"gap": mean, "gap_known": known, "gap_clipped": share}


METHODS = (
    Method(
        "rlsd",
        rlsd,
        "GRPO, each token weighted by how much the policy agrees once it reads a context.",
        options=PENALTY,
        scored="token",
        argument="gaps",
        figures=figures,
        scorer="privileged",
        space={"lam": (0.5, 1.0)},
        colour="#8C564B",
        unmeasured=ASKS_POLICY,
    ),
)
