"""Lucene itself as the search, through pyserini and Anserini: for checks against the original, and for its own indexes.

`bm25` gives the same products in the same order without Java; docs/environments/webshop.md compares both on a large
catalogue. Needed are the extra `search` and a Java that fits the installed pyserini: 11 or newer up to pyserini
0.25, 21 or newer from 0.35 (April 2024) on. The recorded answers that the tests compare with come out the same with
pyserini 0.17.1, 0.22.1, 0.44.0 and 1.6.0, on Java 17, 21 and 25.

The first search starts the Java machine, one per process; it cannot be stopped, nor survive a fork.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym.outside.packages import install
from agentgym.outside.text import DataError
from agentgym.webshop.catalogue import Catalogue

_FIRST_WITH_JAVA_21 = (0, 35)


def build(texts: Iterable[tuple[str, str]], folder: str | Path) -> None:
    """Write a Lucene index of texts (as from `search.documents`) into a folder, as the original's program does."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    indexer = _load("pyserini.index.lucene").LuceneIndexer(str(folder), threads=1)
    for identifier, text in texts:
        indexer.add_doc_dict({"id": identifier, "contents": text})
    indexer.close()


class Lucene:
    """Search in a Lucene index; a `search.Search`.

    Args:
        catalogue: gives the positions of the asins that Lucene finds; asins that it lacks are left out.
        folder: a Lucene index of the catalogue, from `build` or from the original's own program.

    Raises:
        DataError: when the folder holds no Lucene index.
        ImportError: without pyserini.
        RuntimeError: without a Java that fits it.
    """

    def __init__(self, catalogue: Catalogue, folder: str | Path) -> None:
        if not any(Path(folder).glob("segments_*")):
            raise DataError(f"{folder} holds no Lucene index: make one with agentgym.webshop.search.lucene.build(...)")
        self._catalogue = catalogue
        self._searcher = _load("pyserini.search.lucene").LuceneSearcher(str(folder))

    def top(self, query: str, k: int) -> tuple[int, ...]:
        """Return the positions of the best `k` products, best first.

        Lucene takes 1,024 different words; of a longer query as many words from the start are used as it takes.
        """
        if k < 1:
            return ()
        query = query.encode("utf-8", "replace").decode()  # Java takes no half of a character
        while True:
            try:
                hits = self._searcher.search(query, k=k)
                break
            except Exception as error:
                if "clause" not in str(error).lower() or " " not in query:
                    raise
                words = query.split(" ")
                query = " ".join(words[: len(words) * 3 // 4])
        positions = [self._catalogue.find(hit.docid) for hit in hits]
        return tuple([position for position in positions if position is not None])

    def words(self, query: str) -> str:
        """Return the query."""
        return query

    def answers(self, words: Sequence[str], k: int) -> list[tuple[int, ...]]:
        """Return `top` of several queries, in their order."""
        return [self.top(query, k) for query in words]


def _load(module: str) -> Any:
    """Import a module of pyserini, which starts Java."""
    try:
        version = importlib.metadata.version("pyserini")
    except importlib.metadata.PackageNotFoundError as error:
        raise ImportError(
            f"Lucene needs pyserini and Java 21: {install('search')}; or use the search "
            "'bm25', which gives the same products in the same order and needs neither"
        ) from error
    java = 21 if tuple(map(int, version.split(".")[:2])) >= _FIRST_WITH_JAVA_21 else 11
    try:
        return importlib.import_module(module)
    except ImportError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"pyserini {version} could not start: it needs Java {java} or newer (set JAVA_HOME to its folder); it says "
            f"{type(error).__name__}: {error}"
        ) from error
