"""Which texts count as one state: vectors of words, and the published rule of similar strings."""

from __future__ import annotations

import re
import zlib
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

#: Dimensions of `bag_of_words`.
_BUCKETS = 1024
#: Similarity from which on texts are one state, as published.
THRESHOLD = 0.9


def bag_of_words(states: Sequence[Hashable]) -> NDArray[np.float64]:
    """Return one vector of word counts per text, shape (n, 1024); needs no model.

    >>> vectors = bag_of_words(["Ada wrote notes.", "notes Ada wrote", "boats"])
    >>> bool((vectors[0] == vectors[1]).all()), float(vectors[0] @ vectors[2])
    (True, 0.0)
    """
    vectors = np.zeros((len(states), _BUCKETS))
    for row, state in zip(vectors, states, strict=True):
        for word in re.findall(r"\w+", str(state).lower()) or ["nothing"]:
            row[zlib.crc32(word.encode()) % _BUCKETS] += 1
    return vectors


def leaders_by_difflib(states: Sequence[Hashable], threshold: float = THRESHOLD) -> list[Hashable]:
    """Return for each text the first earlier one that is as similar by difflib's ratio, as the published code does.

    >>> leaders_by_difflib(["a red door", "a red doors", "a pit"])
    ['a red door', 'a red door', 'a pit']
    """
    leaders: list[str] = []
    named: list[Hashable] = []
    for state in states:
        text = str(state)
        near = (each for each in leaders if _similar(each, text, threshold))
        leader = next(near, None)
        if leader is None:
            leaders.append(leader := text)
        named.append(leader)
    return named


def _similar(one: str, other: str, threshold: float) -> bool:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return (
        matcher.real_quick_ratio() >= threshold
        and matcher.quick_ratio() >= threshold
        and matcher.ratio() >= threshold
    )  # fmt: skip
