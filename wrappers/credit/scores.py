"""Numbers that a model gave to the steps of a table or the tokens of their replies; nan says that it gave none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.options import LARGEST
from wrappers.credit.token_gae import checked_flags


def step_scores(name: str, values: ArrayLike, length: int) -> Floats:
    """Return an argument that holds one number per row, or nan, as float64 (length,).

    Args:
        name: of the argument, for the message of an error.
        values: what the caller gave.
        length: how many numbers are expected.

    Raises:
        ValueError: when there are more or fewer numbers, something else than numbers, or one that is infinite or
            beyond `LARGEST`.

    >>> step_scores("contributions", [1, None], 2)
    array([ 1., nan])
    """
    expected = f"{name} must hold one number per row, nan where it is not scored, shape ({length},)"
    try:
        scores = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} ({error})") from error
    if scores.shape != (length,):
        raise ValueError(f"{expected}, got shape {scores.shape}")
    bad = np.abs(scores) > LARGEST
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{expected}; row {row} has {scores[row]}, beyond {LARGEST:g}")
    return scores


def reply_tokens(mask: ArrayLike, length: int | None = None) -> Bools:
    """Return an argument `mask`, True = a token of the row's reply, as bool (length, K).

    Raises:
        ValueError: when it is not of that shape, or holds something else than True and False.
    """
    expected = f"mask must be of shape ({'N' if length is None else length}, K), a row per step"
    try:
        given = np.asarray(mask)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{expected} ({error})") from error
    if given.ndim != 2 or length not in (None, len(given)):
        raise ValueError(f"{expected}, got shape {given.shape}")
    return checked_flags("mask", given, given.shape)


def token_scores(name: str, values: ArrayLike, mask: Bools) -> Floats:
    """Return an argument that holds one number per reply token, or nan, as float64 (N, K), 0 outside the mask.

    Args:
        name: of the argument, for the message of an error.
        values: what the caller gave; anything outside the mask.
        mask: bool (N, K), True = a token of the reply.

    Raises:
        ValueError: when it is not of the mask's shape, or holds something else than numbers, or inside the mask one
            that is infinite or beyond `LARGEST`.

    >>> token_scores("scores", [[0.5, 9]], np.array([[True, False]]))
    array([[0.5, 0. ]])
    """
    expected = f"{name} must be of the mask's shape {mask.shape}"
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected} ({error})") from error
    if given.shape != mask.shape:
        raise ValueError(f"{expected}, got {given.shape}")
    inside = np.where(mask, given, 0.0)
    bad = np.abs(inside) > LARGEST
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite inside the mask; "
            f"token {column} of row {row} has {inside[row, column]}, beyond {LARGEST:g}"
        )
    return inside


def reply_lengths(table: StepTable) -> Ints:
    """Return int64 (N,): how many tokens each row's reply has.

    Raises:
        ValueError: the table holds no replies, or a row's reply no tokens.
    """
    if table.replies is None:
        raise ValueError("the table holds no replies; collect it with a policy that returns token ids")
    lengths = np.array([0 if reply is None else len(reply.token_ids) for reply in table.replies], np.int64)
    if not lengths.all():
        row = int(np.argmin(lengths))
        raise ValueError(f"row {row} has no reply tokens; only a policy that returns token ids can be trained")
    return lengths
