"""Numbers of an informed teacher that are held against the truth, beside the methods that train by them."""

from __future__ import annotations

import numpy as np

from agentgym.trajectory import Floats


def beliefs(gaps: Floats, start: float = 0.5) -> Floats:
    """Return AgentOPSD's belief in success before the first turn and after each, float64 (turns + 1,).

    V_k = sigmoid(logit(V_0) + sum of the gaps of turns 1 to k), cut at 1e-6. Its gaps have the mean -KL per token, so
    that V runs to 0 whatever was done: centre them over the episode first.
    """
    logits = np.log(start / (1 - start)) + np.concatenate(([0.0], np.cumsum(gaps)))
    found: Floats = np.clip(1 / (1 + np.exp(-np.clip(logits, -700, 700))), 1e-6, 1 - 1e-6)
    return found
