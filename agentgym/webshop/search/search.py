"""The interface of a search, and a cache of recent results around any search."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol

from agentgym.webshop.catalogue import Product


class Search(Protocol):
    """Finds products by words: `bm25.Bm25` or `lucene.Lucene`."""

    def top(self, query: str, k: int) -> tuple[int, ...]:
        """Return the positions of at most `k` products that match a query, best first; none without words."""

    def words(self, query: str) -> Hashable:
        """Return what the result depends on; the same words in another order may have the same result."""

    def answers(self, words: Sequence[Any], k: int) -> list[tuple[int, ...]]:
        """Return `top` of several queries, in their order, by their `words`."""

    def __hash__(self) -> int:
        """Identity: results are cached by search."""


_Answers = OrderedDict[tuple[Hashable, int], tuple[int, ...]]


class Recent:
    """A search with a cache of recent results, which environments may share.

    `size`: maximum number of cached queries, and of different words; `longest`: maximum length of a cached query.
    """

    def __init__(self, search: Search, size: int = 4096, longest: int = 512) -> None:
        self.search, self._size, self._longest = search, size, longest
        self._kept: _Answers = OrderedDict()
        self._by_words: _Answers = OrderedDict()

    def top(self, query: str, k: int) -> tuple[int, ...]:
        found = self._kept.get((query, k))
        return self.tops([query], k)[0] if found is None else found

    def tops(self, queries: Sequence[str], k: int) -> list[tuple[int, ...]]:
        """Return `top` of several queries; those with new words are searched together."""
        kept = {query: self._kept.get((query, k)) for query in queries}
        words = {query: self.search.words(query) for query, found in kept.items() if found is None}
        known = {each: self._by_words.get((each, k)) for each in words.values()}
        new = {each: query for query, each in words.items() if known[each] is None}
        for (each, query), answer in zip(new.items(), self.search.answers(list(new), k), strict=True):
            known[each] = answer
            self._keep(self._by_words, query, (each, k), answer)
        for query, each in words.items():
            kept[query] = found = known[each]
            if found is not None:
                self._keep(self._kept, query, (query, k), found)
        return [found for query in queries if (found := kept[query]) is not None]

    def clear(self) -> None:
        self._kept.clear()
        self._by_words.clear()

    def _keep(self, kept: _Answers, query: str, key: tuple[Hashable, int], found: tuple[int, ...]) -> None:
        if len(query) <= self._longest:
            kept[key] = found
            if len(kept) > self._size:
                kept.popitem(last=False)


def search_text(product: Product) -> str:
    """Return the searched text of a product: title, description, first bullet and options, in lower case."""
    options = ", and ".join([f"{name}: {', '.join(values)}" for name, values in product.options])
    first = product.bullets[0] if product.bullets else ""
    return f"{product.title} {product.description} {first} {options}".lower()


def documents(products: Iterable[Product]) -> Iterable[tuple[str, str]]:
    """Yield (identifier, text) of products, for the indexes."""
    return ((product.asin, search_text(product)) for product in products)
