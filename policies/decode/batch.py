"""Replies in progress, one row each: their keys and values, and the logits of their next tokens.

`KeyedBatch` reads each token once: tokens kept from earlier turns, and common beginnings of the prompts of a call, are
not read again. `PaddedBatch` reads whole padded prompts, for any model; the other is tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from policies.decode.graph import StepGraphs
from policies.decode.kept import KeptKeys, TokenCounts
from policies.decode.reading import Reading, Row
from policies.pretrained import pictures_of, text_config
from policies.prompts import Prompt
from policies.scoring.attention import attend, attend_grouped, may_take_runs, with_runs
from policies.scoring.head import logits_at, once_per_model, pad, takes_positions

#: Most tokens, padding included, of one pass over prompts; a longer prompt is one by itself.
READ_TOKENS = 2**16
#: Columns that are made at once for tokens to come.
_ROOM = 64
#: Logits of a prompt read in two parts differ by at most this much, relative to the largest, in 32 and in 16 bits.
_SAME, _SAME_IN_16_BITS = 1e-4, 0.05


class Batch(Protocol):
    """Rows of replies in progress; `logits`, float32 (n, V), are those of the next token of every row."""

    logits: Tensor

    def keep(self, rows: Sequence[int]) -> tuple[list[int], Tensor]:
        """Drop all rows but some, ascending; return their numbers in their new order, also as int64 (m,) on the device.

        `logits` does not change: the caller has already sampled from it.
        """

    def append(self, tokens: Tensor) -> None:
        """Add a token, int64 (n,), to every row, and compute the next logits."""


class KeyedBatch:
    """Replies in progress of a model that takes runs (`takes_runs`): each new token of the prompts is read once.

    `keys` has a tensor of keys and values for each layer, (2, n, heads, columns, size); when they grow, only one layer
    at a time is in memory twice. Rows end in the same column. With `graphs` the tensors belong to the graphs, steps
    have few shapes, and prompts are read in few kernels; `room` is the number of columns for later tokens.
    """

    logits: Tensor

    def __init__(
        self, model: Any, prompts: Sequence[Prompt], kept: KeptKeys | None = None, counts: TokenCounts | None = None,
        graphs: StepGraphs | None = None, room: int = _ROOM,
    ) -> None:  # fmt: skip
        self._model, self._kept, self._counts = model, kept, counts or TokenCounts()
        self._graphs, self._room = graphs, room
        self._lengths = [len(prompt) for prompt in prompts]
        self._width = max(self._lengths)
        self.keys: list[Tensor] = []
        self._device = next(model.parameters()).device
        self._mask: Tensor | None = None
        self._every: Tensor | None = None  # `keys` as one, while prompts are read
        parts: list[list[Row]] = [[]]
        size = 0
        for row in self._rows(prompts):
            new = row.length - row.first
            if parts[-1] and new and size + new > READ_TOKENS:
                parts.append([])
                size = 0
            parts[-1].append(row)
            size += new
        self._counts.prompts += sum(self._lengths)
        logits: dict[int, Tensor] = {}
        for part in parts:
            self._read(prompts, part, logits)
        self._every = None
        self.logits = torch.stack([logits[row] for row in range(len(prompts))])

    def _rows(self, prompts: Sequence[Prompt]) -> list[Row]:
        found: list[Row] = []
        before: Prompt = ()
        for number in sorted(range(len(prompts)), key=lambda number: (prompts[number], number)):
            prompt = prompts[number]
            shared = next((i for i, (a, b) in enumerate(zip(prompt, before)) if a != b), min(len(prompt), len(before)))  # noqa: B905
            kept, pieces = (0, []) if self._kept is None or shared == len(prompt) else self._kept.find(prompt)
            found.append(Row(number, len(prompt), kept, pieces, shared, found[-1].number if found else number))
            before = prompt
        return found

    def _read(self, prompts: Sequence[Prompt], rows: list[Row], logits: dict[int, Tensor]) -> None:
        places: list[tuple[int, int]] = []  # of each row in the line
        for row in rows:
            begin = places[-1][1] if places else 0
            places.append((begin, begin + row.length - row.first))
        new = [(prompts[row.number], row.first) for row in rows]
        ids = torch.tensor([[token for prompt, first in new for token in prompt[first:]]])
        positions = torch.tensor([[place for prompt, first in new for place in range(first, len(prompt))]])
        reads = [(row.number, end - 1) for row, (begin, end) in zip(rows, places, strict=True) if end > begin]
        self._counts.read += ids.shape[1]

        together = None
        if self._graphs is not None:
            together = Reading(rows, self._lengths, self._device)

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
            slots, found = self._begin(layer, rows, key), []
            if together is not None:
                return together(slots, query, key, value, scale)
            for row, (begin, end) in zip(rows, places, strict=True):
                start = self._width - row.length
                if row.shared > row.kept:
                    there = self._width - self._lengths[row.like]
                    source = slots[:, row.like, :, there + row.kept : there + row.shared]
                    slots[:, row.number, :, start + row.kept : start + row.shared] = source
                if end > begin:
                    whole = slots[:, row.number, :, start : self._width]
                    whole[0, :, row.first :], whole[1, :, row.first :] = key[0, :, begin:end], value[0, :, begin:end]
                    found.append(attend(query[:, :, begin:end], whole[:1], whole[1:], scale))
            return torch.cat(found, dim=2)

        columns = torch.tensor([column for _, column in reads]).to(self._device, non_blocking=True)
        given = with_runs(attention, positions.to(self._device, non_blocking=True))
        last = logits_at(
            self._model, ids.to(self._device, non_blocking=True), torch.zeros_like(columns), columns, use_cache=False,
            **given,
        )  # fmt: skip
        logits |= dict(zip((number for number, _ in reads), last, strict=True))
        for row in rows:
            if row.first == row.length:
                logits[row.number] = logits[row.like]

    def _begin(self, layer: int, rows: Sequence[Row], key: Tensor) -> Tensor:
        """Return the keys and values of a layer, with what is kept of some rows."""
        n = len(self._lengths)
        if self._graphs is not None and self._every is None:
            layers, columns = text_config(self._model).num_hidden_layers, self._width + self._room
            self._every = self._graphs.place(self._model, self, layers, n, columns, key)
            self.keys = list(self._every.unbind())
        elif len(self.keys) == layer:
            self.keys.append(key.new_zeros((2, n, key.shape[1], self._width + _ROOM, key.shape[3])))
        # With graphs, the first layer copies for all layers.
        every = self._every
        for row in rows if every is None or layer == 0 else ():
            place = self._width - row.length
            for piece in row.pieces:
                slots, part = (self.keys[layer], piece[layer]) if every is None else (every, piece)
                slots[..., row.number, :, place : place + piece.shape[3], :] = part
                place += piece.shape[3]
        return self.keys[layer]

    def keep(self, rows: Sequence[int]) -> tuple[list[int], Tensor]:
        left, moved = set(rows), sorted((row for row in rows if row >= len(rows)), reverse=True)
        order = [row if row in left else moved.pop() for row in range(len(rows))]
        moves = [(place, row) for place, row in enumerate(order) if place != row]
        for slots in self.keys:
            for place, row in moves:
                slots[:, place] = slots[:, row]
        self.keys = [slots[:, : len(order)] for slots in self.keys]
        self._lengths, self._mask = [self._lengths[row] for row in order], None
        return order, torch.tensor(order).to(self._device, non_blocking=True)

    def append(self, tokens: Tensor) -> None:
        self._width += 1
        self._lengths = [length + 1 for length in self._lengths]
        self._counts.written += len(self._lengths)
        if self._graphs is not None:
            self.logits = self._graphs.append(self._model, self, tokens, self._lengths, self._width)
            return
        for layer, slots in enumerate(self.keys if self._width > self.keys[0].shape[3] else ()):
            self.keys[layer] = torch.nn.functional.pad(slots, (0, 0, 0, _ROOM))
        positions = (torch.tensor(self._lengths) - 1)[:, None].to(self._device, non_blocking=True)
        if min(self._lengths) == self._width:
            self._mask = None
        elif self._mask is None:
            starts = torch.tensor([self._width - length for length in self._lengths])
            self._mask = (torch.arange(self._width) >= starts[:, None])[:, None, None].to(
                self._device, non_blocking=True
            )
        else:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)

        def attention(layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
            keys, values = self.keys[layer][:, :, :, : self._width]
            keys[:, :, -1], values[:, :, -1] = key[:, :, 0], value[:, :, 0]
            return attend_grouped(query, keys, values, self._mask, scale)

        given = with_runs(attention, positions)
        self.logits = self._model(input_ids=tokens[:, None], use_cache=False, **given).logits[:, -1].float()

    def store(self, row: int, tokens: Prompt) -> None:
        """Keep the keys and values of a row, whose tokens these are, for later prompts."""
        if self._kept is not None:
            start = self._width - len(tokens)
            self._kept.add(tokens, [slots[:, row, :, start : self._width] for slots in self.keys])

    def join(self, other: KeyedBatch) -> None:
        """Add the rows of another batch behind these."""
        lengths, mine = [*self._lengths, *other._lengths], len(self._lengths)
        two, _, heads, _, size = self.keys[0].shape
        for layer in range(len(self.keys)):
            joined = self.keys[layer].new_zeros((two, len(lengths), heads, max(lengths) + _ROOM, size))
            for batch, rows in ((self, slice(mine)), (other, slice(mine, None))):
                wide = max(batch._lengths)
                joined[:, rows, :, max(lengths) - wide : max(lengths)] = batch.keys[layer][
                    :, :, :, batch._width - wide : batch._width
                ]
            self.keys[layer] = other.keys[layer] = joined
        self._lengths, self._width, self._mask = lengths, max(lengths), None
        self.logits = torch.cat([self.logits, other.logits])


class PaddedBatch:
    """Replies in progress of any model, in transformers' cache; equal prompts share their reading.

    Padding is on the left: the newest tokens line up, and a sliding attention window covers the right tokens.
    """

    logits: Tensor

    def __init__(self, model: Any, prompts: Sequence[Prompt], fill: int, counts: TokenCounts | None = None) -> None:
        self._model, self._takes_positions, self._counts = model, takes_positions(model), counts or TokenCounts()
        self._pictures = pictures_of(model)
        distinct = list(dict.fromkeys(prompts))
        self._counts.prompts += sum(map(len, prompts))
        self._read(distinct, fill)
        if len(distinct) < len(prompts):
            index = {prompt: row for row, prompt in enumerate(distinct)}
            self.logits = self.logits[self.keep([index[prompt] for prompt in prompts])[1]]

    def _read(self, prompts: Sequence[Prompt], fill: int) -> None:
        from transformers import DynamicCache

        ids, mask = pad(prompts, fill=fill, left=True, device=next(self._model.parameters()).device)
        self._counts.read += ids.numel()
        lengths = [len(prompt) for prompt in prompts]
        positions = (mask.long().cumsum(1) - 1).clamp(min=0)
        logits: list[Tensor] = []
        caches: list[Any] = []
        size = max(READ_TOKENS // ids.shape[1], 1)
        for part in (slice(low, low + size) for low in range(0, len(ids), size)):
            self._mask, self._lengths = mask[part], lengths[part]
            self._cache: Any = DynamicCache(config=self._model.config)
            every = torch.arange(len(self._lengths), device=ids.device)
            last = torch.full_like(every, ids.shape[1] - 1)
            logits.append(logits_at(self._model, ids[part], every, last, **self._arguments(positions[part])))
            caches.append(self._cache)
        self._mask, self._lengths, self._cache, self.logits = mask, lengths, _joined(caches), torch.cat(logits)
        self._position = positions[:, -1]
        if self._pictures is not None:
            self._position = self._position + self._pictures.shifts(ids)

    def _arguments(self, positions: Tensor) -> dict[str, Any]:
        given: dict[str, Any] = {"past_key_values": self._cache, "use_cache": True}
        padded = min(self._lengths) < self._mask.shape[1]
        if padded:
            # In attention's own shape: transformers waits for the device to know whether an (n, S) mask hides any.
            own = positions.shape[1] == 1 and self._pictures is None and may_take_runs(self._model)
            given["attention_mask"] = self._mask[:, None, None] if own else self._mask.long()
        if self._pictures is not None or (padded and self._takes_positions):
            given["position_ids"] = positions
        return given

    def keep(self, rows: Sequence[int]) -> tuple[list[int], Tensor]:
        chosen = torch.tensor(rows).to(self._mask.device, non_blocking=True)
        # All layers have this method; those with a recurrent state lack `batch_select_indices`.
        self._cache.reorder_cache(chosen)
        self._mask, self._position = self._mask[chosen], self._position[chosen]
        self._lengths = [self._lengths[row] for row in rows]
        return list(rows), chosen

    def append(self, tokens: Tensor) -> None:
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._position = self._position + 1
        self._lengths = [length + 1 for length in self._lengths]
        self._counts.written += len(self._lengths)
        given = self._arguments(self._position[:, None])
        self.logits = self._model(input_ids=tokens[:, None], **given).logits[:, -1].float()


def _joined(caches: Sequence[Any]) -> Any:
    """Return one of transformers' caches with the rows of several, which end in the same column.

    Keys, values and recurrent states begin with the rows. One layer at a time is there twice.
    """

    def join(held: Sequence[dict[Any, Any]]) -> None:
        for name, value in held[0].items():
            if isinstance(value, dict):  # states by number
                join([each[name] for each in held])
            elif isinstance(value, Tensor) and value.ndim > 1:
                held[0][name] = torch.cat([value, *(each.pop(name) for each in held[1:])])

    for layers in zip(*(each.layers for each in caches), strict=True) if len(caches) > 1 else ():
        join([vars(each) for each in layers])
    return caches[0]


@once_per_model
@torch.no_grad()
def takes_runs(model: Any) -> bool:
    """Return whether a model reads new tokens behind kept keys as it reads the whole; two short passes find out.

    Layers that keep a recurrent state or a window of keys do not, and no model whose attention is not PyTorch's own.
    """
    if not hasattr(model, "config") or pictures_of(model) is not None or not may_take_runs(model):
        return False
    size = min(8, model.get_input_embeddings().num_embeddings)
    prompt, kept = tuple(range(size)), KeptKeys()
    ids = torch.tensor([prompt], device=next(model.parameters()).device)
    expected = model(input_ids=ids, use_cache=False).logits[0, -1].float()
    try:
        first = KeyedBatch(model, [prompt[: size // 2], prompt[:-2]], kept)
        first.store(1, prompt[:-2])
        found = KeyedBatch(model, [prompt[:-1], prompt[:-1]], kept)
        found.append(ids[0, -1:].expand(2))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):  # its layers are not given the runs
        return False
    apart = float((found.logits - expected).abs().max()) / max(float(expected.abs().max()), 1e-12)
    exact = next(model.parameters()).dtype in (torch.float32, torch.float64)
    return apart <= (_SAME if exact else _SAME_IN_16_BITS)
