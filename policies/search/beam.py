"""Beam search: the most promising states of each step are played on from, side by side.

At every step each state of the beam is answered `samples` times, what that leads to is judged, and the `width` best new
states are the next beam: TSR (2602.11767) trains on such rollouts. Width 1 is a greedy search with look-ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.search.budget import Budget
from policies.search.tree import Node, Simulation, Tree
from policies.search.value import Value


@dataclass(frozen=True)
class Beam:
    """Beam search; see the module.

    Attributes:
        width: states that are played on from.
        samples: replies that are asked for in each of them, or taken from those that are listed, most probable first.
        merge: leave out states that were met before.

    Raises:
        ValueError: a number is below 1.
    """

    width: int = 4
    samples: int = 4
    merge: bool = True

    def __post_init__(self) -> None:
        if self.width < 1 or self.samples < 1:
            raise ValueError(
                f"a beam needs a width and samples of at least 1, got width={self.width}, samples={self.samples}"
            )

    def tree(self, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> Tree:
        """Return the search of one episode."""
        return _Tree(self, root, task, value, budget, rng)


class _Tree(Tree):
    def __init__(
        self, method: Beam, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator
    ) -> None:
        super().__init__(root, task, value, budget, rng, merge=method.merge)
        self._method = method
        self._beam = [] if root.closed else [root]

    def next(self) -> Simulation | None:
        while self._beam:
            for node in self._beam:
                if node.asked < self._method.samples and (node.untried is None or node.untried):
                    node.asked += 1
                    if node.untried is None:
                        return self.simulate(node, grow=True)
                    return self.simulate(node, *node.untried.pop(), grow=True)
            if self.root.pending:
                return None
            following = [child for node in self._beam for child in node.children if not child.closed]
            following.sort(key=self._through, reverse=True)  # stable: of equal ones the first
            self._beam = following[: self._method.width]
        return None

    def _through(self, node: Node) -> float:
        """Return what an episode through a state returns, from the root on."""
        gain = node.value
        while node.parent is not None:
            gain, node = self.gain(node, gain), node.parent
        return gain
