"""Numbers that a model gave to the steps of a table, where nan says that it gave none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats
from wrappers.credit.options import LARGEST


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
