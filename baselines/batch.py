"""Batch: the rows a policy is trained on, made from a `StepTable` and its advantages.

Rows with the same prompt and reply are merged. `min(rho A, clip(rho) A)` depends on A by a factor and its sign, so a
merged row keeps the sums of its positive and of its negative advantages, and the loss is that of the raw rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentgym.trajectory import Bools, Floats, Ints, Reply, StepTable
from agentgym.trajectory.forks import chain_sums
from baselines.config import Weighting
from wrappers.credit.forks import Forest, over_forks
from wrappers.credit.scores import reply_lengths


@dataclass(frozen=True, eq=False)
class Batch:
    """n distinct (prompt, reply) rows with replies of at most L tokens.

    Attributes:
        prompts, replies: token ids of each row, ragged, length n.
        old_logprobs: float32 (n, L), log-probability of each reply token when it was sampled; 0 where masked.
        mask: bool (n, L), True = a token of the reply, False = padding.
        weight: float32 (n,), summed weight of the raw rows merged here (their number, for the weighting "step").
        positive, negative: float32 (n,), weighted sums of their positive and negative advantages; (n, L) where
            advantages are per token, 0 where masked.
        positive_weight, negative_weight: likewise, summed weights of these raw rows.
        trained: bool (n,), the rows that an update reads; the others count only in its mean, see `make_batch`.
        raw_rows: how many rows of the table went in.
        allowed: `Reply.allowed` of each row, length n; empty where no reply was restricted.
        informed: the prompt that an informed teacher reads before each reply, () where it has none.
    """

    prompts: tuple[tuple[int, ...], ...]
    replies: tuple[tuple[int, ...], ...]
    old_logprobs: Tensor
    mask: Tensor
    weight: Tensor
    positive: Tensor
    negative: Tensor
    positive_weight: Tensor
    negative_weight: Tensor
    trained: Bools
    raw_rows: int
    allowed: tuple[tuple[tuple[int, ...], ...], ...] = ()
    informed: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def signal(self) -> Bools:
        """Bool (n,): some advantage of the row is not 0. The others, silent rows, have no policy gradient."""
        found = (self.positive != 0) | (self.negative != 0)
        return (found if found.dim() == 1 else found.any(1)).cpu().numpy()

    @property
    def distilled(self) -> Bools:
        """Bool (n,): an informed teacher has something to say of the row."""
        return np.array([bool(prompt) for prompt in self.informed] or [False] * len(self), np.bool_)

    def kept(self) -> Batch:
        return self if self.trained.all() else self.take(np.flatnonzero(self.trained))

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Batch:
        picked = [int(row) for row in rows]
        index = torch.tensor(picked, dtype=torch.int64)
        # Columns past the longest reply of the chosen rows would only cost time.
        width = max((len(self.replies[row]) for row in picked), default=0)

        def cut(column: Any) -> Any:
            if isinstance(column, tuple):
                return tuple(column[row] for row in picked) if column else ()
            if isinstance(column, Tensor):
                return column[index] if column.dim() == 1 else column[index, :width]
            return column

        return Batch(**{name: cut(column) for name, column in vars(self).items()} | {"trained": self.trained[picked]})

    def to(self, device: torch.device | str) -> Batch:
        tensors = {name: column for name, column in vars(self).items() if isinstance(column, Tensor)}
        moved: Any = {name: column.to(device, non_blocking=True) for name, column in tensors.items()}
        return dataclasses.replace(self, **moved)

    def minibatches(
        self, rows: int, generator: np.random.Generator, together: NDArray[np.int64] | None = None
    ) -> list[NDArray[np.int64]]:
        """Return row numbers of random mini-batches that cover the batch once.

        Prompts are shuffled: rows of one prompt stay neighbours. Sizes differ by at most one.

        Args:
            rows: the largest size of a mini-batch, at least 1.
            together: int64 (n,), rows with the same number, from 0 on, stay neighbours instead of those of one prompt.
        """
        if rows < 1:
            raise ValueError(f"a mini-batch needs at least 1 row, got rows={rows}")
        if not len(self):
            return []
        if together is None:
            numbers: dict[tuple[int, ...], int] = {}
            together = np.array([numbers.setdefault(prompt, len(numbers)) for prompt in self.prompts])
        order = np.argsort(generator.permutation(int(together.max()) + 1)[together], kind="stable")
        return np.array_split(order, -(-len(self) // rows))


def make_batch(
    table: StepTable, advantages: NDArray[np.float64], *, weighting: Weighting = "step", keep_zero: bool = True,
    merge: bool = True, informed: Sequence[tuple[int, ...]] = (),
) -> Batch:  # fmt: skip
    """Make the training batch of a table.

    Args:
        table: rollouts with a `Reply` (prompt ids, token ids, log-probabilities) in every row.
        advantages: float64 (N,), or (N, K), per token of the reply; nan: not scored, and left out.
        weighting: "step" gives every row weight 1; "trajectory" 1 / (scored rows of its trajectory). A row of several
            episodes has their mean.
        keep_zero: False trains no merged row whose advantages are all 0 (`Batch.trained`). It stays in the batch, whose
            mini-batches and mean do not change.
        merge: False keeps one row per row of the table (to check the merged loss against).
        informed: the prompt of an informed teacher per row, () where it has none.

    Returns:
        The batch, in order of first appearance in the table; empty when no row was scored.

    Raises:
        ValueError: advantages of another shape, infinite, or nan on part of a reply; a row without reply tokens, or
            tokens without log-probabilities, or with some that are not finite.
    """
    if table.replies is None:
        raise ValueError("the table holds no replies; collect it with a policy that returns token ids")
    advantages, is_scored = scored_rows(table, np.asarray(advantages, np.float64))
    scored = np.flatnonzero(is_scored)
    if weighting not in ("step", "trajectory"):
        raise ValueError(f"weighting is 'step' or 'trajectory', got {weighting!r}")
    row_weight = np.ones(len(table))
    if weighting == "trajectory":
        row_weight = _shares(table, scored=is_scored)

    prompts = informed or [()] * len(table)
    first: list[Reply] = []
    taught: list[tuple[int, ...]] = []
    place: dict[tuple[object, ...], int] = {}
    target = np.empty(len(scored), np.int64)
    for i, row in enumerate(scored.tolist()):
        reply = checked_reply(table.replies[row], row)
        key = (reply.prompt_ids, reply.token_ids, reply.allowed, prompts[row])
        where = place.get(key, len(first)) if merge else len(first)
        if where == len(first):
            place[key] = where
            first.append(reply)
            taught.append(prompts[row])
        target[i] = where

    # One number per row is the case of one column.
    n, k = len(first), 1 if advantages.ndim == 1 else advantages.shape[1]
    a, w = advantages[scored].reshape(len(scored), k), row_weight[scored][:, None]
    places = (target[:, None] * k + np.arange(k)).ravel()
    parts = (w * a * (a > 0), w * a * (a < 0), w * (a > 0), w * (a < 0))
    sums = np.stack([np.bincount(places, weights=part.ravel(), minlength=n * k) for part in parts]).reshape(4, n, k)
    weight = np.bincount(target, weights=w[:, 0], minlength=n)
    width = max((len(reply.token_ids) for reply in first), default=0)
    old = torch.zeros(len(first), width)
    mask = torch.zeros(len(first), width, dtype=torch.bool)
    for i, reply in enumerate(first):
        length = len(reply.token_ids)
        old[i, :length] = torch.tensor(reply.logprobs, dtype=torch.float32)
        mask[i, :length] = True
    sums = sums[:, :, 0] if advantages.ndim == 1 else sums[:, :, :width]
    positive, negative, positive_weight, negative_weight = torch.from_numpy(sums).to(torch.float32)
    batch = Batch(
        prompts=tuple(reply.prompt_ids for reply in first), replies=tuple(reply.token_ids for reply in first),
        old_logprobs=old, mask=mask, weight=torch.from_numpy(weight).to(torch.float32), positive=positive,
        negative=negative, positive_weight=positive_weight, negative_weight=negative_weight,
        trained=np.ones(n, np.bool_), raw_rows=len(scored),
        allowed=tuple(reply.allowed for reply in first) if any(reply.allowed for reply in first) else (),
        informed=tuple(taught) if any(taught) else (),
    )  # fmt: skip
    return batch if keep_zero else dataclasses.replace(batch, trained=batch.signal | batch.distilled)


def _shared_shares(table: StepTable, *, scored: Bools) -> Floats:
    return Forest(table).mean(1.0 / np.maximum(chain_sums(table, scored.astype(np.float64)), 1.0))


@over_forks("scored", shared=_shared_shares)
def _shares(table: StepTable, *, scored: Bools) -> Floats:
    """Each row's share of its trajectory: float64 (N,)."""
    scored_steps = np.bincount(table.trajectory[scored], minlength=table.n_trajectories)
    return 1.0 / np.maximum(scored_steps, 1)[table.trajectory]


