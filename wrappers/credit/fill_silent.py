"""Credit of one method where another has nothing to say.

Credit by states compared is right where it speaks and silent elsewhere; learned credit speaks everywhere and is right
less often. So they are not added: the second is heard where the first is silent, below the first's scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Floats
from wrappers.credit.options import LARGEST
from wrappers.credit.scores import step_scores


def fill_silent(first: ArrayLike, second: ArrayLike, share: float = 0.01) -> Floats:
    """Return `first` where it is not exactly 0, elsewhere `share` times `second`.

    Args:
        first: float (N,), credit of the steps, such as `graphgpo`'s step level; nan counts as silent.
        second: float (N,), credit of the same steps, such as `attribution`'s; nan: nothing to say either, 0.
        share: what the second counts, at least 0. A small one leaves the order of what the first ranks.

    Raises:
        ValueError: when the lengths differ, a number is infinite, or share is below 0 or not finite.

    >>> fill_silent([2.0, 0.0, -1.0, 0.0], [9.0, 3.0, 9.0, float("nan")], 0.1)
    array([ 2. ,  0.3, -1. ,  0. ])
    """
    if not 0 <= share <= LARGEST:
        raise ValueError(f"share must be a number of at least 0, got {share!r}")
    length = len(np.atleast_1d(np.asarray(first, np.float64)))
    speaks = np.nan_to_num(step_scores("first", first, length))
    fills = np.nan_to_num(step_scores("second", second, length))
    return np.where(speaks == 0, share * fills, speaks)
