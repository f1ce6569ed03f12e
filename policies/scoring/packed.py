"""Scores of replies in few tokens: rows that continue each other are one sequence, sequences share a pass.

    row 0    prompt a b      reply c            a b c | d e f | g h        one chain of 8 tokens
    row 1    prompt a b c d  reply e f          spans: row 0 at 2, row 1 at 4, row 2 at 6
    row 2    prompt a b c d e f  reply g h i

Attention is causal, so the beginning of a sequence does not depend on the rest: a transcript whose turns are the
rows costs its length once instead of once per turn. Chains are laid one after another, each with position numbers
from 0, and no chain sees another: by the kernel of the attention, or run by run (`policies.scoring.attention`).
`policies.scoring.score_replies` computes the same row by row.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from agentgym.trajectory import Ints
from policies.scoring.attention import Runs, may_take_runs, with_runs
from policies.scoring.head import (
    Rows,
    TokenFigures,
    attention_of,
    autocast,
    head_is_plain,
    hidden_at,
    logits_at,
    once_per_model,
    takes_positions,
    token_logprobs,
)
from policies.scoring.tokens import TokenScores, by_token, check_rows

# Two equal sequences in one pass that differ by more than this, relative to the largest number, have seen each other.
_SAME, _SAME_IN_16_BITS = {torch.float32: 1e-4, torch.float64: 1e-4}, 0.02
# Attention whose cost is that of the chains, not of the whole pass squared.
_VARLEN = ("flash", "flex")


class _Tokens(Protocol):
    @property
    def tokens(self) -> Sequence[int] | Ints: ...


Line = TypeVar("Line", bound=_Tokens)


@dataclass(frozen=True)
class Chain:
    """One token sequence that holds the inputs of one or more rows.

    Attributes:
        tokens: the inputs of the longest row: its prompt, and its reply without the last token.
        spans: (row, start) of every row in it: its reply's first token follows `tokens[start - 1]`.
    """

    tokens: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


def merge_chains(prompts: Rows, replies: Rows) -> list[Chain]:
    """Find the rows whose inputs are the beginning of another row's, and make them one sequence.

    A reply need not continue another one: all one-token replies to one prompt are one chain as well. Every row is
    in exactly one chain; chains are in the order of their first rows.

    >>> merge_chains([(7, 8), (5,), (7, 8, 9, 4)], [(9,), (6, 6), (3,)])
    [Chain(tokens=(7, 8, 9, 4), spans=((0, 2), (2, 4))), Chain(tokens=(5, 6), spans=((1, 1),))]
    """
    inputs = [(*prompt, *reply[:-1]) for prompt, reply in zip(prompts, replies, strict=True)]
    # As big-endian bytes, sequences are in the same order as tuples, and are compared at the speed of memory.
    keys = [np.array(tokens, ">u4").tobytes() for tokens in inputs]
    chains: list[list[int]] = []
    longest = b""
    # A prefix stands before its continuations, and before nothing else that is not one: its neighbour is one.
    for row in sorted(range(len(keys)), key=lambda row: (keys[row], -row), reverse=True):
        if not chains or not longest.startswith(keys[row]):
            chains.append([])
            longest = keys[row]
        chains[-1].append(row)
    found = [
        Chain(inputs[rows[0]], tuple((row, len(prompts[row])) for row in sorted(rows)))
        for rows in chains
    ]  # fmt: skip
    return sorted(found, key=lambda chain: chain.spans[0][0])


def pack(chains: Sequence[Line], tokens: int) -> list[list[Line]]:
    """Distribute chains, or trees, over passes of at most `tokens` tokens; a longer one gets a separate pass.

    First fit, longest first: at most 11/9 of the fewest passes possible, plus one (Johnson 1973).

    Raises:
        ValueError: `tokens` is below 1.
    """
    if tokens < 1:
        raise ValueError(f"a pass holds at least 1 token, got {tokens}")
    passes: list[list[Line]] = []
    room: list[int] = []
    for chain in sorted(chains, key=lambda chain: -len(chain.tokens)):
        length = len(chain.tokens)
        place = next((i for i, left in enumerate(room) if left >= length), len(passes))
        if place == len(passes):
            passes.append([])
            room.append(tokens)
        passes[place].append(chain)
        room[place] -= length
    return passes


def rows_per_pass(prompts: Rows, replies: Rows, tokens_per_pass: int) -> list[list[int]]:
    """Return the rows of each pass of `score_packed`, so that each can have its backward pass before the next."""
    passes = pack(merge_chains(prompts, replies), tokens_per_pass)
    return [sorted(row for chain in each for row, _ in chain.spans) for each in passes]


def score_packed(
    model: Any, prompts: Rows, replies: Rows, *, temperature: float = 1.0, tokens_per_pass: int = 16384,
    entropy: bool | None = False, precision: torch.dtype | None = None, allowed: Sequence[Rows] | None = None,
) -> TokenScores:  # fmt: skip
    """Score replies as `policies.scoring.score_replies` does: chains, passes of a given size, the head in pieces.

    A pass has at most `tokens_per_pass` tokens; a longer chain gets a separate pass. With gradients enabled all passes
    are kept until the backward pass, see `rows_per_pass`.

    Raises:
        ValueError: see `score_replies`; or the model lets packed sequences see each other, or takes no `position_ids`.
    """
    check_rows(prompts, replies, temperature)
    runs = _examine(model, precision)
    lengths = [len(reply) for reply in replies]

    def passes() -> Iterable[Pass]:
        for chains in pack(merge_chains(prompts, replies), tokens_per_pass):
            reads, begin = [], 0
            for chain in chains:
                reads += [(row, 0, begin + start - 1 + np.arange(lengths[row])) for row, start in chain.spans]
                begin += len(chain.tokens)
            yield Pass(_lay(chains, runs), reads)

    given: dict[str, Any] = {"entropy": entropy, "precision": precision, "allowed": allowed}
    return score_passes(model, passes(), replies, temperature=temperature, **given)


class Pass(NamedTuple):
    """A forward pass over several replies.

    Attributes:
        inputs: `input_ids`, int64 (n, W), and other arguments of the forward pass.
        reads: of each reply its number, the line of `input_ids`, and the tokens behind which its tokens follow.
    """

    inputs: dict[str, Any]
    reads: Sequence[tuple[int, int, Ints]]


def score_passes(
    model: Any, passes: Iterable[Pass], replies: Rows, *, temperature: float, entropy: bool | None,
    precision: torch.dtype | None, allowed: Sequence[Rows] | None,
) -> TokenScores:  # fmt: skip
    """Score the replies of some passes; each reply is read in exactly one of them."""
    device, plain = next(model.parameters()).device, head_is_plain(model, precision)
    first = np.concatenate([[0], np.cumsum([len(reply) for reply in replies])])
    places: list[Tensor] = []
    figures: list[TokenFigures] = []
    for inputs, reads in passes:
        parts = [
            (np.full(len(columns), line), columns, replies[row], np.arange(first[row], first[row + 1]))
            for row, line, columns in reads
        ]
        joined = (np.concatenate([np.asarray(each, np.int64) for each in part]) for part in zip(*parts, strict=True))
        lines, columns, targets, flat = (torch.from_numpy(part).to(device, non_blocking=True) for part in joined)
        with autocast(device, precision):
            ids, given = _on(model, inputs)
            if plain:
                hidden, head = hidden_at(model, ids, lines, columns, **given)[0], model.get_output_embeddings()
            else:
                hidden, head = logits_at(model, ids, lines, columns, **given), nn.Identity()
            limits = None if allowed is None else by_token([(allowed[row], replies[row]) for row, _, _ in reads])
            figures.append(
                token_logprobs(head, hidden, targets, temperature=temperature, entropy=entropy, allowed=limits)
            )
        places.append(flat)
    order = torch.cat(places).argsort()
    return TokenScores.from_tokens(replies, *(torch.cat(parts)[order] for parts in zip(*figures, strict=True)))


def _on(model: Any, inputs: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    device = next(model.parameters()).device
    given = {
        name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
        for name, value in inputs.items()
    }
    if device.type == "cuda" and attention_of(model) == "flex_attention":
        # PyTorch 2.11 uses a decoding kernel for lines below 128 tokens, and cannot compile it for some heads.
        given["kernel_options"] = {"FORCE_USE_FLEX_ATTENTION": True}
    return given.pop("input_ids"), given | {"use_cache": False}


@torch.no_grad()
def look_alike(
    model: Any, inputs: dict[str, Any], one: slice, other: slice, precision: torch.dtype | None
) -> tuple[float, float]:
    """Read one line in which two places hold the same sequence.

    Returns:
        The difference of their hidden states, relative to the largest number; and the largest accepted difference.
    """
    device = next(model.parameters()).device
    ids, given = _on(model, inputs)
    columns = torch.arange(ids.shape[1], device=device)
    # The cache of mixed precision would give these copies, which have no gradient, to the pass that needs one.
    with torch.autocast(device.type, dtype=precision, enabled=precision is not None, cache_enabled=False):
        hidden, _ = hidden_at(model, ids, torch.zeros_like(columns), columns, **given)
    apart = float((hidden[one] - hidden[other]).abs().max()) / max(float(hidden.abs().max()), 1e-12)
    # Under autocast the hidden states may be float32 and have the rounding of products in 16 bits.
    return apart, _SAME.get(precision or hidden.dtype, _SAME_IN_16_BITS)


def _lay(chains: Sequence[Chain], runs: bool) -> dict[str, Any]:
    """Token ids and positions of chains one after another, int64 (1, T) each, with their runs if a model takes them."""
    ids = np.concatenate([np.asarray(chain.tokens, np.int64) for chain in chains])
    positions = torch.from_numpy(np.concatenate([np.arange(len(chain.tokens)) for chain in chains]))[None]
    given: dict[str, Any] = {"position_ids": positions}
    if runs:
        given = with_runs(Runs.of([len(chain.tokens) for chain in chains]), positions)
    return {"input_ids": torch.from_numpy(ids)[None], **given}


@once_per_model
def _examine(model: Any, precision: torch.dtype | None) -> bool:
    """Return whether a model is given runs; raise ValueError for one that cannot be packed at all.

    Two equal sequences in one pass must be read alike. If the second one sees the first, or continues its
    positions, the log-probabilities of every packed row would be wrong without an error.
    """
    name, attention = type(model).__name__, attention_of(model)
    if not takes_positions(model):
        raise ValueError(f"{name} takes no position_ids: score it without packing (microbatch_tokens=None)")
    size = min(8, model.get_input_embeddings().num_embeddings)
    chain = Chain(tuple(range(size)), ())
    halves = slice(size), slice(size, None)
    for runs in (True, False) if may_take_runs(model) else (False,):
        apart, most = look_alike(model, _lay([chain, chain], runs), *halves, precision)
        if apart <= most:
            break
    else:
        raise ValueError(
            f"{name} with attention {attention!r} lets sequences that share a pass see each other (they differ by "
            f"{apart:.1e}): score it without packing (microbatch_tokens=None)"
        )
    if next(model.parameters()).device.type == "cuda" and not runs and not has_varlen(model):
        warnings.warn(
            f"attention {attention!r} computes every pair of tokens of a packed pass: load the model with "
            "attn_implementation='flash_attention_2', or keep microbatch_tokens at a few thousand",
            stacklevel=4,
        )
    return runs


def has_varlen(model: Any) -> bool:
    """Return whether the cost of a packed pass is that of its sequences, not that of the whole pass squared."""
    return may_take_runs(model) or any(kind in attention_of(model) for kind in _VARLEN)


def can_pack(model: Any, precision: torch.dtype | None, *, by_runs: bool = False) -> bool:
    """Return whether a model reads packed sequences apart from each other, and given runs: see `score_packed`."""
    try:
        return (not by_runs or may_take_runs(model)) and (_examine(model, precision) or not by_runs)
    except ValueError:
        return False
