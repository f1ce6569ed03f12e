"""Log-probabilities of given replies: the differentiable side of a policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from policies.scoring.attention import Runs, with_runs
from policies.scoring.head import (
    Rows,
    autocast,
    entropies,
    head_is_plain,
    hidden_at,
    logits_at,
    pad,
    restrict,
    token_logprobs,
)

#: Longest row of one pass, in lengths of its shortest.
_SIMILAR = 1.5
#: Logits (64 MiB in float32) up to which the output head runs at once.
_WHOLE_HEAD = 2**24


@dataclass(frozen=True)
class TokenScores:
    """Scores of n replies, each padded at its end to the longest length L.

    Padded entries are 0 (False).

    Attributes:
        logprobs: float32 (n, L), natural logarithm, at the requested temperature.
        entropy: float32 (n, L), of the distribution each token was drawn from, in nats.
        mask: bool (n, L), True = a token of the reply.
        top: bool (n, L), True = no token was more probable at this position.
        distribution: float32 (tokens, V), log-probabilities of the vocabulary at all reply tokens, one reply behind the
            other; None if not requested.
    """

    logprobs: Tensor
    entropy: Tensor
    mask: Tensor
    top: Tensor
    distribution: Tensor | None = None

    @classmethod
    def from_tokens(
        cls, replies: Rows, logprobs: Tensor, entropy: Tensor, top: Tensor, distribution: Tensor | None = None
    ) -> Self:
        """Lay figures of all reply tokens, one reply behind the other, (tokens,) each, out by reply."""
        logprobs, entropy, mask, top = _by_reply(replies, logprobs, entropy, torch.ones_like(top), top)
        return cls(logprobs, entropy, mask, top, distribution)


def _by_reply(replies: Rows, *figures: Tensor) -> list[Tensor]:
    """Return figures of all reply tokens, (tokens,) each, as (n, L), 0 behind a reply's end."""
    lengths = torch.tensor([len(reply) for reply in replies])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    # Places from the host: in the backward pass of a mask, the host would wait for the number of its tokens.
    places = tuple(mask.nonzero().T.to(figures[0].device, non_blocking=True))
    return [figure.new_zeros(mask.shape).index_put(places, figure) for figure in figures]


def score_replies(
    model: Any, prompts: Rows, replies: Rows, *, temperature: float = 1.0, fill: int = 0,
    precision: torch.dtype | None = None, entropy: bool | None = True, allowed: Sequence[Rows] | None = None,
    distributions: bool = False, runs: bool = False,
) -> TokenScores:  # fmt: skip
    """Score n replies, those of similar length in one forward pass; the output head runs at reply positions only.

    Rows that feed the model the same tokens share their pass. Many logits are computed in pieces, see
    `policies.scoring.head.token_logprobs`. Prompts and replies are non-empty.

    Args:
        model: a Hugging Face causal language model.
        prompts: token ids.
        replies: token ids.
        temperature: divides the logits, above 0.
        precision: autocast type, None for the weights' own.
        entropy: True: differentiable. False: without gradient. None: not computed, 0.
        allowed: n entries like `agentgym.trajectory.Reply.allowed`; None: every token was drawn among all.
        distributions: whether those at all tokens are returned.
        runs: the model takes runs (`policies.scoring.attention`). transformers then does not look for packed sequences,
            for which the host waits for the device.
    """
    vocabulary = getattr(model.get_output_embeddings(), "out_features", 0)
    pieces = vocabulary * sum(map(len, replies)) > _WHOLE_HEAD and head_is_plain(model, precision)
    if pieces:
        check_rows(prompts, replies, temperature)
        device = next(model.parameters()).device
        layout = _Layout.of(prompts, replies)
        with autocast(device, precision):
            hidden = _read(model, layout, fill, device, runs, lambda *at, **how: hidden_at(*at, **how)[0])
            found = token_logprobs(
                model.get_output_embeddings(), hidden[torch.tensor(layout.reads).to(device, non_blocking=True)],
                torch.tensor(layout.targets).to(device, non_blocking=True), temperature=temperature, entropy=entropy,
                allowed=None if allowed is None else by_token(list(zip(allowed, replies, strict=True))),
            )  # fmt: skip
        return TokenScores.from_tokens(replies, *found)
    distribution, read, targets = _distributions(
        model, prompts, replies, temperature=temperature, fill=fill, precision=precision, allowed=allowed, runs=runs
    )
    logprobs = distribution[read, targets]
    top = logprobs.detach() >= distribution.detach().amax(-1)[read]
    whole = distribution[read] if distributions else None
    return TokenScores.from_tokens(replies, logprobs, entropies(distribution, entropy)[read], top, whole)


def by_token(rows: Sequence[tuple[Rows, Sequence[int]]]) -> list[Sequence[int]]:
    """Return what each token of some replies was drawn among, from (`Reply.allowed`, `Reply.token_ids`) of each."""
    return [ids for allowed, reply in rows for ids in allowed or ((),) * len(reply)]