def scored_rows(table: StepTable, advantages: NDArray[np.float64]) -> tuple[Floats, Bools]:
    """Check the advantages that `make_batch` takes.

    Returns:
        The advantages (advantages per token are 0 after the end of a reply), and bool (N,), True = a scored row.
    """
    n = len(table)
    if advantages.shape == (n,):
        missing, infinite = np.isnan(advantages), np.isinf(advantages)
    elif advantages.ndim == 2 and len(advantages) == n:
        lengths = reply_lengths(table)
        if advantages.shape[1] < lengths.max(initial=0):
            raise ValueError(f"{advantages.shape[1]} advantages per row, but a reply has {lengths.max()} tokens")
        advantages = np.where(np.arange(advantages.shape[1]) < lengths[:, None], advantages, 0.0)
        gaps = np.isnan(advantages).sum(1)
        missing, infinite = gaps > 0, np.isinf(advantages).sum(1) > 0
        if (gaps[missing] < lengths[missing]).any():
            row = int(np.argmax(missing & (gaps < lengths)))
            raise ValueError(f"row {row}: some of its tokens are not scored (nan); score all of a reply or none")
    else:
        raise ValueError(
            f"expected one advantage per row, shape ({n},), got shape {advantages.shape}; "
            f"advantages per reply token have shape ({n}, tokens)"
        )
    if infinite.any():
        raise ValueError(f"the advantage of row {int(np.argmax(infinite))} is infinite")
    return advantages, ~missing


