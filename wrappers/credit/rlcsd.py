"""RLCSD: the outcome's advantage plus a reward for tokens that are likelier with a right context than with wrong ones.

    e = log p(token | right) - log mean_k p(token | wrong_k)             one right context, K wrong ones
    R = clip(beta lam tanh(e / tau), low, high)       chosen where |R| > delta
    A' = max(A + R, 0) if A > 0, min(A + R, 0) if A < 0, 0 if A = 0
    L = mean over the others of l(A) + eta mean over the chosen of l(A')          l: the clipped loss

The two means become weights of the tokens, N / number of each kind, so that the token mean of the ordinary loss is L.

Source: 2606.11709 and its release; prime-rl takes both means over each reply. See docs/credit/privileged.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, StepTable
from wrappers.credit.group import TOLERANCE
from wrappers.credit.method import ASKS_POLICY, Method
from wrappers.credit.options import credit, option, presets
from wrappers.credit.returns import penalties
from wrappers.credit.rlsd import FadeOptions, known, shared


class RLCSDOptions(FadeOptions, total=False):
    """Options of `rlcsd`."""

    tau: Annotated[float, option(0.02, "scale of a contrast; at .02 nearly only its sign has an effect", above=0)]
    beta: Annotated[float, option(1.0, "strength of R beside lam", low=0)]
    delta: Annotated[float, option(0.02, "tokens with a larger |R| are chosen", low=0)]
    eta: Annotated[float, option(1.0, "weight of the chosen tokens' mean", low=0)]
    low: Annotated[float, option(-2.0, "least R", high=0)]
    high: Annotated[float, option(2.0, "largest R", low=0)]
    means: Annotated[Literal["batch", "reply"], option(
        "batch", 'both means are over the "batch", or each "reply", where A = 0 counts as A > 0 (prime-rl)',
    )]  # fmt: skip


#: "soft" keeps how strong the evidence is: R is nearly linear in contrasts below 1.
PRESETS: dict[str, RLCSDOptions] = presets(
    RLCSDOptions, paper={"fade": 0}, soft={"fade": 0, "tau": 1.0}, prime={"fade": 0, "means": "reply"}
)


@credit(RLCSDOptions, **PRESETS)
def rlcsd(
    table: StepTable, *, contrasts: ArrayLike, advantages: ArrayLike | None = None, mask: ArrayLike | None = None,
    preset: str = "paper", **options: Unpack[RLCSDOptions],
) -> Floats:  # fmt: skip
    """Return the advantage of every reply token; a loss with the aggregation "token-mean" is the paper's.

    Args:
        contrasts: float (N, K), e of the tokens of each row's reply; nan: none, the token is not chosen.

    Returns:
        float64 (N, K), 0 where masked.

    >>> table = StepTable.from_arrays(group=["g"] * 2, trajectory=["a", "b"], t=[0, 0], state=["s"] * 2,
    ...     action=["right", "left"], next_state=["goal", "pit"], reward=[1, 0], won=[1, 0])
    >>> rlcsd(table, contrasts=[[1.0, 0.0], [1.0, 0.0]], mask=[[1, 1], [1, 1]], std="none")  # .5 + .5 and -.5 + .5
    array([[ 2.,  1.],
           [ 0., -1.]])
    """
    kept, contrast, level, lam = shared(table, "contrasts", contrasts, advantages, mask, options)
    with np.errstate(over="ignore"):  # tanh of infinity is 1
        tanh = np.tanh(np.nan_to_num(contrast) / options["tau"])
    pushed = np.clip(options["beta"] * lam * tanh, options["low"], options["high"])
    kept = kept & ~np.isnan(level)
    chosen = kept & (np.abs(pushed) > options["delta"])
    by_reply = options["means"] == "reply"
    raised, lowered = np.maximum(level + pushed, 0.0), np.minimum(level + pushed, 0.0)
    moved = np.where(level < -TOLERANCE, lowered, np.where((level > TOLERANCE) | by_reply, raised, 0.0))
    found = np.where(chosen, options["eta"] * moved * _share(kept, chosen, by_reply), level)
    found = np.where(chosen, found, found * _share(kept, kept & ~chosen, by_reply))
    found = found - penalties(table, options, "advantage")[:, None]
    return np.where(np.isnan(level), np.nan, np.where(kept, found, 0.0))


def contrasts_of(right: Floats, wrong: Floats) -> Floats:
    """Return `right - log mean_k exp(wrong_k)`, float64 (N, K), of `right` (N, K) and `wrong` (W, N, K); nan: none."""
    count = (~np.isnan(wrong)).sum(axis=0)
    total = np.logaddexp.reduce(np.where(np.isnan(wrong), -np.inf, wrong), axis=0)
    return np.where(count > 0, right - (total - np.log(np.maximum(count, 1))), np.nan)


def _share(kept: Bools, part: Bools, by_reply: bool) -> Floats:
    axis = 1 if by_reply else None
    share: Floats = kept.sum(axis=axis, keepdims=True) / np.maximum(part.sum(axis=axis, keepdims=True), 1)
    return share


METHOD = Method(
    rlcsd, "Group advantages, plus a reward for tokens that are likelier with a right context than with wrong ones.",
    scored="token", argument="contrasts", figures=known, scorer="privileged", settings={"contrast": True},
    space={"tau": (0.02, 1.0), "lam": (0.25, 0.5)}, colour="#E377C2", unmeasured=ASKS_POLICY,
)  # fmt: skip
