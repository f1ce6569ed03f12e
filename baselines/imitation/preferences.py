"""Learning from preferences: of two episodes, or of two ways on from a step, the better one is to gain likelihood.

    L = mean over pairs of  -log sigma( beta (r(better) - r(worse)) )  -  likelihood * log pi(better)
    r(side) = sum over the tokens of its replies of  log pi - log pi_ref

Only reply tokens are in it. A row (prompt and reply) that both sides have cancels, and is computed once.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from agentgym.checks import real, whole
from agentgym.trajectory import Ints, Reply, Trajectory
from baselines.config import Memory
from baselines.imitation.episodes import written_replies
from baselines.imitation.updates import Updates
from baselines.losses import preference
from baselines.scorers.losses import outcome_pairs, trajectory_scores
from baselines.scorers.network import joint_losses
from baselines.update import Limits
from policies.training import check_trainable, recomputed_activations

#: Rows per pass where no gradients are kept.
_SCORING_ROWS = 256


@dataclass(frozen=True)
class Preference:
    """Two sequences of replies, each with prompt ids and token ids, that begin in the same state."""

    better: tuple[Reply, ...]
    worse: tuple[Reply, ...]


@dataclass(frozen=True)
class Preferred:
    """What learning from preferences found, means over all pairs and passes, measured while learning.

    Attributes:
        accuracy: share of pairs whose better side has the larger log-ratio.
        margin: beta times the difference of the log-ratios.
    """

    loss: float = 0.0
    accuracy: float = 0.0
    margin: float = 0.0
    pairs: int = 0


def episode_preferences(
    episodes: Sequence[Trajectory],
    *,
    margin: float | None = None,
    between: Callable[[int, int], bool] = lambda better, worse: True,
    per_task: int = 0,
    seed: int = 0,
) -> list[Preference]:
    """Return pairs of a better and a worse episode of one task.

    Args:
        margin: None: won episodes are better than lost ones. A number, at least 0: those whose return is larger by
            more than that.
        between: whether two episodes, by their numbers, may be a pair.
        per_task: most pairs of a task, drawn at random; 0: all.

    Raises:
        ValueError: a number is out of range.
    """
    per_task = whole("per_task", per_task, 0)
    if margin is not None:
        margin = real("margin", margin, 0, expected="None or a finite number of at least 0")
    names: dict[Any, int] = {}
    group = np.array([names.setdefault(episode.group, len(names)) for episode in episodes], np.int64)
    won = np.array([episode.won for episode in episodes], np.bool_)
    returns = np.array([sum(step.reward for step in episode.steps) for episode in episodes], np.float64)
    pairs = outcome_pairs(group, won, returns, margin=margin)
    rng = np.random.default_rng(seed)
    found: dict[int, list[tuple[int, int]]] = {}
    for better, worse in zip(pairs.better.tolist(), pairs.worse.tolist(), strict=True):
        if between(better, worse):
            found.setdefault(int(group[better]), []).append((better, worse))
    chosen = [
        pairs_of_task[i]
        for pairs_of_task in found.values()
        for i in sorted(rng.permutation(len(pairs_of_task))[: per_task or None].tolist())
    ]
    written = [written_replies(episode) for episode in episodes]
    sides = [(written[better], written[worse]) for better, worse in chosen]
    return [Preference(better, worse) for better, worse in sides if better and worse]


def prefer(
    policy: Any, pairs: Sequence[Preference], *, learning_rate: float, reference: Any = None, beta: float = 0.1,
    likelihood: float = 0.0, microbatch_rows: int | None = None, **options: Any,
) -> Preferred:  # fmt: skip
    """Train a policy, in place, to prefer the better side of each pair; the module has the loss.

    Args:
        pairs: what is learned. Without pairs nothing happens.
        reference: scores log pi_ref; None: the current policy.
        beta: above 0, see `baselines.losses.preference`.
        likelihood: weight of the better side's log-likelihood, a sum over its tokens; 0: DPO.
        microbatch_rows: distinct rows per forward and backward pass; None: those of a batch. Changes memory only.
        **options: further fields of `baselines.imitation.updates.Updates`; `seed` is required. By default one epoch,
            `batch_size` 16, `warmup` 5 and no `weight_decay`.

    Raises:
        TypeError: an unknown option, or a value of the wrong type.
        ValueError: a number is out of range, a side of a pair is empty, or a trainable weight has fewer than 32 bits.
        FloatingPointError: the gradient is not finite; the weights are those of the last good update.
    """
    if not 0 < beta < math.inf or not 0 <= likelihood < math.inf:
        raise ValueError(
            f"prefer needs a finite beta above 0 and a finite likelihood of at least 0, got {beta} and {likelihood}"
        )
    usual = {"epochs": 1, "batch_size": 16, "weight_decay": 0.0, "warmup": 5}
    updates, memory = Updates(learning_rate=learning_rate, **(usual | options)), Memory(microbatch_rows)
    check_trainable(policy.model)
    if any(not side for pair in pairs for side in (pair.better, pair.worse)):
        raise ValueError("each side of a preference needs at least one reply with tokens")
    if not pairs:
        return Preferred()
    rows, sides = _distinct(pairs)
    with torch.no_grad():
        frozen = policy if reference is None else reference
        scoring = Limits.of(frozen, Memory(microbatch_rows or _SCORING_ROWS), *_tokens(rows))
        start = _all_likelihoods(frozen, rows, scoring)
    limits = Limits.of(policy, memory, *_tokens(rows))
    sums = torch.zeros(3, dtype=torch.float64)
    for batch in updates.batches(policy.model, len(pairs)):
        compared = _Compared.of([sides[item] for item in batch.items])
        begun = compared.sums(start[compared.rows])

        def loss_of(rows: Tensor, compared: _Compared = compared, begun: tuple[Tensor, Tensor] = begun) -> Tensor:
            better, worse = compared.sums(rows)
            losses = preference(better, worse, *begun, beta) - likelihood * better
            margins = (beta * ((better - begun[0]) - (worse - begun[1]))).detach()
            sums.add_(torch.stack([losses.detach().sum(), (margins > 0).sum(), margins.sum()]).double().cpu())
            return losses.mean()

        with recomputed_activations(policy.model) if limits.recompute else contextlib.nullcontext():
            _add_gradient(policy, [rows[row] for row in compared.rows], loss_of, limits)
    loss, accuracy, margin = (sums / (updates.epochs * len(pairs))).tolist()
    return Preferred(loss, accuracy, margin, len(pairs))


@dataclass(frozen=True, eq=False)
class _Compared:
    """P pairs of one update over their distinct rows.

    Attributes:
        rows: the rows, by number, n of them.
        place: int64 (K,), for each reply of each side its place in `rows`.
        side: int64 (K,), the side it belongs to: 0..P-1 better ones, P..2P-1 worse ones.
    """

    rows: list[int]
    place: Tensor
    side: Tensor
    pairs: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Self:
        sides = [pair[which] for which in (0, 1) for pair in pairs]
        rows = sorted({row for side in sides for row in side})
        place = {row: i for i, row in enumerate(rows)}
        flat = torch.tensor([place[row] for side in sides for row in side])
        side = torch.repeat_interleave(torch.arange(len(sides)), torch.tensor([len(side) for side in sides]))
        return cls(rows, flat, side, len(pairs))

    def sums(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of (n,) over the better and the worse sides, (P,) each."""
        place, side = self.place.to(rows.device), self.side.to(rows.device)
        found = trajectory_scores(rows[place], side, 2 * self.pairs)
        return found[: self.pairs], found[self.pairs :]


