"""Checks of scores of steps and reply tokens (nan: not scored), and entropies of replies."""

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import LARGEST
from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.group import ranges
from wrappers.credit.options import numbers_of
from wrappers.credit.tokens import checked_flags


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
