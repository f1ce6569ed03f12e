"""What talking to an endpoint has cost so far."""

from __future__ import annotations

from dataclasses import dataclass


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

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.answered:,} answers ({self.remembered:,} more from the cache, {self.failed:,} failures, "
            f"{self.retries:,} retries), {self.prompt_tokens:,} + {self.completion_tokens:,} tokens, "
            f"cost {self.cost:.4f}"
        )
