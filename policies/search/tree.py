"""A search: its states, their values, and its budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from agentgym.checks import Checked, Count, Share
from agentgym.rollout.groups import Infos
from agentgym.trajectory import Ending, Reply


@dataclass(frozen=True)
class Budget:
    """Strict limits of all searches of one episode together; the episode's own steps do not count.

    Attributes:
        steps: simulated steps of the environment; None: no limit.
        tokens: tokens that the policy writes in them; None: no limit. A reply is generated only if its maximum length
            (`policy.settings.max_new_tokens`) fits.

    Raises:
        ValueError: neither is limited, or a limit is negative.
    """

    steps: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.steps, self.tokens) if limit is not None]
        if not limits or min(limits) < 0:
            raise ValueError(
                f"a search needs a budget of steps or tokens, each at least 0, got steps={self.steps}, "
                f"tokens={self.tokens}"
            )

    def left(self, cost: Cost, share: float = 1.0) -> Budget:
        """Return a share of the budget that remains after a cost, rounded up.

        >>> Budget(steps=100).left(Cost(steps=61), share=0.5)
        Budget(steps=20, tokens=None)
        """
        steps = None if self.steps is None else _part(self.steps - cost.steps, share)
        tokens = None if self.tokens is None else _part(self.tokens - cost.tokens, share)
        return Budget(steps, tokens)

    def parts(self, count: int) -> list[Budget]:
        """Divide the budget into `count` parts, as equal as possible.

        >>> Budget(steps=5).parts(2)
        [Budget(steps=3, tokens=None), Budget(steps=2, tokens=None)]
        """
        given, found = Cost(), []
        for others in reversed(range(count)):
            found.append(self.left(given, 1 / (others + 1)))
            given.add(Cost(found[-1].steps or 0, found[-1].tokens or 0))
        return found

    def allows(self, cost: Cost, steps: int = 0, tokens: int = 0) -> bool:
        """Return whether a number of steps and tokens may be added to a cost."""
        return (self.steps is None or cost.steps + steps <= self.steps) and (
            self.tokens is None or cost.tokens + tokens <= self.tokens
        )


@dataclass
class Cost:
    """Cost of a search: simulated steps, and tokens that the policy wrote in them.

    Attributes:
        scored: tokens of listed commands that the policy read for their probabilities (`simulator.Listed`); no budget
            limits them, because they are all read in one pass.
        simulations: number of simulations, each from a restored state.
    """

    steps: int = 0
    tokens: int = 0
    scored: int = 0
    simulations: int = 0

    def add(self, other: Cost) -> None:
        self.steps += other.steps
        self.tokens += other.tokens
        self.scored += other.scored
        self.simulations += other.simulations


def _part(left: int, share: float) -> int:
    return max(0, -int(-left * share // 1))


#: Values of nonterminal states: (observations, info columns) of n sub-environments -> n numbers.
Critic = Callable[[Sequence[Any], Infos], ArrayLike]


@dataclass(frozen=True)
class Value(Checked):
    """Value of a simulation.

    From a new state the policy plays `rollout` steps. The value is the outcome there, or a critic's value, discounted
    by `gamma` for every step.

    Attributes:
        outcome: "score": `info["score"]` of the last state; "won": 1 for success and 0 else; "return": the sum of the
            rewards, where a nonterminal state has the value 0 without a critic.
        gamma: discount per step, in 0 to 1.
        rollout: maximum number of steps that the policy plays from a new state; None: to the end of the episode; 0:
            the state itself is evaluated.
        critic: value of nonterminal states, on the scale of the outcome; None: the outcome so far.

    Raises:
        ValueError: an unknown outcome, or a number out of range.
    """

    outcome: Literal["score", "won", "return"] = "score"
    gamma: Share = 0.99
    rollout: Count | None = None
    critic: Critic | None = None

    def reward(self, reward: float) -> float:
        """Return the contribution of a step's reward."""
        return reward if self.outcome == "return" else 0.0

    def standing(self, won: bool, score: float) -> float:
        """Return the value of a state without a critic."""
        return {"score": score, "won": float(won), "return": 0.0}[self.outcome]


