"""Lucene's BM25 on arrays: the same products, scores and order as Lucene gives for the same texts.

Scores are computed as Lucene computes them, in single precision summed in double precision. For each distinct term of
a query, with the weight w = count in the query x ln(1 + (N - df + 0.5) / (df + 0.5)), a product that holds it tf times
gains w - w / (1 + tf x n), where n = 1 / (k1 ((1 - b) + b L / mean length)), k1 = 0.9, b = 0.4, and L is the product's
number of terms as Lucene's one-byte code keeps it. Equal scores are ordered by identifier.

The index holds 1 + tf x n, ready for scoring; `bm25_build` makes it, in memory or in a folder.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentgym.outside.files import damage, seal
from agentgym.outside.text import DataError
from agentgym.webshop.search.analyser import terms

K1, B = np.float32(0.9), np.float32(0.4)
FORMAT = 1
_ROWS = ("documents", "divisors")
_TERMS = ("starts", "largest", "order", "vocabulary", "ends", "numbers")
#: Chunks of text (what spaces separate) whose terms are remembered, and their greatest length.
MEMORY, CHUNK = 1 << 17, 64
#: More candidates are parted before they are sorted.
_SORTED = 512
#: Up to so many products, all matches of a query are scored at once.
_SMALL = 1 << 14
#: Keys that are sorted at once.
_ROW = 256
#: Of a key in such an index, from below: the tie, and 31 bits of the score.
_TIE_BITS = 15
_LOW_TIE = (1 << _TIE_BITS) - 1
#: Queries times products that are scored together at most.
_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Index:
    """Which terms products hold.

    Attributes:
        starts: where each term's rows start, int64 of shape (terms + 1,).
        documents: positions of the products that hold a term, ascending within a term, int32 of shape (rows,).
        divisors: 1 + tf x n of each row, float32 of shape (rows,).
        largest: the largest divisor of each term, float32 of shape (terms,).
        order: place of each product when sorted by identifier, int32 of shape (products,).
        vocabulary: all terms as UTF-8, sorted, in one piece; uint8.
        ends: where each sorted term ends in `vocabulary`, int64 of shape (terms,).
        numbers: number of each sorted term in the arrays above, int32 of shape (terms,).
        filled: number of products with at least one term.
    """

    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    divisors: NDArray[np.float32]
    largest: NDArray[np.float32]
    order: NDArray[np.int32]
    vocabulary: NDArray[np.uint8]
    ends: NDArray[np.int64]
    numbers: NDArray[np.int32]
    filled: int

    def find(self, term: str) -> int:
        """Return the number of a term, -1 when no product holds it."""
        wanted, text, ends = term.encode("utf-8", "surrogatepass"), self.vocabulary, self.ends
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            found = text[ends[middle - 1] if middle else 0 : ends[middle]].tobytes()
            if found == wanted:
                return int(self.numbers[middle])
            if found < wanted:
                low = middle + 1
            else:
                high = middle
        return -1


def load(folder: str | Path) -> Index:
    """Open an index that was built in a folder; its arrays stay on the disk, mapped into memory.

    Raises:
        DataError: when the folder holds no index, a file is damaged or missing, or another version wrote it.
    """
    folder = Path(folder)
    facts = folder / "index.json"
    if not facts.is_file():
        raise DataError(f"{folder} holds no search index (index.json): build one with bm25_build.build(...)")
    if problem := damage(folder):
        raise DataError(f"{folder} holds no whole search index ({problem}): remove it and build it again")
    content = json.loads(facts.read_text())
    if content.get("format") != FORMAT:
        raise DataError(f"{facts} has format {content.get('format')!r}, expected {FORMAT}: build the index again")
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ROWS + _TERMS}
    return Index(**arrays, filled=content["filled"])


def write(index: Index, folder: Path) -> None:
    """Write an index whose rows are in the folder already, so that `load` finds it."""
    for name in _TERMS:
        np.save(folder / f"{name}.npy", getattr(index, name))
    (folder / "index.json").write_text(json.dumps({"format": FORMAT, "filled": index.filled}))
    seal(folder)


class _Part(NamedTuple):
    """A term of a query: its rows in the index, its weight, and the largest divisor among its rows."""

    rows: int
    start: int
    weight: np.float32
    largest: np.float32

    def most(self) -> float:
        """Return the most that a product gains by the term."""
        return float(self.weight - self.weight / self.largest)


class Bm25:
    """Search in an index from `bm25_build` or `load`."""

    def __init__(self, index: Index) -> None:
        self.index = index
        # A mapped array is slow to slice: these are the same memory as plain arrays.
        self._starts, self._documents = np.asarray(index.starts), np.asarray(index.documents)
        self._divisors, self._largest = np.asarray(index.divisors), np.asarray(index.largest)
        self._rows = np.diff(self._starts)
        rarity = np.log(1 + (index.filled - self._rows + 0.5) / (self._rows + 0.5))
        self._weights: NDArray[np.float32] = rarity.astype(np.float32)
        self._tie = np.asarray(index.order).astype(np.int64)
        self._tie *= -1
        self._tie += len(self._tie)
        self._of_tie = np.empty(len(self._tie) + 1, np.int64)
        self._of_tie[self._tie] = np.arange(len(self._tie))
        self._chunks: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._tie)

    def top(self, query: str, k: int) -> tuple[int, ...]:
        """Return the positions of the best `k` products, best first."""
        return tuple(self.ranked(query, k)[0].tolist())

    def answers(self, words: Sequence[tuple[int, ...]], k: int) -> list[tuple[int, ...]]:
        """Return `top` of several queries by their `words`; together they cost less in an index of few products."""
        if len(self) > _SMALL or k < 1:
            return [tuple(self._ranked(each, k)[0].tolist()) for each in words]
        found: list[tuple[int, ...]] = []
        together = max(1, _AT_ONCE // max(1, len(self)))
        for first in range(0, len(words), together):
            best, counts = self._all(words[first : first + together], k)
            positions = self._of_tie[best & _LOW_TIE].tolist()
            found += [tuple(row[:count]) for row, count in zip(positions, counts.tolist(), strict=True)]
        return found

    def words(self, query: str) -> tuple[int, ...]:
        """Return the numbers of a query's terms, rarest first: an answer depends on nothing else."""
        return tuple(sorted(self._found(query), key=self._rank.__getitem__))

    def ranked(self, query: str, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return positions and scores of the best `k` products, best first; shapes (found,)."""
        return self._ranked(self.words(query), k)

    def _ranked(self, words: tuple[int, ...], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if not words or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if len(self) <= _SMALL:
            rows, counts = self._all([words], k)
            best, bits = rows[0, : counts[0]], _TIE_BITS
        else:
            candidates, sums = self._pruned(self._parts(Counter(words)), k)
            keys, bits = self._keys(candidates, sums, 32), 32
            if len(keys) > _SORTED:
                keys = np.partition(keys, len(keys) - k)[len(keys) - k :] if len(keys) > k else keys
            keys.sort()
            best = keys[: -k - 1 : -1]
        return self._of_tie[best & ((1 << bits) - 1)], (best >> bits).astype(np.int32).view(np.float32)

    def _keys(self, products: NDArray[np.int64], sums: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
        """Return whole numbers that are ordered as the answer: the score and, in the lowest `bits`, the tie.

        A positive float32 is ordered as its bits are.
        """
        keys = sums.astype(np.float32).view(np.int32).astype(np.int64)
        keys <<= bits
        keys |= self._tie[products]
        return keys

    def _found(self, query: str) -> list[int]:
        """Return the numbers of the terms of a query that some product holds, in order."""
        found: list[int] = []
        for chunk in query.replace("\n", " ").split(" "):
            known = self._chunks.get(chunk)
            if known is None:
                if len(self._chunks) >= MEMORY:
                    self._chunks.clear()
                known = tuple([number for number in map(self.index.find, terms(chunk)) if number >= 0])
                if len(chunk) <= CHUNK:
                    self._chunks[chunk] = known
            found += known
        return found

    def _parts(self, wanted: Mapping[int, int]) -> list[_Part]:
        """Return terms as parts of a query, rarest first."""
        return sorted([
            _Part(
                int(self._rows[number]), int(self._starts[number]), np.float32(count) * self._weights[number],
                self._largest[number],
            )
            for number, count in wanted.items()
        ])  # fmt: skip

    def _all(self, queries: Sequence[tuple[int, ...]], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Score, for each of a few queries, every product that holds any of its terms.

        Args:
            queries: `words` of each; the gains of a product are added in their order.
            k: how many products to return of each.

        Returns:
            `_keys` of the best products, best first, one row for each query, zeros behind the last; and how many there
            are.
        """
        size, several = len(self), np.arange(len(queries))
        ordered = [dict.fromkeys(words) for words in queries]
        numbers = np.array(list(chain.from_iterable(ordered)), np.int64)
        lengths = self._rows[numbers]
        # All rows of all terms, one term after the other.
        ends = lengths.cumsum()
        rows = (self._starts[numbers] - ends + lengths).repeat(lengths)
        rows += np.arange(len(rows))
        gains = self._gained[rows]
        if len(numbers) < sum(map(len, queries)):
            counts = [words.count(number) for words, each in zip(queries, ordered, strict=True) for number in each]
            weights = (self._weights[numbers] * np.array(counts, np.float32)).repeat(lengths)
            gains = weights - weights / self._divisors[rows]
        # Product p of the i-th query is i * size + p.
        starts = (several * size).repeat([len(each) for each in ordered])
        sums: NDArray[Any] = np.bincount(self._documents[rows] + starts.repeat(lengths), gains, len(queries) * size)
        # numpy finds what is true ten times faster than what is not 0.0
        found = (sums > 0).nonzero()[0]
        lengths = found.searchsorted((several + 1) * size)
        lengths[1:] -= lengths[:-1].copy()
        keys = self._keys(found - (several * size).repeat(lengths), sums[found], _TIE_BITS)
        return _best(keys, lengths, k), np.minimum(lengths, k)

    @cached_property
    def _gained(self) -> NDArray[np.float64]:
        """What the product of each row gains by its term where a query holds that once, in single precision."""
        weights = self._weights.repeat(self._rows)
        return (weights - weights / self._divisors).astype(np.float64)

    @cached_property
    def _rank(self) -> list[int]:
        """The place of each term when sorted by its number of rows."""
        rank = np.empty(len(self._rows), np.int64)
        rank[np.argsort(self._rows, kind="stable")] = np.arange(len(rank))
        return rank.tolist()

    def _gains(self, part: _Part) -> NDArray[np.float32]:
        return part.weight - part.weight / self._divisors[part.start : part.start + part.rows]

    def _pruned(self, parts: list[_Part], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Score at least the best `k` products, ties included, without reading all rows of common terms.

        The rarest terms come first. Once what the remaining terms could give is below the k-th best sum so far, no
        further product can enter: the remaining terms are looked up for the candidates only.
        """
        rest = [*np.cumsum([part.most() for part in reversed(parts)])[::-1].tolist(), 0.0]
        sums, enough, done = np.zeros(len(self)), 0.0, 0
        while done < len(parts) and rest[done] >= enough:
            documents = self._products(parts[done])
            sums[documents] += self._gains(parts[done])
            enough = max(enough, _kth(sums[documents], k))
            done += 1
        candidates = np.flatnonzero(sums >= max(enough - rest[done], np.finfo(np.float32).tiny)).astype(np.int32)
        scores = sums[candidates]
        for i in range(done, len(parts)):
            scores += self._looked_up(candidates, parts[i])
            enough = max(enough, _kth(scores, k))
            stay = scores + rest[i + 1] >= enough
            candidates, scores = candidates[stay], scores[stay]
        return candidates.astype(np.int64), scores

    def _looked_up(self, documents: NDArray[np.int32], part: _Part) -> NDArray[np.float32]:
        """Return what products gain by a term, 0 where they lack it; `documents` ascending."""
        rows = self._products(part)
        found = np.minimum(np.searchsorted(rows, documents), part.rows - 1)
        gains = part.weight - part.weight / self._divisors[part.start + found]
        return np.where(rows[found] == documents, gains, np.float32(0))

    def _products(self, part: _Part) -> NDArray[np.int32]:
        return self._documents[part.start : part.start + part.rows]


def _best(keys: NDArray[np.int64], lengths: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the `k` largest of each of several runs of positive keys, largest first, zeros behind the last.

    Args:
        keys: one run after the other.
        lengths: of the runs.
        k: how many.
    """
    width = int(lengths.max())
    # numpy sorts rows of up to `_ROW` numbers without branches, at a tenth of the time per number of longer ones; so
    # the best of a long run are found among the best of its parts.
    parts = -(-width // _ROW) if k <= _ROW // 2 else 1
    stride = parts * _ROW if parts > 1 else width
    rows = np.zeros((len(lengths), stride), np.int64)
    starts = np.arange(len(lengths)) * stride - lengths.cumsum() + lengths
    rows.ravel()[np.arange(len(keys)) + starts.repeat(lengths)] = keys
    while parts > 1:
        halves = rows.reshape(-1, _ROW)
        halves.sort(axis=1)
        rows = halves[:, _ROW - k :].reshape(len(lengths), -1)
        width = rows.shape[1]
        parts = -(-width // _ROW)
        if parts > 1:
            rows = np.pad(rows, ((0, 0), (0, parts * _ROW - width)))
    rows.sort(axis=1)
    return rows[:, : -k - 1 : -1]


def _kth(values: NDArray[np.float64], k: int) -> float:
    """Return the k-th largest value, a little less for the rounding to single precision; 0 when there are fewer."""
    if len(values) < k:
        return 0.0
    return float(np.partition(values, len(values) - k)[len(values) - k]) * (1 - 1e-6)
