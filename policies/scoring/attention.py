"""Attention run by run, where many sequences share one line of tokens: no mask over the whole line, and no padding.

    line   a b c | d e | f g     run "a b c" sees itself; "d e" and "f g" see "a b c" and themselves
    runs   0..3    3..5  5..7    sees [0..3], [0..5], [0..3 and 5..7]

A mask over a line of T tokens costs T squared. Here each run of tokens attends to the earlier runs of its own sequence,
so the cost is that of the sequences. The runs are an argument of the model's forward pass, which transformers passes on
to the attention of every layer.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from policies.pretrained import text_config
from policies.scoring.head import attention_of, takes_positions

#: The argument of a model's forward pass.
RUNS = "attention_runs"
_IMPLEMENTATION = "sdpa"


class Attends(Protocol):
    """Computes the attention of one line in every layer."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Return float (n, H, T, D) from queries (n, H, T, D) and keys and values (n, h, T, D)."""


@dataclass(frozen=True)
class Runs:
    """Runs that lie one behind the other in a line.

    Attributes:
        parts: (begin, end, sees) of each run; sees: (begin, end) of what its tokens see, in order, up to themselves.
    """

    parts: Sequence[tuple[int, int, Sequence[tuple[int, int]]]]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Self:
        """Return the runs of sequences that lie one behind the other."""
        ends = list(itertools.accumulate(lengths, initial=0))
        return cls([(begin, end, [(begin, end)]) for begin, end in itertools.pairwise(ends)])

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        found = []
        for begin, end, sees in self.parts:
            keys, values = (_joined(each, sees) for each in (key, value))
            found.append(attend(query[:, :, begin:end], keys, values, scale))
        return torch.cat(found, dim=2)


def _joined(each: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
    parts = [each[:, :, begin:end] for begin, end in places]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def attend(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
    """Attention of the last tokens of a sequence, (1, H, m, D), to all of it, (1, h, n, D), without the future."""
    new, whole = query.shape[2], key.shape[2]
    mask = None
    if 1 < new < whole:
        mask = torch.ones(new, whole, dtype=torch.bool, device=query.device).tril(whole - new)
    groups = query.shape[1] // key.shape[1]
    grouped = groups > 1 and (query.device.type == "cpu" or mask is None)
    if groups > 1 and not grouped:  # other devices have no fast kernel for grouped heads under a mask
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=new == whole > 1, scale=scale, enable_gqa=grouped
    )


def attend_grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Attention of the newest tokens, (n, H, 1, D), to keys and values (n, h, T, D) under a mask (n, 1, 1, T)."""
    # All query heads of a group have the same keys and are computed as several queries of one head.
    grouped = query.view(len(query), key.shape[1], -1, query.shape[3])
    found = torch.nn.functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
    return found.reshape(query.shape)


def with_runs(runs: Attends, positions: Tensor) -> dict[str, Any]:
    """Return arguments of a forward pass over one line: its runs, and the position of each token, int64 (1, T)."""
    _teach()
    # A mask of four dimensions is used unchanged; otherwise transformers would build that of the whole line.
    mask = torch.ones((1, 1, 1, 1), dtype=torch.bool, device=positions.device)
    return {RUNS: runs, "position_ids": positions, "attention_mask": mask}


def may_take_runs(model: Any) -> bool:
    """Return whether a model accepts runs as an argument; only its outputs show whether it uses them."""
    config = text_config(model)
    kinds = set(getattr(config, "layer_types", None) or ())
    windowed = not kinds and getattr(config, "sliding_window", None) is not None
    plain = not windowed and not kinds - {"full_attention"} and not getattr(config, "alibi", False)
    return plain and takes_positions(model) and attention_of(model) == _IMPLEMENTATION


def _teach() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as FUNCTIONS

    usual: Any = FUNCTIONS[_IMPLEMENTATION]
    if getattr(usual, RUNS, False):
        return

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **given: Any
    ) -> tuple[Tensor, None]:
        runs: Attends | None = given.pop(RUNS, None)
        if runs is None or not hasattr(module, "layer_idx"):  # a vision tower has no place among the layers
            return usual(module, query, key, value, attention_mask, **given)
        return runs(module.layer_idx, query, key, value, given.get("scaling")).transpose(1, 2), None

    setattr(attention, RUNS, True)
    FUNCTIONS.register(_IMPLEMENTATION, attention)
