"""What an endpoint has cost, what may be spent there, and the error that says that it is."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.outside.chat.wire import ChatAnswer, ChatFailure


@dataclass
class Usage:
    """Counts since an endpoint was made; answers from the cache, and requests that were equal, cost nothing.

    Attributes:
        answered: requests that the endpoint answered.
        failed: requests that it did not, after all tries.
        remembered: requests answered by the cache.
        retries: further tries, of both kinds of requests.
        prompt_tokens: read by the model, as the endpoint counts; 0 where it does not.
        completion_tokens: written by the model.
        cost: of these tokens, in the unit of `prices`.
    """

    answered: int = 0
    failed: int = 0
    remembered: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def add(self, answer: ChatAnswer | ChatFailure, prices: tuple[float, float]) -> None:
        """Count an answer that was asked for, or the failure of one."""
        self.retries += max(0, answer.attempts - 1)
        if isinstance(answer, ChatFailure):
            self.failed += 1
            return
        self.answered += 1
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.cost += (answer.prompt_tokens * prices[0] + answer.completion_tokens * prices[1]) / 1e6

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.answered:,} answers ({self.remembered:,} more from the cache, {self.failed:,} failures, "
            f"{self.retries:,} retries), {self.prompt_tokens:,} + {self.completion_tokens:,} tokens, "
            f"cost {self.cost:.4f}"
        )


class BudgetSpentError(RuntimeError):
    """The next request would exceed the budget; what came before is kept."""


@dataclass(frozen=True)
class Budget:
    """Limits of what an endpoint is asked; None: no limit.

    How many requests there are is known before they are sent, so their number is never exceeded. What an answer costs
    is known when it is there: the answers that are under way together may exceed the other two limits.

    Attributes:
        requests: answers that may be asked for.
        tokens: read and written, together.
        cost: in the unit of the endpoint's prices.

    Raises:
        ValueError: a negative limit.
    """

    requests: int | None = None
    tokens: int | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits below nothing."""
        for name, value in vars(self).items():
            if value is not None and not value >= 0:
                raise ValueError(f"a budget's {name} must be at least 0 or None (no limit), got {value!r}")

    def room(self, spent: Usage, wanted: int, under_way: int = 0) -> int:
        """Return how many of the wanted requests may still be sent, when so many are under way."""
        if self.tokens is not None and spent.prompt_tokens + spent.completion_tokens >= self.tokens:
            return 0
        if self.cost is not None and spent.cost >= self.cost:
            return 0
        return wanted if self.requests is None else max(0, min(wanted, self.requests - spent.answered - under_way))

    def spent_error(self, spent: Usage, under_way: int = 0) -> BudgetSpentError:
        """Return the error of a request for which there is no room, when so many are under way."""
        limits = ", ".join(f"{value:,} {name}" for name, value in vars(self).items() if value is not None)
        beside = f", {under_way:,} under way" if under_way else ""
        return BudgetSpentError(f"the budget of {limits} is spent: {spent}{beside}")
