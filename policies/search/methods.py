"""Search methods: best of n, beam search and Monte-Carlo tree search over the replies of a policy.

**Beam search.** At every step each state of the beam is answered `samples` times, what that leads to is judged, and the
`width` best new states are the next beam: TSR (2602.11767) trains on such rollouts. Width 1 is a greedy search with
look-ahead.

**MCTS.** From the root on the child of the highest

    Q(s, a) + c * P(s, a) * sqrt(N(s)) / (1 + N(s, a))

is followed to a reply that was not played yet: the rule of AlphaGo Zero (Silver et al. 2017, Methods, after Rosin
2011). Q is the mean of r + gamma * (what followed), on a scale on which the returns so far lie in 0 to 1 (Schrittwieser
et al. 2020, MuZero, appendix B); of a reply that was not played, the mean of its state.

Where the commands of a state are listed (`simulator.Listed`), P is the policy's probability of each. Where any text is
a reply, replies are asked for one at a time, `ceil(width * N(s) ** widening)` that lead to open states (progressive
widening, Couetoux et al. 2011), and P is the share of the draws that gave a reply.

A state that has ended, below which all has ended, or that was met before, no later (`merge`), is closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from policies.search.tree import Budget, Node, Simulation, Tree, Value


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
        return _Attempts(self.n, root, task, value, budget, rng)


class _Attempts(Tree):
    def __init__(self, n: int, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> None:
        super().__init__(root, task, value, budget, rng, merge=False)
        self._left = n

    def next(self) -> Simulation | None:
        if self.root.closed or not self._left:
            return None
        self._left -= 1
        return self.simulate(self.root, grow=False)


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
        return _BeamTree(self, root, task, value, budget, rng)


class _BeamTree(Tree):
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
        gain = node.value
        while node.parent is not None:
            gain, node = self.gain(node, gain), node.parent
        return gain


@dataclass(frozen=True)
class MCTS:
    """Monte-Carlo tree search; see the module.

    Attributes:
        exploration: c in the formula above.
        width: open children of a state that was visited once, where replies are drawn.
        widening: how their number grows with the visits, in 0 to 1.
        draws: most replies that are asked for in one state; the policy may repeat itself.
        merge: close states that were met before.
        decide: which steps are played: "best", those to the end of the best simulation; "visits", the one to the most
            visited child, and then it is searched again, also after a success, with a share of the budget each.

    Raises:
        ValueError: a number is out of range.
    """

    exploration: float = 1.5
    width: float = 2.0
    widening: float = 0.5
    draws: int = 16
    merge: bool = True
    decide: Literal["best", "visits"] = "best"

    def __post_init__(self) -> None:
        if self.exploration < 0 or self.width <= 0 or not 0 <= self.widening <= 1 or self.draws < 1:
            raise ValueError(
                "MCTS needs exploration >= 0, width > 0, widening in 0 to 1 and draws >= 1, got "
                f"exploration={self.exploration}, width={self.width}, widening={self.widening}, draws={self.draws}"
            )
        if self.decide not in ("best", "visits"):
            raise ValueError(f"unknown decide {self.decide!r}: expected 'best' or 'visits'")

    def tree(self, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator) -> Tree:
        return _MCTSTree(self, root, task, value, budget, rng)


class _MCTSTree(Tree):
    def __init__(
        self, method: MCTS, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator
    ) -> None:
        super().__init__(root, task, value, budget, rng, merge=method.merge)
        self._method = method

    def next(self) -> Simulation | None:
        node = self.root
        while not node.closed:
            chosen = self._choose(node)
            if not isinstance(chosen, Node):
                return chosen
            node = chosen
        return None

    def _choose(self, node: Node) -> Node | Simulation | None:
        """Return the child to be followed, or what is to be played here; None where all is under way."""
        method, count = self._method, node.visits + node.pending
        following = [child for child in node.children if not child.closed]
        asked = sum(child.draws for child in node.children)
        root = method.exploration * math.sqrt(max(1, count))
        best, score = None, -math.inf
        for child in following:
            prior = child.draws / asked if node.untried is None else child.prior
            found = self._mean(child) + root * prior / (1 + child.visits + child.pending)
            if found > score:
                best, score = child, found
        if node.untried is None:
            under_way = node.pending - sum(child.pending for child in node.children)
            limit = math.ceil(method.width * max(1, node.visits) ** method.widening)
            if node.asked < method.draws and len(following) + under_way < limit:
                node.asked += 1
                return self.simulate(node, grow=True)
        elif node.untried:
            reply, prior = node.untried[-1]
            unplayed = self._scaled(node.value) if node.visits else 0.0
            if unplayed + root * prior > score:
                node.untried.pop()
                return self.simulate(node, reply, prior, grow=True)
        return best

    def _mean(self, child: Node) -> float:
        if not child.visits:
            return 0.0
        return self._scaled(self.action_value(child)) * (child.visits / (child.visits + child.pending))

    def _scaled(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)

    def exhausted(self, node: Node) -> bool:
        left = node.asked < self._method.draws if node.untried is None else bool(node.untried)
        return not left and node.pending == 0 and all(child.closed for child in node.children)

    def plan(self) -> list[Node]:
        if self._method.decide == "best":
            return super().plan()
        most = max(self.root.children, key=lambda child: child.visits, default=None)
        return [] if most is None else [most]
