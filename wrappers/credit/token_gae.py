"""Generalised advantage estimation over the tokens of whole trajectories, with or without a turn level.

Arrays are those of `wrappers.credit.scores`, such as trajectories with the tokens of all turns concatenated.
"""

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats
from wrappers.credit.options import check_shares, finite_numbers
from wrappers.credit.scores import checked_arrays, checked_flags, checked_turns


def token_gae(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike, *, gamma: float = 1.0, lam: float = 0.95,
    last_values: ArrayLike | None = None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return advantages and returns of every token, with `delta_i = r_i + gamma V_{i+1} - V_i` over tokens.

    Args:
        rewards: float (n, L), 0 where masked.
        values: float (n, L), V before each token; not read where masked.
        mask: bool (n, L), True = a token of the policy.
        gamma: discount per token, in 0..1.
        lam: weight of longer horizons, in 0..1.
        last_values: float (n,), V after the last token of sequences that did not end there; default 0.

    Returns:
        advantages and returns (advantages + values), float64 (n, L), 0 where masked; not whitened.

    Raises:
        ValueError: shapes differ, a number is not finite, a masked token is rewarded, or gamma or lam out of range.

    >>> token_gae([[0, 9, 1]], [[0.5, 9, 0.8]], [[1, 0, 1]], lam=0.5)
    Traceback (most recent call last):
        ...
    ValueError: rewards[0, 1] = 9.0 is on a masked token, where it would be lost: put it on the reply's last token
    >>> advantages, returns = token_gae([[0, 0, 1]], [[0.5, 9, 0.8]], [[1, 0, 1]], lam=0.5)
    >>> advantages, returns  # 1 - 0.8; 0.8 - 0.5 + 0.5 * 0.2
    (array([[0.4, 0. , 0.2]]), array([[0.9, 0. , 1. ]]))
    """
    reward, value, kept = checked_arrays(rewards, values, mask)
    check_shares(gamma=gamma, lam=lam)
    ahead = _behind(last_values, len(reward))
    carry = np.zeros(len(reward))
    advantages = np.zeros(reward.shape)
    for column in range(reward.shape[1] - 1, -1, -1):
        on, now = kept[:, column], value[:, column]
        carry = np.where(on, reward[:, column] + gamma * ahead - now + gamma * lam * carry, carry)
        ahead = np.where(on, now, ahead)
        advantages[:, column] = np.where(on, carry, 0.0)
    return advantages, np.where(kept, advantages + value, 0.0)


def bi_level_gae(
    rewards: ArrayLike, values: ArrayLike, mask: ArrayLike, turn_ends: ArrayLike, *, gamma: float = 1.0,
    lam: float = 0.95, turn_gamma: float = 0.95, last_values: ArrayLike | None = None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return advantages and returns of every token, estimated over turns, then inside each turn.

    With k_1, ..., k_m the last tokens of a sequence's turns,

        delta_j = r_{k_j} + turn_gamma V_{k_{j+1}} - V_{k_j}        A_j = delta_j + turn_gamma lam A_{j+1}

    and inside turn j the recursion of `token_gae`, with the turn's return `A_j + V_{k_j}` as reward of its last token
    and nothing after it. Arguments and results as `token_gae`, except:

    Args:
        rewards: float (n, L), of whole turns, each at its turn's last token; may be 0.
        turn_ends: bool (n, L), True = the last token of a turn; the last token of a sequence must be one.
        gamma: discount per token inside a turn, in 0..1.
        lam: weight of longer horizons at both levels, in 0..1.
        turn_gamma: discount per turn, in 0..1.
        last_values: float (n,), V after the last turn of sequences that did not end there; default 0.

    Raises:
        ValueError: as `token_gae`, or a turn end on a masked token, tokens after the last turn end, or a reward
            elsewhere than at a turn end.

    >>> advantages, _ = bi_level_gae([[0, 0, 1]], [[0.5, 0.6, 0.8]], [[1, 1, 1]], [[0, 1, 1]], turn_gamma=1.0, lam=0.5)
    >>> advantages  # turns: 1 - 0.8 and 0.8 - 0.6 + 0.5 * 0.2; first token: 0.6 - 0.5 + 0.5 * 0.3
    array([[0.25, 0.3 , 0.2 ]])
    """
    reward, value, kept = checked_arrays(rewards, values, mask)
    check_shares(gamma=gamma, lam=lam, turn_gamma=turn_gamma)
    ends = checked_flags("turn_ends", turn_ends, kept.shape)
    checked_turns(reward, kept, ends)
    turn_ahead = _behind(last_values, len(reward))
    turn_carry, ahead, carry = np.zeros(len(reward)), np.zeros(len(reward)), np.zeros(len(reward))
    advantages = np.zeros(reward.shape)
    for column in range(reward.shape[1] - 1, -1, -1):
        on, end, now = kept[:, column], ends[:, column], value[:, column]
        turn = reward[:, column] + turn_gamma * turn_ahead - now + turn_gamma * lam * turn_carry
        turn_carry, turn_ahead = np.where(end, turn, turn_carry), np.where(end, now, turn_ahead)
        # Rewarded with A_j + V and followed by nothing, a turn's last token has the advantage A_j again.
        inside = np.where(end, turn, gamma * ahead - now + gamma * lam * carry)
        carry, ahead = np.where(on, inside, carry), np.where(on, now, ahead)
        advantages[:, column] = np.where(on, carry, 0.0)
    return advantages, np.where(kept, advantages + value, 0.0)


def _behind(last_values: ArrayLike | None, n: int) -> Floats:
    return np.zeros(n) if last_values is None else finite_numbers("last_values", last_values, n, "sequence")
