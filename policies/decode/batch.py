"""Prompts that are being continued together: one key-value cache, whose rows leave and join while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from policies.pictures.inputs import pictures_of
from policies.prompts import Prompt
from policies.scoring.head import logits_at, pad, takes_positions


class DecodeBatch:
    """A cache with one row per prompt; equal prompts share their prefill. Used without gradients.

    Left padding: the newest tokens line up, and a sliding attention window covers the right tokens.

    Args:
        model: a Hugging Face causal language model.
        prompts: n tuples of token ids.
        fill: token id for the padding.

    Attributes:
        logits: float32 (n, V) of the next token of every row.
    """

    def __init__(self, model: Any, prompts: Sequence[Prompt], fill: int) -> None:
        from transformers import DynamicCache

        self._model = model
        device = next(model.parameters()).device
        distinct = list(dict.fromkeys(prompts))
        index = {prompt: row for row, prompt in enumerate(distinct)}
        ids, mask = pad(distinct, fill=fill, left=True, device=device)
        self._padded = not bool(mask.all())
        self._pictures = pictures_of(model)
        self._cache: Any = DynamicCache(config=model.config)
        every = torch.arange(len(distinct), device=device)
        positions = (mask.long().cumsum(1) - 1).clamp(min=0)
        last = torch.full_like(every, ids.shape[1] - 1)
        logits = logits_at(model, ids, every, last, **self._arguments(mask, positions))
        owner = torch.tensor([index[prompt] for prompt in prompts], device=device)
        self._cache.batch_select_indices(owner)
        newest = positions[:, -1]
        if self._pictures is not None:
            newest = newest + self._pictures.shifts(ids)
        self.logits, self._mask, self._position = logits[owner], mask[owner], newest[owner]

    def _arguments(self, mask: Tensor, positions: Tensor) -> dict[str, Any]:
        given: dict[str, Any] = {"past_key_values": self._cache, "use_cache": True}
        if self._padded:
            given["attention_mask"] = mask.long()
        if self._pictures is not None or (self._padded and takes_positions(self._model)):
            given["position_ids"] = positions
        return given

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all rows but some; the logits are those of all until the next `append`."""
        chosen = torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(chosen)
        self._mask, self._position = self._mask[chosen], self._position[chosen]

    def append(self, tokens: Tensor) -> None:
        """Add a token, int64 (n,), to every row, and compute the next logits."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._position = self._position + 1
        given = self._arguments(self._mask, self._position[:, None])
        self.logits = self._model(input_ids=tokens[:, None], **given).logits[:, -1].float()

    def join(self, other: Self) -> None:
        """Add the rows of another batch behind these; the shorter ones are padded, on the left."""
        for batch in (self, other):  # what all rows of a batch have as padding goes first
            batch._cut(int(batch._mask.any(0).long().argmax()))
        length = max(self._mask.shape[1], other._mask.shape[1])
        for batch in (self, other):
            batch._lengthen(length - batch._mask.shape[1])
        for mine, theirs in zip(self._cache.layers, other._cache.layers, strict=True):
            mine.keys, mine.values = torch.cat([mine.keys, theirs.keys]), torch.cat([mine.values, theirs.values])
        self._mask = torch.cat([self._mask, other._mask])
        self._position = torch.cat([self._position, other._position])
        self.logits = torch.cat([self.logits, other.logits])
        self._padded = not bool(self._mask.all())

    def _cut(self, columns: int) -> None:
        if columns:
            self._mask = self._mask[:, columns:]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[..., columns:, :], layer.values[..., columns:, :]

    def _lengthen(self, columns: int) -> None:
        if columns:
            self._mask = torch.nn.functional.pad(self._mask, (columns, 0))
            for layer in self._cache.layers:
                layer.keys = torch.nn.functional.pad(layer.keys, (0, 0, columns, 0))
                layer.values = torch.nn.functional.pad(layer.values, (0, 0, columns, 0))


def can_join(model: Any) -> bool:
    """Return whether batches of a model can be joined: all of its layers keep all keys, one after the other."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    return all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
