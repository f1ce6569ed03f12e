"""TokenColumns: the reply tokens of a table, reply by reply or one trajectory behind the other.

    per reply        float (N, K): row of the table, place in its reply
    per trajectory   float (M, L): trajectory, place among all reply tokens of its turns

Credit over tokens (`wrappers.credit.token_gae`) reads the second form, models and losses the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from agentgym.trajectory import Bools, Floats, Ints, StepTable


def reply_lengths(table: StepTable) -> Ints:
    """Return int64 (N,): how many tokens each row's reply has.

    Raises:
        ValueError: the table holds no replies, or a row's reply no tokens.
    """
    if table.replies is None:
        raise ValueError("the table holds no replies; collect it with a policy that returns token ids")
    lengths = np.array([0 if reply is None else len(reply.token_ids) for reply in table.replies], np.int64)
    if not lengths.all():
        row = int(np.argmin(lengths))
        raise ValueError(f"row {row} has no reply tokens; only a policy that returns token ids can be trained")
    return lengths


@dataclass(frozen=True, eq=False)
class TokenColumns:
    """Where the reply tokens of N steps in M trajectories stand.

    Two trajectories of two turns and one, with replies of 1, 2 and 1 tokens: `reply_mask` has shape (3, 2), `mask` is
    `[[True, True, True], [True, False, False]]` and `turn_ends` `[[True, False, True], [True, False, False]]`.

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
    columns: Bools = np.arange(lengths.max(initial=0)) < lengths[:, None]
    return columns
