"""Disjoint splits of the goals."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from agentgym.core import suggest
from agentgym.webshop.goals import ORDER_SEED

#: All goals in the original's order, and three splits that share none.
SPLITS = ("all", "train", "validation", "test")
#: What has to differ between splits.
DISJOINT = ("goal", "product")
_TEST, _VALIDATION = 500, 1000


def check_split(split: object) -> str:
    """Return the split's name, or raise a ValueError that lists those there are."""
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    return str(split)


def check_disjoint(by: object) -> str:
    """Return what splits are disjoint by, or raise a ValueError that lists what there is."""
    if by not in DISJOINT:
        raise ValueError(f"split_by must be one of {', '.join(map(repr, DISJOINT))}, got {by!r}")
    return str(by)


def split_goals(products: NDArray[np.int32], by: str) -> dict[str, NDArray[np.int64]]:
    """Return the indices of each split's goals, ascending.

    By goal, as in the original: the first 500 are the test split, the next 1,000 validation, all others train; of less
    than 5,000 goals, the first tenth and the next fifth. The same product is then wished for in several splits. By
    product, a tenth of the products is tested on and a fifth is for validation, drawn once for all.

    Args:
        products: position of each goal's product, in the original's order; shape (goals,).
        by: one of `DISJOINT`.

    >>> {name: len(found) for name, found in split_goals(np.arange(6910, dtype=np.int32), "goal").items()}
    {'all': 6910, 'train': 5410, 'validation': 1000, 'test': 500}
    """
    count = len(products)
    if by == "goal":
        ranks = np.arange(count)
        test, validation = min(_TEST, count // 10), min(_VALIDATION, count // 5)
    else:
        known = np.unique(products)
        order = list(range(len(known)))
        random.Random(ORDER_SEED).shuffle(order)
        ranks = np.array(order, np.int64)[np.searchsorted(known, products)]
        test, validation = len(known) // 10, len(known) // 5
    bounds = {"train": (test + validation, len(ranks) + 1), "validation": (test, test + validation), "test": (0, test)}
    found = {name: np.flatnonzero((low <= ranks) & (ranks < high)) for name, (low, high) in bounds.items()}
    return {"all": np.arange(count), **found}
