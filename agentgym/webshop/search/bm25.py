"""Lucene's BM25 on arrays: the same products, scores and order as Lucene for the same texts.

Scores are in single precision, summed in double precision, as in Lucene. A distinct query term with weight w = count in
the query x ln(1 + (N - df + 0.5) / (df + 0.5)) adds w - w / (1 + tf x n) to a product with tf occurrences, where n = 1
/ (k1 ((1 - b) + b L / mean length)), k1 = 0.9, b = 0.4, and L is the product's number of terms as Lucene's one-byte
code stores it. Equal scores are ordered by identifier. `bm25_build` makes the index.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
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
#: Maximum number and length of chunks (between spaces) whose terms are cached.
MEMORY, CHUNK = 1 << 17, 64
#: A larger number of candidates is partitioned before sorting.
_SORTED = 512
#: Maximum number of products of an index that scores all matches of a query at once.
_SMALL = 1 << 14
#: Number of keys that are sorted at once.
_ROW = 256
#: A key in such an index, from the lowest bit: the tie, then 31 bits of the score.
_TIE_BITS = 15
_LOW_TIE = (1 << _TIE_BITS) - 1
#: Maximum of queries times products that are scored together.
_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Index:
    """An inverted index.

    Attributes:
        starts: first row of each term, int64 of shape (terms + 1,).
        documents: positions of the products with a term, ascending within a term, int32 of shape (rows,).
        divisors: 1 + tf x n of each row, float32 of shape (rows,).
        largest: the largest divisor of each term, float32 of shape (terms,).
        order: rank of each product by identifier, int32 of shape (products,).
        vocabulary: all terms as UTF-8, sorted and concatenated; uint8.
        ends: end of each sorted term in `vocabulary`, int64 of shape (terms,).
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
        """Return the number of a term, -1 if no product has it."""
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
    """Memory-map an index that was built in a folder; a `DataError` if it is missing, damaged or of another version."""
    folder = Path(folder)
    facts = folder / "index.json"
    if not facts.is_file():
        raise DataError(f"{folder} contains no search index (index.json): build one with bm25_build.build(...)")
    if problem := damage(folder):
        raise DataError(f"{folder} contains no complete search index ({problem}): remove it and build it again")
    content = json.loads(facts.read_text())
    if content.get("format") != FORMAT:
        raise DataError(f"{facts} has format {content.get('format')!r}, expected {FORMAT}: build the index again")
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ROWS + _TERMS}
    return Index(**arrays, filled=content["filled"])


def write(index: Index, folder: Path) -> None:
    """Write an index whose rows are in the folder already, for `load`."""
    for name in _TERMS:
        np.save(folder / f"{name}.npy", getattr(index, name))
    (folder / "index.json").write_text(json.dumps({"format": FORMAT, "filled": index.filled}))
    seal(folder)


class _Part(NamedTuple):
    """A term of a query: its rows of an `Index`, its weight, and the maximum gain of a product by it."""

    documents: NDArray[np.int32]
    divisors: NDArray[np.float32]
    weight: np.float32
    most: float


