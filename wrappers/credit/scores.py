"""Numbers that models give to steps and reply tokens (nan: none), and how unsure the policy was of its replies."""

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


def written_tokens(table: StepTable) -> Bools:
    """Return bool (N, K), True = a token of the row's reply, K tokens of the longest; errors as `reply_lengths`."""
    lengths = reply_lengths(table)
    written: Bools = np.arange(lengths.max(initial=1)) < lengths[:, None]
    return written


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


def reply_entropies(table: StepTable) -> Floats:
    """Estimate the mean token entropy of every reply from the log-probabilities of the tokens that were drawn.

    H_t = -mean_j log p(y_j)      over the tokens of reply t, natural logarithm

    Under the distribution that a token was drawn from, -log p of it is on average that distribution's entropy: the
    estimate is unbiased and noisy, least so for long replies. The distribution is the one that was sampled from, at the
    rollout's temperature; a token that was the only one allowed counts 0. `policies.scoring` has the exact entropies of
    the tokens, at the cost of a forward pass.

    Returns:
        float64 (N,), nats; nan where a reply has no log-probabilities.

    >>> from agentgym.trajectory import Reply
    >>> replies = [Reply("up", logprobs=(-0.5, -1.5)), Reply("up"), None]
    >>> table = StepTable.from_arrays(group=[0] * 3, trajectory=[0, 1, 2], t=[0] * 3, state=["s"] * 3,
    ...     action=["up"] * 3, next_state=["u"] * 3, reward=[0] * 3, won=[0] * 3, replies=replies)
    >>> reply_entropies(table)
    array([ 1., nan, nan])
    """
    replies = [None] * len(table) if table.replies is None else table.replies
    found = [-float(np.mean(reply.logprobs)) if reply and reply.logprobs else np.nan for reply in replies]
    return np.array(found, np.float64)


def known_entropies(table: StepTable, entropies: ArrayLike | None) -> Floats:
    """Return the entropies that a caller gave, or estimates of them: float64 (N,), nan where there is none.

    Raises:
        ValueError: when none were given and no reply has log-probabilities, or they are not one finite number per row.
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
    """Bring known values to 0..1 within their group, `(v - min) / (max - min + eps)`; nan: not known.

    Returns:
        float64 (N,), 0 where not known; float64 (n_groups,), max - min; bool (N,), known.
    """
    known = ~np.isnan(values)
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, groups[known], values[known])
    np.maximum.at(high, groups[known], values[known])
    some = low <= high
    least, width = np.where(some, low, 0.0), np.zeros(n_groups)
    width[some] = high[some] - low[some]
    scale = np.where(width + eps > 0, width + eps, 1.0)
    return np.where(known, (np.nan_to_num(values) - least[groups]) / scale[groups], 0.0), width, known