def score_with_divergence(
    model: Any, other: Any, prompts: Rows, replies: Rows, *, temperature: float = 1.0, fill: int = 0,
    precision: torch.dtype | None = None, allowed: Sequence[Rows] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Score replies as `score_replies` does, and say how far the model is from another one at each of their tokens.

    The divergence is exact, a sum over the vocabulary: what a reply's log-ratio of the two models is short of 0 on
    average, where the other model writes. All logits of both models are kept for the backward pass; `other` gets none.

    Returns:
        Log-probabilities under the model, and KL(other || model), in nats: float32 (n, L) each, 0 behind a reply's end.
    """
    rest: dict[str, Any] = {"temperature": temperature, "fill": fill, "precision": precision, "allowed": allowed}
    distribution, read, targets = _distributions(model, prompts, replies, **rest)
    with torch.no_grad():
        theirs, _, _ = _distributions(other, prompts, replies, **rest)
    least = torch.finfo(torch.float32).min
    divergence = (theirs.exp() * (theirs.clamp(min=least) - distribution.clamp(min=least))).sum(-1)
    logprobs, apart = _by_reply(replies, distribution[read, targets], divergence[read])
    return logprobs, apart


def _distributions(
    model: Any, prompts: Rows, replies: Rows, *, temperature: float, fill: int, precision: torch.dtype | None,
    allowed: Sequence[Rows] | None, runs: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Log-probabilities of all tokens at the distinct places, (places, vocabulary), and for every reply token which.

    Returns:
        The log-probabilities; int64 (tokens,), the place of each reply token; int64 (tokens,), the token.
    """
    check_rows(prompts, replies, temperature)
    device = next(model.parameters()).device
    layout = _Layout.of(prompts, replies)
    with autocast(device, precision):
        logits = _read(model, layout, fill, device, runs, logits_at)
    read = torch.tensor(layout.reads).to(device, non_blocking=True)
    if allowed is not None:
        logits = restrict(logits[read], by_token(list(zip(allowed, replies, strict=True))))
        read = torch.arange(len(layout.reads), device=device)
    return (
        torch.log_softmax(logits / temperature, dim=-1),
        read,
        torch.tensor(layout.targets).to(device, non_blocking=True),
    )


class _Layout(NamedTuple):
    """The distinct inputs of some rows, and where their reply tokens are read.

    Attributes:
        slots: (input, column) of each place whose logits are wanted.
        reads: of each reply token its place in `slots`.
    """

    inputs: list[tuple[int, ...]]
    slots: list[tuple[int, int]]
    reads: list[int]
    targets: list[int]

    @classmethod
    def of(cls, prompts: Rows, replies: Rows) -> Self:
        # The last token of a reply is never an input.
        inputs = [(*prompt, *reply[:-1]) for prompt, reply in zip(prompts, replies, strict=True)]
        distinct = list(dict.fromkeys(inputs))
        index = {sequence: row for row, sequence in enumerate(distinct)}
        slots: dict[tuple[int, int], int] = {}
        reads: list[int] = []
        targets: list[int] = []
        for sequence, prompt, reply in zip(inputs, prompts, replies, strict=True):
            row = index[sequence]
            for offset, token in enumerate(reply):
                reads.append(slots.setdefault((row, len(prompt) - 1 + offset), len(slots)))
                targets.append(token)
        return cls(distinct, list(slots), reads, targets)


def _read(
    model: Any, layout: _Layout, fill: int, device: torch.device, runs: bool, at: Callable[..., Tensor]
) -> Tensor:  # fmt: skip
    parts: list[Tensor] = []
    order: list[int] = []
    for group in _alike(layout.inputs):
        place = {row: i for i, row in enumerate(group)}
        mine = [slot for slot, (row, _) in enumerate(layout.slots) if row in place]
        rows = torch.tensor([place[layout.slots[slot][0]] for slot in mine]).to(device, non_blocking=True)
        columns = torch.tensor([layout.slots[slot][1] for slot in mine]).to(device, non_blocking=True)
        ids, _ = pad([layout.inputs[row] for row in group], fill=fill, left=False, device=device)
        every = torch.arange(ids.shape[1], device=device)[None]
        given = with_runs(Runs.of([ids.shape[1]]), every) if runs else {}
        parts.append(at(model, ids, rows, columns, use_cache=False, **given))
        order += mine
    if len(parts) == 1:
        return parts[0]
    back = torch.empty(len(order), dtype=torch.int64, device=device)
    back[torch.tensor(order).to(device, non_blocking=True)] = torch.arange(len(order), device=device)
    return torch.cat(parts)[back]


def _alike(sequences: Rows) -> list[list[int]]:
    """Return rows in groups of similar length: a short row does not pay for the padding to a long one.

    >>> _alike([[0] * length for length in (30, 100, 31, 140, 29)])
    [[4, 0, 2], [1, 3]]
    """
    lengths = [len(sequence) for sequence in sequences]
    if max(lengths) <= _SIMILAR * min(lengths):
        return [list(range(len(lengths)))]
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if not groups or lengths[row] > _SIMILAR * lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(row)
    return groups


def check_rows(prompts: Rows, replies: Rows, temperature: float) -> None:
    """Refuse rows that cannot be scored, see `score_replies`."""
    if len(prompts) != len(replies) or not prompts:
        raise ValueError(
            "expected one reply per prompt and at least one pair, "
            f"got {len(prompts)} prompts and {len(replies)} replies"
        )
    for name, sequences in (("prompt", prompts), ("reply", replies)):
        for position, sequence in enumerate(sequences):
            if not sequence:
                raise ValueError(f"{name} {position} has no tokens: leave such rows out before scoring")
            if min(sequence) < 0:  # counted from the end of the vocabulary
                raise ValueError(f"{name} {position} has the token id {min(sequence)}; ids are at least 0")
    if not temperature > 0:
        raise ValueError(f"scoring needs a temperature above 0, got {temperature}: use the sampling temperature")
