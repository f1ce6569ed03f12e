"""Checks of scores of steps and tokens (nan: not scored), whitening, and entropies of replies.

Token arrays have shape (n, L): n sequences of at most L tokens. The mask is True at tokens of the policy; others
(observations, padding) are skipped.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym.checks import LARGEST
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.group import ranges, whitened
from wrappers.credit.options import numbers_of


def step_scores(name: str, values: ArrayLike, length: int) -> Floats:
    """Return an argument with one number per row, or nan, as float64 (length,); `name` is used in errors.

    Raises:
        ValueError: on another length, values that are not numbers, infinite, or beyond `LARGEST`.
    """
    expected = f"{name} must hold one number per row, nan where it is not scored, shape ({length},)"
    scores = numbers_of(values, (length,), expected)
    bad = np.abs(scores) > LARGEST
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{expected}; row {row} has {scores[row]}, beyond {LARGEST:g}")
    return scores


def reply_tokens(mask: ArrayLike, length: int | None = None) -> Bools:
    """Return an argument `mask`, True = a token of the row's reply, as bool (length, K).

    Raises:
        ValueError: on another shape or values that are not True or False.
    """
    expected = f"mask must be of shape ({'N' if length is None else length}, K), a row per step"
    try:
        given = np.asarray(mask)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{expected} ({error})") from error
    if given.ndim != 2 or length not in (None, len(given)):
        raise ValueError(f"{expected}, got shape {given.shape}")
    return checked_flags("mask", given, given.shape)


def written_tokens(table: StepTable) -> Bools:
    """Return bool (N, K), True = a token of the row's reply, K tokens of the longest; errors as `reply_lengths`."""
    lengths = reply_lengths(table)
    written: Bools = np.arange(lengths.max(initial=1)) < lengths[:, None]
    return written


def token_scores(name: str, values: ArrayLike, mask: Bools) -> Floats:
    """Return an argument with one number per reply token, or nan, as float64 (N, K), 0 outside the mask (bool (N, K)).

    Raises:
        ValueError: on another shape, values that are not numbers, or inside the mask infinite or beyond `LARGEST`.
    """
    inside = np.where(mask, numbers_of(values, mask.shape, f"{name} must be of the mask's shape {mask.shape}"), 0.0)
    bad = np.abs(inside) > LARGEST
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite inside the mask; "
            f"token {column} of row {row} has {inside[row, column]}, beyond {LARGEST:g}"
        )
    return inside


def reply_lengths(table: StepTable) -> Ints:
    """Return int64 (N,): the number of tokens of each row's reply; ValueError without replies or tokens."""
    if table.replies is None:
        raise ValueError("the table holds no replies; collect it with a policy that returns token ids")
    lengths = np.array([0 if reply is None else len(reply.token_ids) for reply in table.replies], np.int64)
    if not lengths.all():
        row = int(np.argmin(lengths))
        raise ValueError(f"row {row} has no reply tokens; only a policy that returns token ids can be trained")
    return lengths


def reply_entropies(table: StepTable) -> Floats:
    """Estimate each reply's mean token entropy from its log-probabilities: float64 (N,), nats; nan without them.

    H_t = -mean_j log p(y_j)

    over the tokens of reply t. The estimate of the entropy of the sampling distribution (at the rollout's temperature)
    is unbiased, and noisier for short replies; a forced token counts 0. `policies.scoring` has exact entropies at the
    cost of a forward pass.
    """
    replies = [None] * len(table) if table.replies is None else table.replies
    found = [-float(np.mean(reply.logprobs)) if reply and reply.logprobs else np.nan for reply in replies]
    return np.array(found, np.float64)


def known_entropies(table: StepTable, entropies: ArrayLike | None) -> Floats:
    """Return the given entropies, or estimates: float64 (N,), nan: unknown.

    Raises:
        ValueError: when none are given and no reply has log-probabilities, or they are not one finite number per row.
    """
    if entropies is not None:
        return step_scores("entropies", entropies, len(table))
    found = reply_entropies(table)
    if len(found) and np.isnan(found).all():
        raise ValueError(
            "no reply of the table has log-probabilities: play with a policy that gives them "
            "(`policies.huggingface`), or give one number per row as `entropies`"
        )
    return found


def min_max(values: Floats, groups: Ints, n_groups: int, eps: float) -> tuple[Floats, Floats, Bools]:
    """Scale known values to 0..1 within their group, `(v - min) / (max - min + eps)`; nan: unknown.

    Returns float64 (N,), 0 where unknown; float64 (n_groups,), max - min; bool (N,), known.
    """
    known = ~np.isnan(values)
    low, high = ranges(values[known], groups[known], n_groups)
    some = low <= high
    least, width = np.where(some, low, 0.0), np.zeros(n_groups)
    width[some] = high[some] - low[some]
    scale = np.where(width + eps > 0, width + eps, 1.0)
    return np.where(known, (np.nan_to_num(values) - least[groups]) / scale[groups], 0.0), width, known


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
