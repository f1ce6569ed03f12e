"""VETTA: a turn's advantage for all its tokens, plus each token's deviation from the turn's mean.

A^turn_k = r_k + turn_gamma V_{k+1} - V_k + turn_gamma turn_lam A^turn_{k+1}          V_k before the turn is written
A_kj     = A^turn_k + alpha (A^tok_kj - mean_j A^tok_kj)                              A^tok: GAE over tokens

The mean over a turn's tokens is the turn's advantage. Source: the VETTA paper (Eqs. 2-7); see docs/credit/gae.md.
"""

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import LARGEST
from agentgym.trajectory import Floats
from wrappers.credit.gae import METHOD as LEARNED
from wrappers.credit.group import group_means
from wrappers.credit.method import PENALTY, Method
from wrappers.credit.options import check_shares
from wrappers.credit.scores import checked_arrays, checked_flags, checked_turns


def vetta(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike, turn_ends: ArrayLike, *,
    turn_values: ArrayLike | None = None, alpha: float = 1 / 3, gamma: float = 1.0, lam: float = 1.0,
    turn_gamma: float = 0.95, turn_lam: float = 0.95,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Return advantages of every token, and the targets of token values and turn values.

    Args:
        rewards: float (n, L), of whole turns, each at its turn's last token.
        values: float (n, L), V before each token; not read where masked.
        mask: bool (n, L), True = a token of the policy.
        turn_ends: bool (n, L), True = the last token of a turn; the last token of a sequence must be one.
        turn_values: float (n, L), of a separate head, read at the first token of each turn. None: `values`;
            `turn_gamma` is then the discount between turns at both levels, so that one head can learn both.
        alpha: weight of the differences between a turn's tokens, at least 0.
        gamma: discount per token, in 0..1.
        lam: weight of longer horizons over tokens, in 0..1.
        turn_gamma: discount per turn, in 0..1.
        turn_lam: weight of longer horizons over turns, in 0..1.

    Returns:
        float64 (n, L) each: advantages, 0 where masked, not whitened; returns of tokens, 0 where masked; returns of
        turns, at the first token of each turn, else 0.

    Raises:
        ValueError: as `wrappers.credit.bi_level_gae`, or alpha below 0.

    >>> found = vetta([[0, 0, 1]], [[0.5, 0.6, 0.8]], [[1, 1, 1]], [[0, 1, 1]], alpha=0.5, turn_gamma=1.0, turn_lam=0.5)
    >>> found[0]  # turns: 1 - 0.8; 0.8 - 0.5 + 0.5 * 0.2. Tokens: 1 - .5 and 1 - .6, .05 about their mean
    array([[0.425, 0.375, 0.2  ]])
    """
    reward, value, kept = checked_arrays(rewards, values, mask)
    check_shares(gamma=gamma, lam=lam, turn_gamma=turn_gamma, turn_lam=turn_lam)
    if not 0 <= alpha <= LARGEST:
        raise ValueError(f"alpha must be finite and at least 0, got {alpha!r}")
    ends = checked_flags("turn_ends", turn_ends, kept.shape)
    checked_turns(reward, kept, ends)
    whole = value if turn_values is None else checked_arrays(rewards, turn_values, mask)[1]
    # Every token's turn: how many turns of its row ended before it.
    turn = np.cumsum(ends, axis=1) - ends + (kept.shape[1] + 1) * np.arange(len(kept))[:, None]
    starts = np.zeros_like(kept)
    starts[kept] = np.diff(turn[kept], prepend=-1) != 0
    per_turn = np.zeros((kept.shape[1] + 1) * len(kept))
    tokens, turn_returns = np.zeros(kept.shape), np.zeros(kept.shape)
    zeros = np.zeros(len(kept))
    carry, ahead, turn_carry, turn_ahead, pending = zeros, zeros, zeros, zeros, zeros
    for column in range(kept.shape[1] - 1, -1, -1):
        on, end, now = kept[:, column], ends[:, column], value[:, column]
        discount = np.where(end & (turn_values is None), turn_gamma, gamma)
        delta = reward[:, column] + discount * ahead - now
        carry, ahead = np.where(on, delta + discount * lam * carry, carry), np.where(on, now, ahead)
        tokens[:, column] = np.where(on, carry, 0.0)
        pending = np.where(end, reward[:, column] + turn_gamma * (turn_ahead + turn_lam * turn_carry), pending)
        begins, before = starts[:, column], whole[:, column]
        turn_carry = np.where(begins, pending - before, turn_carry)
        turn_ahead = np.where(begins, before, turn_ahead)
        turn_returns[:, column] = np.where(begins, pending, 0.0)
        per_turn[turn[begins, column]] = turn_carry[begins]
    means = group_means(tokens[kept], turn[kept], len(per_turn))
    advantages = np.where(kept, per_turn[turn] + alpha * (tokens - means[turn]), 0.0)
    return advantages, np.where(kept, tokens + value, 0.0), turn_returns


METHOD = Method(
    LEARNED.function,
    "Advantages over turns with a learned critic, plus a third of each token's deviation from its turn's mean.",
    name="vetta", options={"level": "residual", "gamma": 0.95, "lam": 0.95, **PENALTY}, scored="token",
    scorer="critic", settings={"level": "token"}, unmeasured="needs a critic",
)  # fmt: skip