class Bm25:
    """Search in an index from `bm25_build` or `load`."""

    def __init__(self, index: Index) -> None:
        self.index = index
        # Slicing a mapped array is slow: these are plain arrays over the same memory.
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
        self._remembered = lru_cache(MEMORY)(self._numbers)

    def __len__(self) -> int:
        return len(self._tie)

    def top(self, query: str, k: int) -> tuple[int, ...]:
        return tuple(self.ranked(query, k)[0].tolist())

    def answers(self, words: Sequence[tuple[int, ...]], k: int) -> list[tuple[int, ...]]:
        """Return `top` of several queries given by their `words`; a batch is cheaper in a small index."""
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
        """Return the numbers of a query's terms, rarest first, which determine the result."""
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
            candidates, sums = self._pruned(self._parts(words), k)
            keys, bits = self._keys(candidates, sums, 32), 32
            if len(keys) > _SORTED:
                keys = np.partition(keys, len(keys) - k)[len(keys) - k :] if len(keys) > k else keys
            keys.sort()
            best = keys[: -k - 1 : -1]
        return self._of_tie[best & ((1 << bits) - 1)], (best >> bits).astype(np.int32).view(np.float32)

    def _keys(self, products: NDArray[np.int64], sums: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
        """Return integers in the order of the result: the bits of a positive float32, then the tie in `bits`."""
        keys = sums.astype(np.float32).view(np.int32).astype(np.int64)
        keys <<= bits
        keys |= self._tie[products]
        return keys

    def _found(self, query: str) -> list[int]:
        found: list[int] = []
        for chunk in query.replace("\n", " ").split(" "):
            found += self._remembered(chunk) if len(chunk) <= CHUNK else self._numbers(chunk)
        return found

    def _numbers(self, chunk: str) -> tuple[int, ...]:
        return tuple([number for number in map(self.index.find, terms(chunk)) if number >= 0])

    def _parts(self, words: tuple[int, ...]) -> list[_Part]:
        parts = []
        for number, count in Counter(words).items():
            rows = slice(self._starts[number], self._starts[number + 1])
            weight = np.float32(count) * self._weights[number]
            most = float(weight - weight / self._largest[number])
            parts.append(_Part(self._documents[rows], self._divisors[rows], weight, most))
        return parts

    def _all(self, queries: Sequence[tuple[int, ...]], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Score, for each of a few queries, every product that has any of its terms.

        `queries`: `words` of each; gains are added in their order. Returns `_keys` of the best `k` products, best
        first, one row per query, padded with zeros, and their numbers.
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
        # numpy finds true values ten times faster than values other than 0.0
        found = (sums > 0).nonzero()[0]
        lengths = found.searchsorted((several + 1) * size)
        lengths[1:] -= lengths[:-1].copy()
        keys = self._keys(found - (several * size).repeat(lengths), sums[found], _TIE_BITS)
        return _best(keys, lengths, k), np.minimum(lengths, k)

    @cached_property
    def _gained(self) -> NDArray[np.float64]:
        """The gain of each row's product by its term for a query with one such term, in single precision."""
        weights = self._weights.repeat(self._rows)
        return (weights - weights / self._divisors).astype(np.float64)

    @cached_property
    def _rank(self) -> list[int]:
        """The place of each term when sorted by its number of rows."""
        rank = np.empty(len(self._rows), np.int64)
        rank[np.argsort(self._rows, kind="stable")] = np.arange(len(rank))
        return rank.tolist()

    def _pruned(self, parts: list[_Part], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Score at least the best `k` products, ties included, without reading all rows of common terms.

        Rarest terms come first. When the maximum gain of the other terms is below the k-th best sum, no further product
        can enter, and the other terms are looked up for the candidates only.
        """
        rest = [*np.cumsum([part.most for part in reversed(parts)])[::-1].tolist(), 0.0]
        sums, enough, done = np.zeros(len(self)), 0.0, 0
        while done < len(parts) and rest[done] >= enough:
            part = parts[done]
            sums[part.documents] += part.weight - part.weight / part.divisors
            enough = max(enough, _kth(sums[part.documents], k))
            done += 1
        candidates = np.flatnonzero(sums >= max(enough - rest[done], np.finfo(np.float32).tiny)).astype(np.int32)
        scores = sums[candidates]
        for i in range(done, len(parts)):
            scores += _looked_up(candidates, parts[i])
            enough = max(enough, _kth(scores, k))
            stay = scores + rest[i + 1] >= enough
            candidates, scores = candidates[stay], scores[stay]
        return candidates.astype(np.int64), scores


def _looked_up(documents: NDArray[np.int32], part: _Part) -> NDArray[np.float32]:
    """Return the gains of products by a term, 0 without it; `documents` ascending."""
    found = np.minimum(np.searchsorted(part.documents, documents), len(part.documents) - 1)
    gains = part.weight - part.weight / part.divisors[found]
    return np.where(part.documents[found] == documents, gains, np.float32(0))


def _best(keys: NDArray[np.int64], lengths: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the `k` largest of each of several consecutive runs of positive keys, descending, padded with zeros."""
    width = int(lengths.max())
    # numpy sorts rows of up to `_ROW` numbers ten times faster per number than longer ones, so the best of a long run
    # are selected from the best of its parts.
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
    """Return the k-th largest value, reduced by the rounding to single precision; 0 if there are fewer."""
    if len(values) < k:
        return 0.0
    return float(np.partition(values, len(values) - k)[len(values) - k]) * (1 - 1e-6)
