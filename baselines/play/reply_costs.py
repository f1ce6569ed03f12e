"""Costs of replies, subtracted from rewards before credit is computed, and which replies are trained on.

The costs go off the rewards of a table; a method that reads success alone does not feel them.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, StepTable
from agentgym.trajectory.forks import counts_so_far
from baselines.batch import make_batch
from baselines.config import TrainerConfig
from baselines.losses import divergence
from baselines.update import Scorer, recomputes, score_batch
from wrappers.credit.scores import reply_lengths

#: `Reply.finish` of a reply that the length limit ended.
CUT_OFF = "length"
#: `Reply.finish` if the prompt did not fit.
NOT_WRITTEN = "prompt-too-long"


def written(table: StepTable) -> StepTable:
    """Return the table without the rows in which nothing was written; the table itself if there are none.

    In such a row a prompt did not fit (`agentgym.trajectory.Reply.finish`). The episode ends with the step before,
    truncated.
    """
    if table.replies is None or not any(reply and reply.finish == NOT_WRITTEN for reply in table.replies):
        return table
    kept = []
    for one in table.to_trajectories():
        steps = tuple(step for step in one.steps if step.reply is None or step.reply.finish != NOT_WRITTEN)
        if steps:
            kept.append(dataclasses.replace(one, steps=steps))
    found = StepTable.from_trajectories(kept)
    return found if kept else dataclasses.replace(found, replies=np.empty(0, object))


def cut_off(table: StepTable) -> Bools:
    """Return bool (N,): the length limit ended the row's reply before the policy did.

    Raises:
        ValueError: a reply does not say how it ended.
    """
    replies = [] if table.replies is None else list(table.replies)
    finishes = ["" if reply is None else reply.finish for reply in replies]
    if table.replies is None or "" in finishes:
        raise ValueError(
            f"row {finishes.index('') if finishes else 0}: its reply does not say how it ended (Reply.finish), which "
            "overlong='mask' and 'drop' go by; take a policy that does, or overlong='keep'"
        )
    return np.array(finishes) == CUT_OFF


def without_cut_off(table: StepTable) -> StepTable:
    """Return the table without the episodes in which a reply was cut off; the table itself if there are none."""
    rows = cut_off(table)
    if not rows.any():
        return table
    good = counts_so_far(table, rows)[table.last] == 0
    if not good.any():
        return dataclasses.replace(StepTable.from_trajectories([]), replies=np.empty(0, object))
    return table.keep(good)


def less_overlong(table: StepTable, limit: int, buffer: int, penalty: float) -> StepTable:
    """Subtract the soft penalty of long replies from the rewards (Yu et al. 2025, 2503.14476, equation 13).

    For n tokens it is 0 up to limit - buffer, then rises linearly to `penalty` at the limit:

        penalty (n - (limit - buffer)) / buffer
    """
    over = (reply_lengths(table) - (limit - buffer)) / buffer
    return dataclasses.replace(table, reward=table.reward - penalty * np.clip(over, 0.0, 1.0))


def less_divergence(
    table: StepTable, policy: Scorer, reference: Scorer, config: TrainerConfig
) -> tuple[StepTable, float]:
    """Subtract the weighted divergence from the frozen start policy from the rewards.

    The cost of a reply is the sum over its tokens, as in RLHF (Ouyang et al. 2022, equation 2: k1). The divergence has
    no gradient: the policy is the one that sampled.

    Args:
        policy: scores the replies again if the configuration does not use the sampler's log-probabilities.
        config: its temperature, loss and memory are used.

    Returns:
        The table with the rewards, and the mean divergence per token.
    """
    batch = make_batch(table, np.zeros(len(table)), merge=False)
    old = batch.old_logprobs
    terms = config.loss
    if recomputes(policy, config):
        old = score_batch(policy, batch, config.temperature, config.memory)
    start = score_batch(reference, batch, config.temperature, config.memory)
    per_token = divergence(old, start, terms.kl_form, limit=terms.kl_limit).masked_fill(~batch.mask, 0.0)
    cost: NDArray[np.float64] = per_token.double().sum(1).numpy()
    tokens = int(batch.mask.sum())
    return dataclasses.replace(table, reward=table.reward - terms.kl * cost), float(cost.sum() / max(tokens, 1))
