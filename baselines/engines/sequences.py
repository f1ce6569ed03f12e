"""Token sequences with finished advantages: what another library's trainer needs from a rollout.

    transcript   one sequence a trajectory: prompt | reply | observation | reply | observation | reply
    window       one sequence a step, because the next prompt does not begin with this prompt and its reply

An engine (TRL, verl, one's own) only puts the per-token advantages into its policy-gradient loss.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, Floats, Reply, StepTable
from baselines.batch import checked_reply, scored_rows
from policies.prompts import FIRST_PICTURE


@dataclass(frozen=True)
class TokenSequence:
    """One trajectory (of a transcript), or one step of it (of a window).

    Attributes:
        completion_ids: the replies and what came between them, c tokens.
        mask: c flags, True = written by the policy in a step that the credit method scored: train on these.
        logprobs: c natural log-probabilities when sampled, temperature included; 0 where the mask is False.
        advantages: c finished advantages; 0 where the mask is False.
        rows: rows of the table in here, by `t`. Sequences of one trajectory are neighbours.
        trajectory: index into `table.trajectories`.
    """

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    rows: tuple[int, ...]
    group: int
    trajectory: int


def token_sequences(table: StepTable, advantages: NDArray[np.float64]) -> list[TokenSequence]:
    """Join the steps of each trajectory as far as each prompt begins with the prompt and the reply before it.

    Args:
        table: rollouts with replies, log-probabilities included.
        advantages: float64 (N,) or (N, K), as for `baselines.batch.make_batch`; nan: context, not trained on.

    Returns:
        Sequences by trajectory, then `t`. Those without a scored step are left out.

    Raises:
        ValueError: as `make_batch`; or a prompt shows a picture, see `policies.vision.store`.

    Two steps, the second of which continues the first (token 9 is the observation between the replies):

    >>> from agentgym.trajectory import Reply
    >>> replies = [Reply("a", (1, 2), (3,), (-0.5,)), Reply("b", (1, 2, 3, 9), (4, 5), (-0.2, -0.1))]
    >>> table = StepTable.from_arrays(group=[0, 0], trajectory=[0, 0], t=[0, 1], state=["s", "u"], action=["a", "b"],
    ...     next_state=["u", "end"], reward=[0, 1], won=[1, 1], replies=replies)
    >>> (one,) = token_sequences(table, np.array([0.5, -1.0]))
    >>> one.prompt_ids, one.completion_ids, one.advantages
    ((1, 2), (3, 9, 4, 5), (0.5, 0.0, -1.0, -1.0))
    """
    if table.replies is None:
        raise ValueError("the table holds no replies; collect it with a policy that returns token ids")
    values, is_scored = scored_rows(table, np.asarray(advantages, np.float64))
    values = values.reshape(len(table), -1)
    replies = [checked_reply(reply, row) for row, reply in enumerate(table.replies)]
    seen = next((row for row, reply in enumerate(replies) if max(reply.prompt_ids) >= FIRST_PICTURE), None)
    if seen is not None:
        raise ValueError(
            f"row {seen}: its prompt shows a picture, which sequences for other trainers do not hold: train such a "
            "policy with baselines.trainer"
        )
    runs: list[list[int]] = []
    for row in table.order.tolist():
        if runs and table.trajectory[row] == table.trajectory[runs[-1][-1]] and _follows(replies, runs[-1][-1], row):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [_joined(table, run, replies, values, is_scored) for run in runs if is_scored[run].any()]


def _follows(replies: list[Reply], row: int, later: int) -> bool:
    seen = replies[row].prompt_ids + replies[row].token_ids
    return replies[later].prompt_ids[: len(seen)] == seen


def _joined(table: StepTable, run: list[int], replies: list[Reply], values: Floats, is_scored: Bools) -> TokenSequence:
    ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []
    advantages: list[float] = []
    start = len(replies[run[0]].prompt_ids)
    for row in run:
        reply = replies[row]
        # What stands between two replies was not written by the policy.
        between = reply.prompt_ids[start + len(ids) :]
        ids += [*between, *reply.token_ids]
        length, taught = len(reply.token_ids), bool(is_scored[row])
        credit = np.broadcast_to(values[row, :length], length).tolist()  # one number for all tokens, or one each
        mask += [False] * len(between) + [taught] * length
        logprobs += [0.0] * len(between) + list(reply.logprobs if taught else [0.0] * length)
        advantages += [0.0] * len(between) + (credit if taught else [0.0] * length)
    return TokenSequence(
        prompt_ids=replies[run[0]].prompt_ids, completion_ids=tuple(ids), mask=tuple(mask), logprobs=tuple(logprobs),
        advantages=tuple(advantages), rows=tuple(run), group=int(table.group[run[0]]),
        trajectory=int(table.trajectory[run[0]]),
    )  # fmt: skip
