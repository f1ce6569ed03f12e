"""Scores of replies in few tokens: rows that begin alike read their common beginning once.

    row 0    prompt a b c    reply x y      a b c x | z . d x      branches of one tree, 6 tokens instead of 4 + 4 + 4
    row 1    prompt a b c    reply z w      0 1 2 3   3 . 2 3      positions
    row 2    prompt a b d    reply x v      6 6 4 4   5 . 6 6      a token is seen from its own place up to this one

Rollouts of one task repeat the question, and often a whole prompt, under different replies. A token sees itself and its
ancestors, at the position it has in its own row, so every number is that of `policies.scoring.score_replies`, and
gradients of what is shared add up. In depth-first order the descendants of a token follow it without a gap: one
number a token, where they stop, says what it is seen by. Attention goes run by run (`policies.scoring.attention`).

`policies.scoring.packed` shares only between rows that continue each other, and suits any attention that reads packed
sequences by their positions.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.trajectory import Ints
from policies.pretrained import text_config
from policies.scoring.attention import Runs, may_take_runs, with_runs
from policies.scoring.head import Rows, attention_of, once_per_model
from policies.scoring.packed import Pass, look_alike, pack, score_passes
from policies.scoring.tokens import TokenScores, check_rows

# A row joins the previous tree if it has at most so many new tokens for each shared one: rows of one tree go into the
# same mini-batch, and a common first token is no reason for that.
_NEW_PER_SHARED = 4


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
        return len(self.tokens)

    def runs(self, begin: int) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """Return the runs of `policies.scoring.attention.Runs`, for a tree that begins at a place of a line."""
        breaks = (np.flatnonzero((np.diff(self.positions) != 1) | np.diff(self.stops).astype(bool)) + 1).tolist()
        found, path = [], list[tuple[int, int]]()
        for first, last in itertools.pairwise([0, *breaks, len(self)]):
            while path and self.stops[path[-1][0]] <= first:
                path.pop()
            path.append((first, last))
            sees: list[tuple[int, int]] = []
            for low, high in path:  # neighbours become one
                sees.append((sees.pop()[0] if sees and sees[-1][1] == begin + low else begin + low, begin + high))
            found.append((begin + first, begin + last, sees))
        return found


def merge_trees(prompts: Rows, replies: Rows, most_tokens: int) -> list[Tree]:
    """Gather rows that begin alike; every row is in exactly one tree.

    Args:
        most_tokens: limit for a tree; a longer row is a tree by itself.

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
    def __init__(self) -> None:
        self.size = 0
        self.columns: dict[int, Ints] = {}
        self._tokens: list[Ints] = []
        self._positions: list[Ints] = []
        self._stops: dict[int, int] = {}  # of those that ended before the last token
        self._last = self._path = np.zeros(0, np.int64)

    def shared(self, tokens: Ints) -> int:
        size = min(len(tokens), len(self._last))
        differing = np.flatnonzero(tokens[:size] != self._last[:size])
        return int(differing[0]) if len(differing) else size

    def add(self, tokens: Ints, shared: int) -> Ints:
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


def tree_rows_per_pass(prompts: Rows, replies: Rows, tokens_per_pass: int) -> list[list[int]]:
    """Return the rows of each pass of `score_trees`, so that each can have its backward pass before the next."""
    passes = pack(merge_trees(prompts, replies, tokens_per_pass), tokens_per_pass)
    return [sorted(row for tree in trees for row in tree.columns) for trees in passes]


def score_trees(
    model: Any, prompts: Rows, replies: Rows, *, temperature: float = 1.0, tokens_per_pass: int = 1024,
    entropy: bool | None = False, precision: torch.dtype | None = None, allowed: Sequence[Rows] | None = None,
) -> TokenScores:  # fmt: skip
    """Score replies as `policies.scoring.packed.score_packed` does, with trees instead of chains.

    All layers of the model attend to everything before, with attention "sdpa". With gradients enabled all passes are
    kept until the backward pass, see `tree_rows_per_pass`.

    Raises:
        ValueError: see `policies.scoring.score_replies`; or the model accepts no mask per token.
    """
    check_rows(prompts, replies, temperature)
    _examine(model, precision)

    def passes() -> Iterable[Pass]:
        for trees in pack(merge_trees(prompts, replies, tokens_per_pass), tokens_per_pass):
            reads, begin = [], 0
            for tree in trees:
                reads += [(row, 0, begin + columns) for row, columns in tree.columns.items()]
                begin += len(tree)
            yield Pass(_lay(trees), reads)

    given: dict[str, Any] = {"entropy": entropy, "precision": precision, "allowed": allowed}
    return score_passes(model, passes(), replies, temperature=temperature, **given)


def _lay(trees: Sequence[Tree]) -> dict[str, Any]:
    """Token ids and positions of trees one after another, int64 (1, T) each, and their runs."""
    begins = itertools.accumulate((len(tree) for tree in trees), initial=0)
    runs = Runs([run for begin, tree in zip(begins, trees, strict=False) for run in tree.runs(begin)])
    positions = torch.from_numpy(np.concatenate([tree.positions for tree in trees]))[None]
    ids = torch.from_numpy(np.concatenate([tree.tokens for tree in trees]))[None]
    return {"input_ids": ids, **with_runs(runs, positions)}


@once_per_model
def _examine(model: Any, precision: torch.dtype | None) -> None:
    """Raise ValueError for a model that accepts no mask per token.

    Two equal branches must be read alike. If the second sees the first, or continues its positions, the
    log-probabilities of every row but the first would be wrong without an error.
    """
    name, attention, instead = type(model).__name__, attention_of(model), "score it with share_prefixes=False"
    kinds = sorted(set(getattr(text_config(model), "layer_types", None) or ()))
    if not may_take_runs(model):
        raise ValueError(
            f"{name} with attention {attention!r} and layers {kinds or ''} cannot share prefixes: it needs "
            f"position_ids, attention 'sdpa', and layers that attend to everything before; {instead}"
        )
    size = min(8, model.get_input_embeddings().num_embeddings)
    shared = size // 2
    # A sequence, and from its middle on the same once more.
    tokens, again = np.arange(size), np.arange(shared, size)
    stops = np.full(size + len(again), size + len(again))
    stops[shared:size] = size
    tree = Tree(np.concatenate([tokens, again]), np.concatenate([tokens, again]), stops, {})
    apart, most = look_alike(model, _lay([tree]), slice(shared, size), slice(size, None), precision)
    if not apart <= most:
        raise ValueError(
            f"{name} with attention {attention!r} lets branches that share a prefix see each other (they differ by "
            f"{apart:.1e}); {instead}"
        )
