"""Choices made with uniform random numbers, for the generators of tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")
#: Random numbers drawn at a time.
_NUMBERS = 64


class Draws:
    """Choices made with given numbers, in order.

    Args:
        uniform: numbers from 0 to below 1; each choice takes one.
    """

    def __init__(self, uniform: Iterable[float]) -> None:
        self._next: Iterator[float] = iter(uniform)

    @classmethod
    def seeded(cls, *seed: int) -> Draws:
        """Return choices without end, made with the numbers of a seed."""
        rng = np.random.default_rng(seed)
        return cls(number for _ in itertools.count() for number in rng.random(_NUMBERS).tolist())

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a number in low..high."""
        return low + (high - low) * next(self._next)

    def below(self, count: int) -> int:
        """Return a whole number in 0..count - 1."""
        return int(next(self._next) * count)

    def pick(self, values: Sequence[_T]) -> _T:
        """Return one of the values."""
        return values[int(next(self._next) * len(values))]

    def sample(self, values: Sequence[_T], count: int) -> list[_T]:
        """Return `count` of the values in random order."""
        left = list(values)
        return [left.pop(int(next(self._next) * len(left))) for _ in range(count)]