def checked_reply(reply: Reply | None, row: int) -> Reply:
    """Return a row's reply, or raise ValueError where it cannot be trained on."""
    if reply is not None and reply.finish == "prompt-too-long":
        raise ValueError(
            f"row {row} has no reply, its prompt did not fit: train on baselines.play.reply_costs.written(table)"
        )
    if reply is None or not reply.token_ids or not reply.prompt_ids:
        raise ValueError(f"row {row} has no reply tokens; only a policy that returns token ids can be trained")
    if len(reply.logprobs) != len(reply.token_ids):
        raise ValueError(
            f"row {row}: {len(reply.token_ids)} reply tokens but {len(reply.logprobs)} log-probabilities; "
            "the policy must return one log-probability per token"
        )
    if not all(map(math.isfinite, reply.logprobs)):
        raise ValueError(f"row {row}: its log-probabilities must be finite, got {reply.logprobs}")
    return reply


@dataclass(frozen=True, eq=False)
class TokenColumns:
    """Where the reply tokens of N steps in M trajectories stand, reply by reply or one trajectory behind the other.

        per reply        float (N, K): row of the table, token of its reply
        per trajectory   float (M, L): trajectory, token among all reply tokens of its turns

    Credit over tokens reads the second form, models and losses the first.

    Attributes:
        order: int64 (N,), rows by trajectory, then t.
        reply_mask: bool (N, K), True = a token of the row's reply; K is the length of the longest.
        mask: bool (M, L), True = a reply token; L is the largest number of reply tokens in a trajectory.
        turn_ends: bool (M, L), True = the last token of a turn's reply.
    """

    order: Ints
    reply_mask: Bools
    mask: Bools
    turn_ends: Bools

    @classmethod
    def from_table(cls, table: StepTable) -> Self:
        """Read the lengths of the replies.

        Raises:
            ValueError: as `reply_lengths`.
        """
        lengths = reply_lengths(table)
        reply_mask = _left(lengths)
        tokens = np.bincount(table.trajectory, weights=lengths, minlength=table.n_trajectories).astype(np.int64)
        mask = _left(tokens)
        turn_ends = np.zeros(mask.shape, np.bool_)
        ended = lengths[table.order, None] - 1 == np.arange(reply_mask.shape[1])
        turn_ends[mask] = ended[reply_mask[table.order]]
        return cls(table.order, reply_mask, mask, turn_ends)

    def by_trajectory(self, per_reply: NDArray[np.float64]) -> Floats:
        """Return float64 (M, L) from (N, K); 0 where masked."""
        result = np.zeros(self.mask.shape)
        # Both masks list the same tokens in the same order: trajectory, turn, place in the reply.
        result[self.mask] = per_reply[self.order][self.reply_mask[self.order]]
        return result

    def by_reply(self, per_trajectory: NDArray[np.float64]) -> Floats:
        """Return float64 (N, K) from (M, L); 0 where masked."""
        ordered = np.zeros(self.reply_mask.shape)
        ordered[self.reply_mask[self.order]] = per_trajectory[self.mask]
        result = np.empty(ordered.shape)
        result[self.order] = ordered
        return result

    def at_turn_ends(self, per_row: NDArray[np.float64]) -> Floats:
        """Return float64 (M, L) from (N,): each row's number on the last token of its reply, else 0."""
        result = np.zeros(self.mask.shape)
        result[self.turn_ends] = per_row[self.order]
        return result


def _left(lengths: Ints) -> Bools:
    """Bool (n, longest): row i begins with lengths[i] Trues."""
    return np.arange(lengths.max(initial=0)) < lengths[:, None]
