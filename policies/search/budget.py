"""What a search may spend, and what it has spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """What the searches of one episode may spend together; it is never exceeded.

    Playing itself is not part of it: those are the steps of the episode, and their replies are the ones that the search
    has found.

    Attributes:
        steps: simulated steps of the environment; None: no limit.
        tokens: tokens that the policy writes in them; None: no limit. As the length of a reply is not known before it
            is written, one is asked for only while its longest form fits: `policy.settings.max_new_tokens`, without
            which a search player takes no such limit.

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
        """Return a share of what is left after a cost, rounded up.

        >>> Budget(steps=100).left(Cost(steps=61), share=0.5)
        Budget(steps=20, tokens=None)
        """
        steps = None if self.steps is None else _part(self.steps - cost.steps, share)
        tokens = None if self.tokens is None else _part(self.tokens - cost.tokens, share)
        return Budget(steps, tokens)

    def parts(self, count: int) -> list[Budget]:
        """Return it in parts for `count` searches, as equal as can be, which together are no more than it.

        >>> Budget(steps=5).parts(2)
        [Budget(steps=3, tokens=None), Budget(steps=2, tokens=None)]
        """
        given, found = Cost(), []
        for others in reversed(range(count)):
            found.append(self.left(given, 1 / (others + 1)))
            given.add(Cost(found[-1].steps or 0, found[-1].tokens or 0))
        return found

    def allows(self, cost: Cost, steps: int = 0, tokens: int = 0) -> bool:
        """Say whether so many steps and tokens may be added to a cost."""
        return (self.steps is None or cost.steps + steps <= self.steps) and (
            self.tokens is None or cost.tokens + tokens <= self.tokens
        )


@dataclass
class Cost:
    """What a search has spent.

    Attributes:
        steps: simulated steps of the environment.
        tokens: tokens that the policy wrote.
        scored: tokens of listed commands that it read for their probabilities (`proposals.Listed`); no budget
            limits them, as all of them are read in one pass.
        simulations: how often the environment was brought back to a state and played on.
    """

    steps: int = 0
    tokens: int = 0
    scored: int = 0
    simulations: int = 0

    def add(self, other: Cost) -> None:
        """Add another cost to this one."""
        self.steps += other.steps
        self.tokens += other.tokens
        self.scored += other.scored
        self.simulations += other.simulations


def _part(left: int, share: float) -> int:
    return max(0, -int(-left * share // 1))
