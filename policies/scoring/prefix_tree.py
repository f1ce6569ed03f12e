"""Scores of replies in few tokens: rows that begin alike read their common beginning once.

    row 0    prompt a b c    reply x y      a b c x | z . d x      branches of one tree, 6 tokens instead of 4 + 4 + 4
    row 1    prompt a b c    reply z w      0 1 2 3   3 . 2 3      positions
    row 2    prompt a b d    reply x v      6 6 4 4   5 . 6 6      a token is seen from its own place up to this one

Rollouts of one task repeat the question, and often a whole prompt, under different replies. A token sees itself and its
ancestors, at the position it has in its own row, so every number is that of `policies.scoring.score_replies`, and
gradients of what is shared add up. In depth-first order the descendants of a token follow it without a gap: one
number a token, where they stop, gives the mask.

`policies.scoring.packed` shares only between rows that continue each other, needs no mask, and suits attention that
reads packed sequences by their positions. Here the mask is dense: for CPUs, and passes of a few hundred tokens.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from agentgym.trajectory import Ints
from policies.pretrained import text_config
from policies.scoring.head import takes_positions
from policies.scoring.packed import Pass, look_alike, score_passes
from policies.scoring.tokens import TokenScores, check_rows

# A row joins the tree before it where it brings at most so many new tokens for each one it shares: attention over
# branches that it does not see would cost more than what is saved.
_NEW_PER_SHARED = 4
# Masks of these kinds of attention can be given.
_MASKED = ("sdpa", "eager")


@dataclass(frozen=True, eq=False)
class Tree:
    """Inputs of rows that begin alike, in depth-first order.

    Attributes:
        tokens: int64 (T,).
        positions: int64 (T,), how many ancestors each token has.
        stops: int64 (T,): token j is seen by the tokens i with j <= i < stops[j].
        columns: by row, int64 (length of its reply,): the tokens behind which its reply's tokens follow.
    """

    tokens: Ints
    positions: Ints
    stops: Ints
    columns: dict[int, Ints]

    def __len__(self) -> int:
        """Return the number of tokens T."""
        return len(self.tokens)


def merge_trees(prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], most_tokens: int) -> list[Tree]:
    """Gather rows that begin alike; every row is in exactly one tree.

    Args:
        prompts: n non-empty token sequences.
        replies: n non-empty token sequences.
        most_tokens: of a tree; a row that is longer alone is a tree.

    >>> [tree] = merge_trees([(7, 8, 9), (7, 8, 9), (7, 8, 5)], [(1, 2), (3, 4), (1, 6)], 100)
    >>> tree.tokens.tolist(), tree.positions.tolist(), tree.stops.tolist()
    ([7, 8, 5, 1, 9, 1, 3], [0, 1, 2, 3, 2, 3, 3], [7, 7, 4, 4, 7, 6, 7])
    >>> {row: columns.tolist() for row, columns in tree.columns.items()}
    {2: [2, 3], 0: [4, 5], 1: [4, 6]}
    """
    inputs = [np.array([*prompt, *reply[:-1]], np.int64) for prompt, reply in zip(prompts, replies, strict=True)]
    growing: list[_Growing] = []
    # As big-endian bytes, sequences are in the same order as tuples: neighbours have the longest common beginning.
    for row in sorted(range(len(inputs)), key=lambda row: (inputs[row].astype(">u4").tobytes(), row)):
        one, shared = inputs[row], growing[-1].shared(inputs[row]) if growing else 0
        new = len(one) - shared
        if not growing or new > _NEW_PER_SHARED * shared or growing[-1].size + new > most_tokens:
            growing.append(_Growing())
            shared = 0
        path = growing[-1].add(one, shared)
        start = len(prompts[row]) - 1
        growing[-1].columns[row] = path[start : start + len(replies[row])]
    return sorted((each.tree() for each in growing), key=lambda tree: min(tree.columns))


class _Growing:
    """A tree to which sequences are added in their order."""

    def __init__(self) -> None:
        self.size = 0
        self.columns: dict[int, Ints] = {}
        self._tokens: list[Ints] = []
        self._positions: list[Ints] = []
        self._stops: dict[int, int] = {}  # of those that ended before the last token
        self._last = self._path = np.zeros(0, np.int64)

    def shared(self, tokens: Ints) -> int:
        """Return how many tokens a sequence has in common with the last one."""
        size = min(len(tokens), len(self._last))
        differing = np.flatnonzero(tokens[:size] != self._last[:size])
        return int(differing[0]) if len(differing) else size

    def add(self, tokens: Ints, shared: int) -> Ints:
        """Add a sequence that has its first tokens in common with the last one; return where its tokens are."""
        self._stops.update(dict.fromkeys(self._path[shared:].tolist(), self.size))
        new = len(tokens) - shared
        self._path = np.concatenate([self._path[:shared], self.size + np.arange(new)])
        self._last = tokens
        self._tokens.append(tokens[shared:])
        self._positions.append(np.arange(shared, len(tokens)))
        self.size += new
        return self._path

    def tree(self) -> Tree:
        stops = np.full(self.size, self.size)
        stops[list(self._stops)] = list(self._stops.values())
        return Tree(np.concatenate(self._tokens), np.concatenate(self._positions), stops, self.columns)


def pack_trees(trees: Sequence[Tree], tokens: int) -> list[list[list[Tree]]]:
    """Distribute trees over passes, and within a pass over lines that are as long as its longest tree.

    A pass of several lines costs attention the square of a line, not of all its tokens.

    Args:
        trees: of any lengths.
        tokens: most tokens of a pass, padding included; a longer tree gets one of its own.

    Returns:
        passes of lines of trees; first fit, longest first.

    Raises:
        ValueError: `tokens` is below 1.
    """
    if tokens < 1:
        raise ValueError(f"a pass holds at least 1 token, got {tokens}")
    passes = []
    left = sorted(trees, key=lambda tree: -len(tree))
    while left:
        width = len(left[0])
        lines: list[list[Tree]] = [[] for _ in range(max(1, tokens // width))]
        room = [width] * len(lines)
        later = []
        for tree in left:
            line = next((i for i, free in enumerate(room) if free >= len(tree)), None)
            if line is None:
                later.append(tree)
            else:
                lines[line].append(tree)
                room[line] -= len(tree)
        passes.append([line for line in lines if line])
        left = later
    return passes


def tree_rows_per_pass(
    prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]], tokens_per_pass: int
) -> list[list[int]]:
    """Return the rows of each pass of `score_trees`, so that each can have its backward pass before the next."""
    passes = pack_trees(merge_trees(prompts, replies, tokens_per_pass), tokens_per_pass)
    return [sorted(row for line in lines for tree in line for row in tree.columns) for lines in passes]


def score_trees(
    model: Any,
    prompts: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    *,
    temperature: float = 1.0,
    tokens_per_pass: int = 1024,
    entropy: bool | None = False,
    precision: torch.dtype | None = None,
    allowed: Sequence[Sequence[Sequence[int]]] | None = None,
) -> TokenScores:
    """Score replies: trees instead of rows, passes of a given size, the output head in pieces.

    Args:
        model: a Hugging Face causal language model whose layers all attend to everything before, with attention
            "sdpa" or "eager".
        prompts: see `policies.scoring.packed.score_packed`, as the rest.
        replies: n non-empty token sequences.
        temperature: divides the logits, above 0.
        tokens_per_pass: most tokens of one forward pass, padding included; a row that is longer gets a pass of its
            own. With gradients enabled all passes are kept until the backward pass: see `tree_rows_per_pass`.
        entropy: see `policies.scoring.score_replies`, as `precision` and `allowed`.
        precision: autocast type.
        allowed: what each reply token was drawn among.

    Raises:
        ValueError: see `policies.scoring.score_replies`; or the model cannot be told what a token sees.
    """
    check_rows(prompts, replies, temperature)
    _examine(model, precision)

    def passes() -> Iterable[Pass]:
        for lines in pack_trees(merge_trees(prompts, replies, tokens_per_pass), tokens_per_pass):
            reads = []
            for number, line in enumerate(lines):
                begin = 0
                for tree in line:
                    reads += [(row, number, begin + columns) for row, columns in tree.columns.items()]
                    begin += len(tree)
            yield Pass(_lay(model, lines), reads)

    given: dict[str, Any] = {"entropy": entropy, "precision": precision, "allowed": allowed}
    return score_passes(model, passes(), replies, temperature=temperature, **given)


def _lay(model: Any, lines: Sequence[Sequence[Tree]]) -> dict[str, Tensor]:
    """Token ids and positions int64 (n, W) of n lines, and the mask (n, 1, W, W): query i sees key j."""
    width = max(sum(map(len, line)) for line in lines)
    ids, positions = np.zeros((2, len(lines), width), np.int64)
    stops: NDArray[np.int64] = np.tile(np.arange(1, width + 1), (len(lines), 1))  # padding sees itself
    for number, line in enumerate(lines):
        begin = 0
        for tree in line:
            place = slice(begin, begin + len(tree))
            ids[number, place], positions[number, place] = tree.tokens, tree.positions
            stops[number, place] = begin + tree.stops
            begin += len(tree)
    query, key = np.arange(width)[:, None], np.arange(width)
    seen = (key <= query) & (query < stops[:, None, :])
    mask = _mask(model, torch.from_numpy(seen)[:, None])
    return {"input_ids": torch.from_numpy(ids), "position_ids": torch.from_numpy(positions), "attention_mask": mask}


def _mask(model: Any, seen: Tensor) -> Tensor:
    """Return the mask as the model's attention takes it: "eager" adds it to its scores."""
    if model.config._attn_implementation == "sdpa":
        return seen
    dtype = next(model.parameters()).dtype
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


