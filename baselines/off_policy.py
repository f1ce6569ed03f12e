"""Replies that the policy did not write under their prompts: what an update needs to learn from them.

Relabelled episodes, an expert's, or another policy's have no log-probabilities under these prompts.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from agentgym.trajectory import Bools, StepTable
from baselines.batch import make_batch
from baselines.config import Memory
from baselines.update import Scorer, score_batch


def rescored(
    policy: Scorer, table: StepTable, *, temperature: float, tokens_per_pass: int | Literal["auto"] | None = "auto",
    rows: Bools | None = None,
) -> StepTable:  # fmt: skip
    """Return the table with the log-probabilities that its replies have now, as if this policy had written them.

    The importance ratio of the next update then begins at 1: the clipped objective is advantage-weighted likelihood. It
    does not correct for the policy that sampled the replies.

    Args:
        policy: about to be updated; its weights are not changed.
        table: a reply with prompt ids and token ids in every row. Not changed.
        tokens_per_pass: see `baselines.config.Memory.microbatch_tokens`.
        rows: bool (N,), the rows that are read; the log-probabilities of the others are 0. None: all.

    Raises:
        ValueError: a row has no reply tokens.
    """
    if table.replies is None or not len(table):
        return table
    blank = [reply and replace(reply, logprobs=(0.0,) * len(reply.token_ids)) for reply in table.replies]
    unscored = replace(table, replies=np.fromiter(blank, np.object_, len(table)))
    read = np.ones(len(table), np.bool_) if rows is None else rows
    batch = make_batch(unscored, np.where(read, 0.0, np.nan))
    scores = score_batch(policy, batch, temperature, Memory(microbatch_tokens=tokens_per_pass)).tolist()
    allowed = batch.allowed or ((),) * len(batch)
    known = dict(zip(zip(batch.prompts, batch.replies, allowed, strict=True), scores, strict=True))
    found = [
        replace(reply, logprobs=tuple(known[reply.prompt_ids, reply.token_ids, reply.allowed][: len(reply.token_ids)]))
        if is_read else reply
        for reply, is_read in zip(blank, read.tolist(), strict=True)
    ]  # fmt: skip
    return replace(table, replies=np.fromiter(found, np.object_, len(table)))