def _distinct(pairs: Sequence[Preference]) -> tuple[list[Reply], list[tuple[list[int], list[int]]]]:
    numbers: dict[tuple[Any, ...], int] = {}
    rows: list[Reply] = []

    def number(reply: Reply) -> int:
        key = (reply.prompt_ids, reply.token_ids, reply.allowed)
        if key not in numbers:
            numbers[key] = len(rows)
            rows.append(reply)
        return numbers[key]

    return rows, [([number(r) for r in pair.better], [number(r) for r in pair.worse]) for pair in pairs]


def _tokens(rows: Sequence[Reply]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return [row.prompt_ids for row in rows], [row.token_ids for row in rows]


def _likelihoods(policy: Any, rows: Sequence[Reply], limits: Limits) -> Tensor:
    """Return float (n,): each reply's log-likelihood at temperature 1, a sum over its tokens."""
    allowed = [row.allowed for row in rows]
    given = limits.scoring | ({"allowed": allowed} if any(allowed) else {})
    return policy.score(*_tokens(rows), temperature=1.0, entropy=None, **given).logprobs.sum(1)


@torch.no_grad()
def _all_likelihoods(policy: Any, rows: Sequence[Reply], limits: Limits) -> Tensor:
    parts = limits.passes(*_tokens(rows), np.arange(len(rows)))
    found = torch.cat([_likelihoods(policy, [rows[row] for row in part], limits) for part in parts])
    return found[torch.from_numpy(np.argsort(np.concatenate(parts))).to(found.device)]


def _add_gradient(policy: Any, rows: Sequence[Reply], loss_of: Callable[[Tensor], Tensor], limits: Limits) -> None:
    parts = limits.passes(*_tokens(rows), np.arange(len(rows)))
    place = torch.from_numpy(np.argsort(np.concatenate(parts)))

    def predict(part: Ints) -> Tensor:
        return _likelihoods(policy, [rows[row] for row in part], limits)

    for loss, _ in joint_losses(predict, parts, lambda found: loss_of(found[place.to(found.device)])):
        loss.backward()