@dataclass(eq=False, slots=True)
class Node:
    """A state of a search, and the step that led to it.

    Attributes:
        parent: the state before; None for the root.
        key: `info["state_key"]`, the exact state.
        label: the state's key in tables: `info["canonical_key"]` if a wrapper adds it, else the key.
        valid: the environment accepted the command.
        score: `info["score"]`; without it, 1 for success and 0 else.
        unscored: the episode ended, without a known outcome.
        state: snapshot; None if the episode has ended, and in rollouts.
        simulation: number of the simulation that played the step.
        prior: probability of a listed reply.
        draws: number of times that the policy generated this reply.
        visits: number of finished simulations through this state.
        total: sum of their returns from this state.
        pending: number of running simulations through this state.
        closed: everything here has been tried.
        children: states that the search can expand; rollouts are not among them.
        untried: listed replies that were not played yet, with their priors, the most probable last; None: no list.
        asked: number of replies that were requested from the policy here, or taken from the list.
        answered: texts of the replies that were played here.
    """

    parent: Node | None
    reply: Reply | None
    t: int
    key: str
    label: str
    won: bool
    score: float
    action: str = ""
    reward: float = 0.0
    valid: bool = True
    terminated: bool = False
    truncated: bool = False
    unscored: bool = False
    observation: Any = None
    state: Any = None
    simulation: int = -1
    prior: float = 1.0
    draws: int = 1
    visits: int = 0
    total: float = 0.0
    pending: int = 0
    closed: bool = False
    children: list[Node] = field(default_factory=list)
    untried: list[tuple[Reply, float]] | None = None
    asked: int = 0
    answered: set[str] = field(default_factory=set)

    @property
    def before(self) -> Node:
        """The state before the step that led here."""
        if self.parent is None:
            raise ValueError("no step led to the root of a search")
        return self.parent

    @property
    def answer(self) -> Reply:
        """The reply that led here."""
        if self.reply is None:
            raise ValueError("no reply led to the root of a search")
        return self.reply

    @property
    def ended(self) -> bool:
        """Whether the episode ended here."""
        return self.terminated or self.truncated

    @property
    def ending(self) -> Ending:
        """How the episode ended here; `Ending.CUT` in a nonterminal state."""
        return Ending.of(self.won, self.terminated, self.truncated, self.unscored) if self.ended else Ending.CUT

    @property
    def value(self) -> float:
        """Mean return of simulations from this state; nan without any."""
        return self.total / self.visits if self.visits else float("nan")

    @property
    def path(self) -> list[Node]:
        """The states from the root to here, without the root: one per step."""
        steps = []
        node = self
        while node.parent is not None:
            steps.append(node)
            node = node.parent
        return steps[::-1]

    def walk(self) -> Iterator[Node]:
        """Yield this state and all states below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


@dataclass(eq=False, slots=True)
class Simulation:
    """A simulation: from a state, first a given reply, then the policy's replies.

    Attributes:
        reply: the first reply; None: the policy's.
        prior: its probability, if it was listed.
        grow: whether the first step adds a state to the tree; else all steps are a rollout.
        number: position in the order in which the tree's simulations made a step; -1 before.
    """

    tree: Tree
    start: Node
    reply: Reply | None
    prior: float
    grow: bool
    at: Node
    number: int = -1

    @property
    def length(self) -> int:
        """Number of steps so far."""
        return self.at.t - self.start.t

    @property
    def judged(self) -> Node:
        """The state of the tree that the simulation evaluates: the new one, or the one where it began."""
        node = self.at
        while node.t > self.start.t + self.grow:
            node = node.before
        return node


class Tree(ABC):
    """A search from one state; a method defines `next`, which chooses what is simulated.

    Args:
        task: name of the task: the group of its rows in a table.
        rng: generator of the choices, of the policy, and of fresh random numbers.
        merge: do not enter a state again that was reached before, at the same step or an earlier one.

    Attributes:
        best: the state in which the best simulation so far ended: won ones first, then the highest return; initially
            the root.
        ends: the state in which each simulation ended, in the order of their numbers.
        low, high: bounds of the returns so far; at least 0 to 1.
    """

    def __init__(
        self, root: Node, task: str, value: Value, budget: Budget, rng: np.random.Generator, *, merge: bool = True
    ) -> None:
        self.root, self.task, self.worth, self.budget, self.rng = root, task, value, budget, rng
        self.cost = Cost()
        self.best = root
        self.ends: list[Node] = []
        self.low, self.high = 0.0, 1.0
        self._best_return = -np.inf
        self._seen: dict[str, int] | None = {root.key: root.t} if merge else None

    @abstractmethod
    def next(self) -> Simulation | None:
        """Return the next simulation; None: there is none, or none before others have returned."""

    def simulate(self, start: Node, reply: Reply | None = None, prior: float = 1.0, *, grow: bool) -> Simulation:
        """Return a new simulation, and count it as running."""
        for node in _upwards(start):
            node.pending += 1
        return Simulation(self, start, reply, prior, grow, start)

    def list_replies(self, node: Node, replies: Sequence[Reply], priors: Sequence[float]) -> None:
        """Set the replies that are listed in a state; equally probable ones are taken in random order."""
        order = self.rng.permutation(len(replies)).tolist()
        node.untried = sorted(((replies[i], priors[i]) for i in order), key=lambda listed: listed[1])

    def is_new(self, start: Node, reply: Reply) -> bool:
        """Return whether a reply was not played in a state before, and record it."""
        for child in start.children:
            if child.answer.text == reply.text:
                child.draws += 1
        new = reply.text not in start.answered
        start.answered.add(reply.text)
        return new

    def enter(self, simulation: Simulation, node: Node) -> bool:
        """Add the state after a simulation's first step to the tree, and return whether it is new.

        A state that was reached before is closed, and the simulation ends.
        """
        node.pending, node.prior = 1, simulation.prior
        simulation.start.children.append(node)
        if not node.ended and self._seen is not None:
            first = self._seen.get(node.key)
            if first is not None and first <= node.t:
                node.closed = True
                return False
            self._seen[node.key] = node.t
        node.closed = node.ended
        return True

    def drop(self, simulation: Simulation) -> None:
        """Remove a simulation without a result."""
        for node in _upwards(simulation.judged):
            node.pending -= 1
        if not simulation.length and simulation.reply is not None and simulation.start.untried is not None:
            simulation.start.untried.append((simulation.reply, simulation.prior))  # it was not played
        self.settle(simulation.start)

    def back(self, simulation: Simulation, worth: float) -> None:
        """Add the result of a simulation to all states on its path."""
        gain, node, judged = worth, simulation.at, simulation.judged
        while node is not judged:
            gain, node = self.gain(node, gain), node.before
        for passed in _upwards(judged):
            passed.pending -= 1
            passed.visits += 1
            passed.total += gain
            if passed.parent is not None:
                gain = self.gain(passed, gain)
                self.low, self.high = min(self.low, gain), max(self.high, gain)
        if (simulation.at.won, gain) > (self.best.won, self._best_return):
            self.best, self._best_return = simulation.at, gain
        self.settle(simulation.start)

    def settle(self, node: Node) -> None:
        """Close a state, and its ancestors, if everything there has been tried."""
        at: Node | None = node
        while at is not None and self.exhausted(at):
            at.closed = True
            at = at.parent

    def exhausted(self, node: Node) -> bool:
        """Return whether everything in a state and after it has been tried."""
        return False

    def gain(self, node: Node, gain: float) -> float:
        """Return the return from the step to a state, given the return from the state: r + gamma * gain."""
        return self.worth.reward(node.reward) + self.worth.gamma * gain

    def action_value(self, node: Node) -> float:
        """Return the mean return from the step to a state; nan without visits."""
        return self.gain(node, node.value)

    def plan(self) -> list[Node]:
        """Return the steps to play, as the states that they lead to: those of the best simulation."""
        return self.best.path


def _upwards(node: Node) -> Iterator[Node]:
    yield node
    while node.parent is not None:
        node = node.parent
        yield node
