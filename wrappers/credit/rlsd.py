"""RLSD and SERL: an informed teacher's agreement with each token is a bounded weight on the outcome's advantage.

    g = log p(token | context, prompt) - log p(token | prompt)          the same weights, with and without the context
    w = clip(exp(sign(A) g), 1 - band, 1 + band)      A_token = A ((1 - lam) + lam w)

The sign is the outcome's: an advantage of 0 stays 0, and none changes by more than lam band |A|. SERL weights only the
tokens of the command (the scorer's `tokens="action"`).

Source: RLSD 2604.03128, in the form of four ports; SERL 2605.19447 and its release. See docs/credit/privileged.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.method import ASKS_POLICY, Method
from wrappers.credit.options import StatisticsOptions, credit, option
from wrappers.credit.returns import given_or_episode_level, penalties
from wrappers.credit.scores import reply_tokens, token_scores, written_tokens


class FadeOptions(StatisticsOptions, total=False):
    """Strength of a weight, and its decay."""

    lam: Annotated[float, option(0.5, "share of the advantage that is weighted, at the first update", low=0, high=1)]
    fade: Annotated[int, option(50, "updates in which lam falls linearly to 0; 0: it stays", authors=100, low=0)]
    update: Annotated[int, option(0, "number of finished updates; a trainer sets it", low=0)]


class RLSDOptions(FadeOptions, total=False):
    """Options of `rlsd`."""

    band: Annotated[float, option(0.2, "largest difference of a weight from 1", low=0, high=1)]


@credit(RLSDOptions)
def rlsd(
    table: StepTable, *, gaps: ArrayLike, advantages: ArrayLike | None = None, mask: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[RLSDOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every reply token.

    Args:
        gaps: float (N, K), g of the tokens of each row's reply; nan: no weight, the token keeps the row's advantage;
            not read where masked.
        advantages: float (N,), of another method; None: the group's.
        mask: bool (N, K), True = a token of the reply; None: by the table's replies.

    Returns:
        float64 (N, K), 0 where masked.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s"] * 2,
    ...     action=["right", "left"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
    >>> rlsd(table, gaps=[[0.1, -3.0], [-3.0, 0.0]], mask=[[1, 1], [1, 0]], std="none", lam=1.0).round(3)
    array([[ 0.553,  0.4  ],
           [-0.6  ,  0.   ]])
    """
    kept, gap, level, lam = shared(table, "gaps", gaps, advantages, mask, options)
    likelier = np.exp(np.sign(level) * np.clip(np.nan_to_num(gap), -20.0, 20.0))
    w = np.clip(likelier, 1 - options["band"], 1 + options["band"])
    return np.where(kept, level * ((1 - lam) + lam * w) - penalties(table, options, "advantage")[:, None], 0.0)


def shared(
    table: StepTable, name: str, scores: ArrayLike, advantages: ArrayLike | None, mask: ArrayLike | None, options: Any
) -> tuple[Bools, Floats, Floats, float]:
    """Return the mask (N, K), scores (N, K), advantages (N, 1), and lam after the finished updates."""
    kept = written_tokens(table) if mask is None else reply_tokens(mask, len(table))
    level = given_or_episode_level(table, advantages, options)
    lam = faded(options["lam"], options["fade"], options["update"])
    return kept, token_scores(name, scores, kept), level[:, None], lam


def faded(lam: float, fade: int, update: int) -> float:
    """Return `lam` after so many updates; it falls linearly to 0 in `fade` of them, 0: it stays.

    >>> [faded(0.5, 50, update) for update in (0, 10, 80)], faded(0.5, 0, 80)
    ([0.5, 0.4, 0.0], 0.5)
    """
    return lam * max(0.0, 1.0 - update / fade) if fade else lam


def known(table: StepTable, gaps: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    """Return for the log: mean score, and share of tokens with one."""
    found = gaps[written_tokens(table)]
    scored = ~np.isnan(found)
    share = float(scored.sum() / max(len(found), 1))
    return {"gap": float(found[scored].mean()) if scored.any() else 0.0, "gap_known": share}


def figures(table: StepTable, gaps: Floats, options: Mapping[str, Any]) -> dict[str, float]:
    """Return the same, and the share of scored tokens that the band clips."""
    found, band = gaps[written_tokens(table) & ~np.isnan(gaps)], options.get("band", 0.2)
    clipped = (found < np.log(max(1 - band, 1e-12))) | (found > np.log1p(band))
    return known(table, gaps, options) | {"gap_clipped": float(clipped.mean()) if len(found) else 0.0}


METHOD = Method(
    rlsd, "Group advantages, each token weighted by its likelihood ratio with and without a context in the prompt.",
    scored="token", argument="gaps", figures=figures, scorer="privileged",
    space={"lam": (0.5, 1.0)}, colour="#8C564B", unmeasured=ASKS_POLICY,
)  # fmt: skip
