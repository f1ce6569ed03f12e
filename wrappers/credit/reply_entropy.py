"""How unsure a policy was of each reply: the mean entropy of its tokens' distributions, or an estimate of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from agentgym.trajectory import Bools, Floats, Ints, StepTable
from wrappers.credit.scores import step_scores


def reply_entropies(table: StepTable) -> Floats:
    """Estimate the mean token entropy of every reply from the log-probabilities of the tokens that were drawn.

    H_t = -mean_j log p(y_j)      over the tokens of reply t, natural logarithm

    Under the distribution that a token was drawn from, -log p of it is on average that distribution's entropy: the
    estimate is unbiased and noisy, least so for long replies. The distribution is the one that was sampled from, at the
    rollout's temperature; a token that was the only one allowed counts 0. `policies.scoring` has the exact entropies of
    the tokens, at the cost of a forward pass.

    Returns:
        float64 (N,), nats; nan where a reply has no log-probabilities.

    >>> from agentgym.trajectory import Reply
    >>> replies = [Reply("up", logprobs=(-0.5, -1.5)), Reply("up"), None]
    >>> table = StepTable.from_arrays(group=[0] * 3, trajectory=[0, 1, 2], t=[0] * 3, state=["s"] * 3,
    ...     action=["up"] * 3, next_state=["u"] * 3, reward=[0] * 3, won=[0] * 3, replies=replies)
    >>> reply_entropies(table)
    array([ 1., nan, nan])
    """
    replies = [None] * len(table) if table.replies is None else table.replies
    found = [-float(np.mean(reply.logprobs)) if reply and reply.logprobs else np.nan for reply in replies]
    return np.array(found, np.float64)


def known_entropies(table: StepTable, entropies: ArrayLike | None) -> Floats:
    """Return the entropies that a caller gave, or estimates of them: float64 (N,), nan where there is none.

    Raises:
        ValueError: when none were given and no reply has log-probabilities, or they are not one finite number per row.
    """
    if entropies is not None:
        return step_scores("entropies", entropies, len(table))
    found = reply_entropies(table)
    if len(found) and np.isnan(found).all():
        raise ValueError(
            "no reply of the table has log-probabilities: play with a policy that gives them "
            "(`policies.huggingface`), or give one number per row as `entropies`"
        )
    return found


def min_max(values: Floats, groups: Ints, n_groups: int, eps: float) -> tuple[Floats, Floats, Bools]:
    """Bring known values to 0..1 within their group, `(v - min) / (max - min + eps)`; nan: not known.

    Returns:
        float64 (N,), 0 where not known; float64 (n_groups,), max - min; bool (N,), known.
    """
    known = ~np.isnan(values)
    low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low, groups[known], values[known])
    np.maximum.at(high, groups[known], values[known])
    some = low <= high
    least, width = np.where(some, low, 0.0), np.zeros(n_groups)
    width[some] = high[some] - low[some]
    scale = np.where(width + eps > 0, width + eps, 1.0)
    return np.where(known, (np.nan_to_num(values) - least[groups]) / scale[groups], 0.0), width, known
