"""Attention of the new tokens of many rows in few kernels, for devices on which starting a kernel is slow.

Each row has its own keys. Row by row, 64 prompts in 30 layers start 10,000 kernels. Here rows with similar numbers of
new tokens are padded and share a kernel.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from policies.scoring.attention import attend

#: Rows with more new tokens are read one by one, without a mask.
_FEW = 256


class Row(NamedTuple):
    """A prompt of `KeyedBatch`: its place, and its new tokens.

    Attributes:
        pieces: keys and values, (layers, 2, heads, m, size) each.
        shared: number of first tokens in common with the row `like`, which is read before.
    """

    number: int
    length: int
    kept: int
    pieces: Sequence[Tensor]
    shared: int
    like: int

    @property
    def first(self) -> int:
        return max(self.kept, self.shared)


class _Alike(NamedTuple):
    """Rows, int64 (k,), with at most m new tokens each.

    `line` int64 (k, m): the places of their tokens; `mask` bool (k, 1, m, width); `real` and `places` int64 (t,): the
    tokens among k x m, and their places in the line.
    """

    rows: Tensor | slice
    line: Tensor
    mask: Tensor
    real: Tensor
    places: Tensor


class Reading:
    """Writes keys of new tokens into slots (2, n, h, columns, size) and attends to them, layer by layer.

    Args:
        parts: rows in the order of their new tokens in the line; a row comes after its row `like`.
        lengths: of all n rows, which end in the same column.
    """

    def __init__(self, parts: Sequence[Row], lengths: Sequence[int], device: torch.device) -> None:
        self._width, self._lengths, self._device = max(lengths), lengths, device
        width = self._width
        ends = list(itertools.accumulate((part.length - part.first for part in parts), initial=0))
        spans = [(part, begin, end) for part, begin, end in zip(parts, ends, ends[1:], strict=False) if end > begin]
        new = [(part.number, width - part.length + place) for part, _, _ in spans
               for place in range(part.first, part.length)]  # fmt: skip
        self._new = self._pair(np.array(new, np.int64))
        self._shared, self._sources = self._copies(parts)
        self._long = [span for span in spans if span[2] - span[1] > _FEW]
        classes: dict[int, list[tuple[Row, int, int]]] = {}
        for span in spans:
            if span[2] - span[1] <= _FEW:
                classes.setdefault((span[2] - span[1] - 1).bit_length(), []).append(span)
        self._alike = [self._together(members) for members in classes.values()]

    def _on(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device, non_blocking=True)

    def _pair(self, places: np.ndarray) -> tuple[Tensor, Tensor]:
        return self._on(places[:, 0].copy()), self._on(places[:, 1].copy())

    def _copies(self, parts: Sequence[Row]) -> tuple[tuple[Tensor, Tensor] | None, tuple[Tensor, Tensor] | None]:
        """Return targets and sources of shared tokens: rows and columns."""
        sources: dict[int, np.ndarray] = {}  # row and column of each token of a row
        to, come = [], []
        for part in parts:
            own = self._places(part.number)
            if part.first > part.kept:
                shared = slice(part.kept, part.first)
                # A row that was read before has its keys already.
                source = sources.get(part.like)
                to.append(own[shared].copy())
                come.append((self._places(part.like) if source is None else source)[shared])
                own[shared] = come[-1]
            sources[part.number] = own
        return (self._pair(np.concatenate(to)), self._pair(np.concatenate(come))) if to else (None, None)

    def _places(self, number: int) -> np.ndarray:
        length = self._lengths[number]
        return np.stack([np.full(length, number), self._width - length + np.arange(length)], 1)

    def _together(self, members: list[tuple[Row, int, int]]) -> _Alike:
        sizes = np.array([end - begin for _, begin, end in members])
        begins, most = np.array([begin for _, begin, _ in members]), int(sizes.max())
        numbers = np.array([part.number for part, _, _ in members], np.int64)
        starts = np.array([self._width - part.length for part, _, _ in members])
        steps, columns = np.arange(most), np.arange(self._width)
        is_token = steps < sizes[:, None]
        last = np.where(is_token, self._width - sizes[:, None] + steps, self._width - 1)  # a query may see this column
        mask = (columns >= starts[:, None, None]) & (columns <= last[:, :, None])
        line = np.where(is_token, begins[:, None] + steps, 0)
        every = np.array_equal(numbers, np.arange(len(self._lengths)))
        return _Alike(
            slice(None) if every else self._on(numbers), self._on(line), self._on(mask[:, None]),
            self._on(np.flatnonzero(is_token)), self._on(line[is_token]),
        )  # fmt: skip

    def __call__(self, slots: Tensor, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Return float (1, H, T, D) from a line's queries (1, H, T, D), keys and values (1, h, T, D)."""
        row, column = self._new
        for side, fresh in enumerate((key, value)):
            slots[side][row, :, column] = fresh[0].transpose(0, 1)
        if self._shared is not None and self._sources is not None:
            (row, column), (source, place) = self._shared, self._sources
            slots[:, row, :, column] = slots[:, source, :, place]
        found, groups = torch.empty_like(query), query.shape[1] // key.shape[1]
        for part, begin, end in self._long:
            whole = slots[:, part.number, :, self._width - part.length : self._width]
            found[:, :, begin:end] = attend(query[:, :, begin:end], whole[:1], whole[1:], scale)
        for rows, line, mask, real, places in self._alike:
            keys, values = (slots[side][rows, :, : self._width] for side in range(2))
            # Query heads with the same keys are computed as further tokens of one head.
            asked = query[0][:, line].unflatten(0, (-1, groups)).permute(2, 0, 1, 3, 4).flatten(2, 3)
            attended = torch.nn.functional.scaled_dot_product_attention(
                asked, keys, values, attn_mask=mask.repeat(1, 1, groups, 1), scale=scale
            )
            attended = attended.unflatten(2, (groups, -1)).permute(1, 2, 0, 3, 4).flatten(0, 1).flatten(1, 2)
            found[0][:, places] = attended[:, real]
        return found
