"""Builds a search index: in memory for a small catalogue, in a folder with bounded memory for a large one.

Products are read once, in blocks. Each block becomes a sorted run of rows (term, product, count); the runs are merged,
one range of terms at a time. Memory holds one block, the vocabulary, and identifier and length of every product.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.webshop.search.analyser import terms
from agentgym.webshop.search.bm25 import CHUNK, K1, MEMORY, B, Index, load, write

#: Number of terms in a block, and of rows merged at a time.
BLOCK = 1 << 22
#: The columns of an index with one entry per row, and their types.
_KINDS = {"documents": "<i4", "divisors": "<f4"}
#: Terms of a run, ascending; first row of each (and the end); products and counts of the rows.
_Run = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


def build(texts: Iterable[tuple[str, str]], folder: str | Path | None = None, block: int = BLOCK) -> Index:
    """Build the index of (identifier, text) pairs, read once, in the order of positions.

    `folder` is created for `bm25.load`, or None to keep the index in memory; `block` is the number of terms of a run.

    >>> from agentgym.webshop.search.bm25 import Bm25
    >>> index = build([("B1", "red shoes"), ("B2", "blue shoes, size 7"), ("B3", "lamp")])
    >>> Bm25(index).top("Blue shoe", 50)
    (1, 0)
    """
    if folder is None:
        return _build(texts, None, None, block)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="runs-") as scratch:
        _build(texts, folder, Path(scratch), block)
    return load(folder)


def _build(texts: Iterable[tuple[str, str]], folder: Path | None, scratch: Path | None, block: int) -> Index:
    reader = _Reader()
    runs: list[Callable[[], _Run]] = []
    for run in reader.runs(texts, block):
        runs.append(_kept(run, None if scratch is None else scratch / str(len(runs))))
    starts = np.zeros(len(reader.numbers) + 1, np.int64)
    for get in runs:
        run_terms, run_starts, _, _ = get()
        starts[run_terms + 1] += np.diff(run_starts)
    np.cumsum(starts, out=starts)
    rows = _Rows(folder, int(starts[-1]))
    largest = np.empty(len(starts) - 1, np.float32)
    shares = _shares(np.array(reader.lengths, np.int64))
    for first, last in _ranges(starts, block):
        products, counts = _merged(runs, first, last)
        divisors = np.float32(1) + counts.astype(np.float32) * shares[products]
        largest[first:last] = np.maximum.reduceat(divisors, starts[first:last] - starts[first])
        rows.add(products, divisors)
    documents, divisors = rows.finish()
    words = [term.encode("utf-8", "surrogatepass") for term in reader.numbers]
    numbers = np.array(sorted(range(len(words)), key=words.__getitem__), np.int32)
    identifiers = reader.identifiers
    order = np.empty(len(identifiers), np.int32)
    order[sorted(range(len(identifiers)), key=identifiers.__getitem__)] = np.arange(len(identifiers), dtype=np.int32)
    index = Index(
        starts=starts,
        documents=documents,
        divisors=divisors,
        largest=largest,
        order=order,
        vocabulary=np.frombuffer(b"".join([words[i] for i in numbers]), np.uint8),
        ends=np.cumsum([len(words[i]) for i in numbers], dtype=np.int64),
        numbers=numbers,
        filled=sum(length > 0 for length in reader.lengths),
    )
    if folder is not None:
        write(index, folder)
    return index


class _Reader:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.identifiers: list[str] = []
        self.lengths = array("i")
        self._remembered = lru_cache(MEMORY)(self._read)

    def runs(self, texts: Iterable[tuple[str, str]], block: int) -> Iterator[_Run]:
        found, first = array("i"), 0
        for identifier, text in texts:
            before = len(found)
            for chunk in text.replace("\n", " ").split(" "):
                found.extend(self._remembered(chunk) if len(chunk) <= CHUNK else self._read(chunk))
            self.identifiers.append(identifier)
            self.lengths.append(len(found) - before)
            if len(found) >= block:
                yield _run(found, self.lengths[first:], first)
                found, first = array("i"), len(self.lengths)
        if found:
            yield _run(found, self.lengths[first:], first)

    def _read(self, chunk: str) -> tuple[int, ...]:
        numbers = self.numbers
        return tuple([numbers.setdefault(term, len(numbers)) for term in terms(chunk)])


def _run(found: array[int], lengths: array[int], first: int) -> _Run:
    products = np.repeat(np.arange(first, first + len(lengths)), lengths)
    keys, counts = np.unique(np.array(found, np.int64) << 32 | products, return_counts=True)
    of_rows = (keys >> 32).astype(np.int32)
    changes = np.flatnonzero(np.diff(of_rows, prepend=-1))
    starts = np.append(changes, len(keys)).astype(np.int64)
    return of_rows[changes], starts, (keys & 0xFFFFFFFF).astype(np.int32), counts.astype(np.int32)


def _kept(run: _Run, path: Path | None) -> Callable[[], _Run]:
    if path is None:
        return lambda: run
    names = [f"{path}-{i}.npy" for i in range(len(run))]
    for name, values in zip(names, run, strict=True):
        np.save(name, np.asarray(values))
    return lambda: tuple([np.load(name, mmap_mode="r") for name in names])


def _ranges(starts: NDArray[np.int64], block: int) -> Iterator[tuple[int, int]]:
    first = 0
    while first < len(starts) - 1:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + block, "right")) - 1)
        yield first, last
        first = last


def _merged(runs: list[Callable[[], _Run]], first: int, last: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    parts = []
    for get in runs:
        run_terms, starts, products, counts = get()
        low, high = np.searchsorted(run_terms, [first, last])
        rows = slice(starts[low], starts[high])
        of_rows = np.repeat(run_terms[low:high], np.diff(starts[low : high + 1]))
        parts.append((of_rows, products[rows], counts[rows]))
    of_rows, products, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    sort = np.argsort(of_rows, kind="stable")
    return products[sort], counts[sort]


def _shares(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    filled = int((lengths > 0).sum())
    mean = np.float32(lengths.sum() / filled if filled else 1)
    one = np.float32(1)
    shares: NDArray[np.float32] = one / (K1 * ((one - B) + B * _coded(lengths).astype(np.float32) / mean))
    return shares


def _coded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    rest = np.maximum(lengths - 24, 0)
    drop = np.maximum(np.frexp(rest.astype(np.float64))[1] - 4, 0)
    return np.where(lengths < 24, lengths, 24 + (rest >> drop << drop))


class _Rows:
    """The rows of an index, term by term: in memory, or in the files of a folder."""

    def __init__(self, folder: Path | None, total: int) -> None:
        self._folder = folder
        self._kept: dict[str, list[NDArray[Any]]] = {name: [np.empty(0, kind)] for name, kind in _KINDS.items()}
        if folder is not None:
            for name, kind in _KINDS.items():
                with (folder / f"{name}.npy").open("wb") as file:
                    header = {"descr": kind, "fortran_order": False, "shape": (total,)}
                    np.lib.format.write_array_header_1_0(file, header)

    def add(self, *columns: NDArray[Any]) -> None:
        for name, values in zip(_KINDS, columns, strict=True):
            if self._folder is None:
                self._kept[name].append(values)
            else:
                with (self._folder / f"{name}.npy").open("ab") as file:
                    values.tofile(file)

    def finish(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        documents, divisors = (
            np.concatenate(kept) if self._folder is None else np.load(self._folder / f"{name}.npy", mmap_mode="r")
            for name, kept in self._kept.items()
        )
        return documents, divisors
