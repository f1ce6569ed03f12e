"""Arrays over the tokens of sequences: their checks, and whitening.

Arrays have shape (n, L): n sequences of at most L tokens. The mask is True at tokens of the policy; others
(observations, padding) are skipped.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import LARGEST
from agentgym.trajectory import Bools, Floats
from wrappers.credit.group import whitened


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


def _first(flags: Bools) -> list[int]:
    return [int(i) for i in np.argwhere(flags)[0]]
