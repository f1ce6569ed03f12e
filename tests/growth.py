"""How processor time grows with the length of an input, for everything that reads text from outside."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
#: Less than this is noise, in seconds.
_NOISE = 2e-4


def growth(work: Callable[[T], object], small: T, large: T, repeats: int = 3) -> float:
    """Return how many times longer `work` takes for `large` than for `small`: processor time, best of several."""

    def took(value: T) -> float:
        times = []
        for _ in range(repeats):
            begin = time.process_time()
            work(value)
            times.append(time.process_time() - begin)
        return min(times)

    return took(large) / max(took(small), _NOISE)
