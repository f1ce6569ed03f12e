"""Whole attempts from one state, of which the best is played."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.search.budget import Budget
from policies.search.tree import Node, Simulation, Tree
from policies.search.value import Value


@dataclass(frozen=True)
class BestOfN:
    """The policy plays `n` episodes to their end, and the best one is kept.

    Attributes:
        n: attempts at most; the budget may allow fewer, and the last one may be cut short by it.

    Raises:
        ValueError: there is no attempt.
    """

    n: int = 16

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"best of n needs an n of at least 1, got {self.n}")

    def tree(self, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> Tree:
        """Return the search of one episode."""
        return _Tree(self.n, root, task, value, budget, rng)


class _Tree(Tree):
    def __init__(self, n: int, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> None:
        super().__init__(root, task, value, budget, rng, merge=False)
        self._left = n

    def next(self) -> Simulation | None:
        if self.root.closed or not self._left:
            return None
        self._left -= 1
        return self.simulate(self.root, grow=False)
