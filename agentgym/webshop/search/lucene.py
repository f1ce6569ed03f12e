"""Lucene as the search, through pyserini and Anserini: for checks against the original, and for existing indexes.

It needs the extra `search` and Java 11 or newer for pyserini up to 0.25, 21 or newer from 0.35 (April 2024). Recorded
answers are equal with pyserini 0.17.1, 0.22.1, 0.44.0 and 1.6.0, on Java 17, 21 and 25. The first search starts Java,
once per process; it cannot be stopped and does not survive a fork.
"""

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
    """A `search.Search` in a Lucene index of the catalogue, from `build` or the original's program.

    Without pyserini an ImportError, without a suitable Java a RuntimeError, without an index a `DataError`.
    """

    def __init__(self, catalogue: Catalogue, folder: str | Path) -> None:
        if not any(Path(folder).glob("segments_*")):
            raise DataError(
                f"{folder} contains no Lucene index: build one with agentgym.webshop.search.lucene.build(...)"
            )
        self._catalogue = catalogue
        self._searcher = _load("pyserini.search.lucene").LuceneSearcher(str(folder))

    def top(self, query: str, k: int) -> tuple[int, ...]:
        """Return the positions of the best `k` products; Lucene uses the first 1,024 different words of a query."""
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
        return query

    def answers(self, words: Sequence[str], k: int) -> list[tuple[int, ...]]:
        return [self.top(query, k) for query in words]


def _load(module: str) -> Any:
    try:
        version = importlib.metadata.version("pyserini")
    except importlib.metadata.PackageNotFoundError as error:
        raise ImportError(
            f"Lucene needs pyserini and Java 21: {install('search')}; or use the search 'bm25', which has the same "
            "results without them"
        ) from error
    java = 21 if tuple(map(int, version.split(".")[:2])) >= _FIRST_WITH_JAVA_21 else 11
    try:
        return importlib.import_module(module)
    except ImportError:
        raise
    except Exception as error:
        raise RuntimeError(
            f"pyserini {version} could not start: it needs Java {java} or newer (set JAVA_HOME to its folder): "
            f"{type(error).__name__}: {error}"
        ) from error
