"""Score given replies: log-probabilities and entropies of their tokens."""

from policies.scoring.packed import score_packed
from policies.scoring.tokens import TokenScores, score_replies

__all__ = ["TokenScores", "score_packed", "score_replies"]