# The attention under which a model was found to keep branches apart.
_EXAMINED: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


def _examine(model: Any, precision: torch.dtype | None) -> None:
    """Refuse a model that cannot be given a mask.

    Two equal branches must be read alike. Where the second sees the first, or goes on counting its positions, the
    log-probabilities of every row but the first would be wrong without an error.
    """
    attention = str(getattr(model.config, "_attn_implementation", ""))
    if _EXAMINED.get(model) == attention:
        return
    name, instead = type(model).__name__, "score it with share_prefixes=False"
    config = text_config(model)
    kinds = set(getattr(config, "layer_types", None) or ())
    windowed = not kinds and getattr(config, "sliding_window", None) is not None
    if not takes_positions(model) or attention not in _MASKED or kinds - {"full_attention"} or windowed:
        raise ValueError(
            f"{name} with attention {attention!r} and layers {sorted(kinds) or ''} cannot share prefixes: it needs "
            f"position_ids, attention out of {_MASKED}, and layers that attend to everything before; {instead}"
        )
    size = min(8, model.get_input_embeddings().num_embeddings)
    shared = size // 2
    # A sequence, and from its middle on the same once more.
    tokens, again = np.arange(size), np.arange(shared, size)
    stops = np.full(size + len(again), size + len(again))
    stops[shared:size] = size
    tree = Tree(np.concatenate([tokens, again]), np.concatenate([tokens, again]), stops, {})
    apart, most = look_alike(model, _lay(model, [[tree]]), slice(shared, size), slice(size, None), precision)
    if not apart <= most:
        raise ValueError(
            f"{name} with attention {attention!r} lets branches that share a prefix see each other (they differ by "
            f"{apart:.1e}); {instead}"
        )
    _EXAMINED[model] = attention
