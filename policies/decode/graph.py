"""Decode steps of one shape, recorded once on a GPU and replayed: the host then starts one graph, not 1,000 kernels.

The numbers of rows and columns of a step are rounded up, and rows whose replies have ended are still computed, so that
few shapes occur. Columns behind the newest token are masked. A recording takes as long as some steps without a graph,
so a shape is recorded when it has occurred that often: the time is then at most twice what the better choice takes.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from policies.scoring.attention import attend_grouped, with_runs

if TYPE_CHECKING:
    from policies.decode.batch import KeyedBatch

#: Smallest number of columns that is added at once.
COLUMNS = 64
#: Parts of an octave that sizes are rounded up to.
_PARTS = 4
#: A batch keeps its shape until it has this many times fewer rows; what a step takes depends little on its rows.
_SPARE = 4
#: Steps of a shape after which it is recorded.
_PAID = 8
#: A replayed step may differ from the same step without a graph by this part of its largest logit.
_SAME = 0.02


def rounded(size: int, least: int = 1) -> int:
    """Round a size up, by a quarter at most where it is not below `least`, so that few sizes occur.

    >>> [rounded(size) for size in (1, 3, 5, 9, 33, 64, 65)], rounded(100, least=64), rounded(700, least=64)
    ([1, 3, 5, 10, 40, 64, 80], 128, 768)
    """
    step = max(2 ** (size - 1).bit_length() // 2 // _PARTS, least)
    return -(-size // step) * step


class _Shape:
    """The tensors of a step: it reads `tokens`, int64 (rows,), and writes `logits`, float32 (rows, V).

    `replay` is its recording; `taken` counts the steps without one.
    """

    logits: Tensor | None = None
    replay: Callable[[], object] | None = None
    taken = 0

    def __init__(self, model: Any, slots: list[Tensor]) -> None:
        self._model, self.slots = model, slots
        _, self.rows, _, self.columns, _ = slots[0].shape
        device = slots[0].device
        self.tokens = torch.zeros(self.rows, dtype=torch.int64, device=device)
        self._positions = torch.zeros(self.rows, 1, dtype=torch.int64, device=device)
        self._column = torch.zeros(1, dtype=torch.int64, device=device)
        self._mask = torch.zeros(self.rows, 1, 1, self.columns, dtype=torch.bool, device=device)
        self._lengths: list[int] = []
        self._width = 0

    def begin(self, lengths: list[int], width: int, tokens: Tensor) -> None:
        """Give the rows their next tokens, in column `width` - 1; `lengths` are those of the rows with these tokens."""
        if self._width != width - 1 or [length + 1 for length in self._lengths] != lengths:
            self._place(lengths, width)
        self._lengths, self._width = lengths, width  # the step counts on by itself
        self.tokens[: len(lengths)].copy_(tokens)

    def _place(self, lengths: list[int], width: int) -> None:
        unused = [0] * (self.rows - len(lengths))
        sizes, places = torch.tensor(lengths + unused)[:, None], torch.arange(self.columns)
        self._mask.copy_(((places >= width - sizes) & (places < width - 1))[:, None, None], non_blocking=True)
        self._positions.copy_((sizes - 2).clamp(min=0), non_blocking=True)
        self._column.fill_(width - 2)

    def repeat(self) -> None:
        """Repeat the last step next."""
        self._place(self._lengths, self._width)

    def step(self) -> Tensor:
        """Compute the logits, write them where there is room for them, and return them in the model's type."""
        self._column += 1
        self._positions += 1
        self._mask.index_fill_(3, self._column, True)
        given = with_runs(self._attention, self._positions)
        found: Tensor = self._model(input_ids=self.tokens[:, None], use_cache=False, **given).logits[:, -1]
        if self.logits is not None:
            self.logits.copy_(found)
        return found

    def _attention(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        keys, values = self.slots[layer]
        keys.index_copy_(2, self._column, key)
        values.index_copy_(2, self._column, value)
        return attend_grouped(query, keys, values, self._mask, scale)


def record(step: Callable[[], object], pool: Any) -> Callable[[], None]:
    """Return a function that replays the kernels of a step on a GPU; the step has run before.

    `torch.cuda.graph` would also return all unused memory to the device, which later passes then ask for again.
    """
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(_recording_stream(torch.cuda.current_device())):
        # Another thread may update weights meanwhile (`rollout.staleness`).
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            step()
        finally:
            graph.capture_end()
    return graph.replay


@functools.cache
def _recording_stream(device: int) -> torch.cuda.Stream:
    """One for all recordings: cuBLAS keeps 32 MiB for every stream that it has met."""
    return torch.cuda.Stream(device)


class StepGraphs:
    """Runs the decode steps of one batch at a time, in tensors that the next batch reuses.

    Graphs hold addresses: they are dropped when the weights have moved. If a step cannot be recorded, or gives other
    logits when it is replayed, the steps run without graphs, with a warning.
    """

    def __init__(self) -> None:
        self.works, self._most = True, 0
        self._owner: Callable[[], KeyedBatch | None] = _nobody
        self.clear()

    def __deepcopy__(self, memo: object) -> StepGraphs:
        return StepGraphs()

    def clear(self) -> None:
        """Free all memory."""
        self._leave()
        self._rows = 0
        self._shape: _Shape | None = None
        self._shapes: dict[tuple[int, int], _Shape] = {}
        self._storage: Tensor | None = None  # a line for each layer
        self._logits: Tensor | None = None
        self._weights: list[int] = []
        self._pool: Any = None

    def place(self, model: Any, batch: KeyedBatch, layers: int, n: int, columns: int, key: Tensor) -> Tensor:
        """Return keys and values of a new batch, (layers, 2, n, h, at least `columns`, size), of the type of `key`."""
        columns = rounded(columns, least=COLUMNS)
        if self._owner() is not None:  # which this batch will join
            return key.new_zeros(layers, 2, n, key.shape[1], columns, key.shape[3])
        self._look_at(model)
        found = self._view(layers, self._rows_for(n), columns, key)
        self._owner = weakref.ref(batch)
        return found[:, :, :n]

    def append(self, model: Any, batch: KeyedBatch, tokens: Tensor, lengths: list[int], width: int) -> Tensor:
        """Add a token to every row of a batch, whose keys move here.

        Returns:
            The next logits, float32 (n, V), until any batch takes its next step.

        Args:
            tokens: int64 (n,).
            lengths: of the rows with these tokens, which stand in column `width` - 1.
        """
        n = len(lengths)
        if self._owner() is not batch:
            self._leave()
            self._look_at(model)
            self._shape = None
        shape, inside = self._shape, self._holds(batch)
        columns = batch.keys[0].shape[3] if inside else 0
        if not inside or shape is None or shape.rows != self._rows_for(n) or not width <= columns == shape.columns:
            shape = self._enter(model, batch, n, width)
        shape.begin(lengths, width, tokens)
        if shape.replay is not None:
            shape.replay()
        else:
            found = shape.step()
            if shape.logits is None:
                shape.logits = self._room_for(found).copy_(found)
            shape.taken += 1
            if self.works and shape.taken == _PAID:
                self._record(shape, n)
        assert shape.logits is not None
        return shape.logits[:n]

    def _rows_for(self, n: int) -> int:
        """Return the rows of the shape for `n` replies: the last shape's while that does not compute many in vain."""
        return self._rows if n <= self._rows <= _SPARE * n else rounded(n)

    def _look_at(self, model: Any) -> None:
        weights = [weight.data_ptr() for weight in model.parameters()]
        if weights != self._weights:
            self.clear()
            self._weights = weights

    def _holds(self, batch: KeyedBatch) -> bool:
        own = self._storage
        return own is not None and batch.keys[0].untyped_storage().data_ptr() == own.untyped_storage().data_ptr()

    def _leave(self) -> None:
        """Give the current batch copies of its keys."""
        batch = self._owner()
        if batch is not None and self._holds(batch):
            batch.keys = [each.clone() for each in batch.keys]
        self._owner = _nobody

    def _view(self, layers: int, rows: int, columns: int, key: Tensor) -> Tensor:
        """Return the storage as (layers, 2, rows, h, columns, size), enlarged if necessary."""
        self._rows, need = rows, 2 * rows * key.shape[1] * columns * key.shape[3]
        if self._storage is None or self._storage.shape[1] < need:
            self._shapes, self._shape, self._pool = {}, None, None  # they hold what is replaced
            self._most = max(self._most, need)  # after `clear` it need not grow step by step again
            self._storage = None
            self._storage = key.new_zeros(layers, self._most)
        return self._storage[:, :need].view(layers, 2, rows, key.shape[1], columns, key.shape[3])

    def _enter(self, model: Any, batch: KeyedBatch, n: int, width: int) -> _Shape:
        rows, inside, held = self._rows_for(n), self._holds(batch), batch.keys
        columns = held[0].shape[3] if inside else 0
        if width > columns:
            # The shape is another one anyway, so rows that have ended take no memory from the columns.
            rows = rounded(n) if inside else rows
            columns = rounded(width + COLUMNS, least=COLUMNS)
        layout = held[0].stride() if inside else ()
        slots = list(self._view(len(held), rows, columns, held[0][0]).unbind())
        inside = inside and self._holds(batch)  # the storage may have grown
        if not inside or layout != slots[0].stride():
            for layer, each in enumerate(held):  # only one layer at a time is in memory twice
                source = each[:, :, :, : width - 1]
                slots[layer][:, :n, :, : width - 1] = source.clone() if inside else source
                held[layer] = slots[layer][:, :n]
        self._owner = weakref.ref(batch)
        shape = self._shapes.get((rows, columns))
        self._shape = self._shapes[rows, columns] = shape or _Shape(model, slots)
        return self._shape

    def _room_for(self, found: Tensor) -> Tensor:
        """Return room for the logits of a shape, float32 (rows, V), which all shapes share."""
        if self._logits is None or len(self._logits) < len(found):
            self._logits = torch.empty(found.shape, dtype=torch.float32, device=found.device)
        return self._logits[: len(found)]

    def _record(self, shape: _Shape, n: int) -> None:
        """Record the step of a shape, just taken with `n` replies, and compare their logits with those of a replay."""
        assert shape.logits is not None
        expected = shape.logits[:n].clone()
        try:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            shape.replay = record(shape.step, self._pool)
            shape.repeat()
            shape.replay()
            apart = float((shape.logits[:n] - expected).abs().max() / expected.abs().max())
            why = f"logits differ by {apart:.1e} of the largest" if not apart <= _SAME else ""
        except RuntimeError as error:
            why = str(error).splitlines()[0]
        if why:
            self.works, shape.replay = False, None
            shape.repeat()
            shape.step()
            warnings.warn(f"CUDA graphs of decode steps are not used, tokens take longer: {why}", stacklevel=2)


def _nobody() -> None:
    return None
