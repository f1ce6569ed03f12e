"""Generalised advantage estimation over the tokens of whole trajectories, with or without a turn level.

Arrays have shape (n, L): n sequences of at most L tokens, such as trajectories with the tokens of all turns
concatenated. The mask is True at tokens of the policy; others (observations, padding) are skipped.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import LARGEST
from agentgym.trajectory import Bools, Floats
from wrappers.credit.group import whitened
from wrappers.credit.options import check_shares, finite_numbers


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


def whiten(values: ArrayLike, mask: ArrayLike | None = None) -> Floats:
    """Scale to mean 0 and sample variance 1 over all unmasked entries: `(x - mean) / sqrt(variance + 1e-8)`.

    Published trainers do this to the advantages of every batch. Over tokens, long replies weigh more.

    Args:
        values: float, any shape; not read where masked.
        mask: bool, the same shape, True = takes part; default: not nan.

    Returns:
        float64 of the same shape; 0 where masked (nan where the value is nan) and without contrast.

    >>> whiten([1.0, 2.0, 6.0], [True, False, True]).round(4)
    array([-0.7071,  0.    ,  0.7071])
    """
    array = np.asarray(values, np.float64)
    kept = ~np.isnan(array) if mask is None else checked_flags("mask", mask, array.shape)
    result = np.where(kept, 0.0, np.where(np.isnan(array), np.nan, 0.0))
    result[kept] = whitened(array[kept])
    return result


def checked_arrays(rewards: ArrayLike, values: ArrayLike, mask: ArrayLike) -> tuple[Floats, Floats, Bools]:
    """Return rewards, values (0 where masked) and mask as arrays of one shape (n, L).

    Raises:
        ValueError: on other shapes, a number that is not finite, or a reward on a masked token.
    """
    reward = np.asarray(rewards, np.float64)
    if reward.ndim != 2:
        raise ValueError(f"rewards must have shape (sequences, tokens), got shape {reward.shape}")
    kept = checked_flags("mask", mask, reward.shape)
    value = np.asarray(values, np.float64)
    if value.shape != reward.shape:
        raise ValueError(f"values must have the shape of rewards, {reward.shape}, got {value.shape}")
    value = np.where(kept, value, 0.0)
    for name, array in (("rewards", reward), ("values", value)):
        good = np.abs(array) <= LARGEST
        if not good.all():
            raise ValueError(f"{name}{_first(~good)} is not finite (within +-{LARGEST:g}): {array[~good][0]}")
    lost = (reward != 0) & ~kept
    if lost.any():
        where = _first(lost)
        raise ValueError(
            f"rewards{where} = {reward[lost][0]} is on a masked token, where it would be lost: "
            "put it on the reply's last token"
        )
    return reward, value, kept


def checked_turns(reward: Floats, kept: Bools, ends: Bools) -> None:
    """Raise ValueError unless every token of the policy belongs to a turn that ends, and rewards are at ends."""
    if (ends & ~kept).any():
        raise ValueError(f"turn_ends{_first(ends & ~kept)} is a masked token; mark the last token of the reply")
    # The number of turn ends from here on: 0 at a token of the policy means that its turn never ends.
    open_turns = kept & (np.cumsum(ends[:, ::-1], axis=1)[:, ::-1] == 0)
    if open_turns.any():
        raise ValueError(f"the token {_first(open_turns)} belongs to a turn without an end; mark its last token")
    stray = (reward != 0) & ~ends
    if stray.any():
        raise ValueError(
            f"rewards{_first(stray)} = {reward[stray][0]} is inside a turn; put it on the turn's last token"
        )


def checked_flags(name: str, flags: ArrayLike, shape: tuple[int, ...]) -> Bools:
    """Return an argument as bool of this shape; ValueError on another shape or other values."""
    array = np.asarray(flags)
    if array.shape != shape:
        raise ValueError(f"{name} must have the shape of the numbers, {shape}, got {array.shape}")
    booleans: NDArray[np.bool_] = array.astype(np.bool_)
    if (booleans != array).any():
        raise ValueError(f"{name} must hold True and False, got {array[booleans != array][0]}")
    return booleans


def _behind(last_values: ArrayLike | None, n: int) -> Floats:
    return np.zeros(n) if last_values is None else finite_numbers("last_values", last_values, n, "sequence")


def _first(flags: Bools) -> list[int]:
    return [int(i) for i in np.argwhere(flags)[0]]
